"""The demo: the main job on real logs, with late and with broken data, shown as it happens.

Here: the story and its deliveries. Not here: anything the product needs; all of it is called as a user would call it.
"""

DEMO_BASE = "demo-data"
"""Where the demo's data is, below the working directory, unless FEED_ASSETS_BASE names another place."""

OWN_HOME = ".dagster"
"""A Dagster home of its own in a base, as the demo has one, or in a directory without any configuration of Dagster."""
