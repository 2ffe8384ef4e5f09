"""`python -m feed_assets.cli`: the command line, where the script is not on the path."""

from feed_assets.cli import main

main(prog_name="feed-assets")
