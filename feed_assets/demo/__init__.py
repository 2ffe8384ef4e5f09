"""The demo: the main job on real logs, with late and with broken data, step by step.

Here: the story and its deliveries. Not here: anything the product needs. The demo calls the product as a user does.
"""

DEMO_BASE = "demo-data"
"""The directory of the demo's data in the working directory, unless FEED_ASSETS_BASE names another."""

OWN_HOME = ".dagster"
"""The Dagster home in a base, as in the demo's, or in a working directory without a `dagster.yaml`."""
