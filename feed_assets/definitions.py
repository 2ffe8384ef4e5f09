"""The address of the worked example for Dagster, as `workspace.yaml` has it. The example itself is in `ads`."""

from feed_assets.ads.definitions import definitions_of_environment

defs = definitions_of_environment()
