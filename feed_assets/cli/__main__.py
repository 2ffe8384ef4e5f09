"""`python -m feed_assets.cli`: the command line, if the script is not on the PATH."""

from feed_assets.cli.main import main

main(prog_name="feed-assets")
