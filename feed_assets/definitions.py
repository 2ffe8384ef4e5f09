"""The address of the worked example for Dagster, as `workspace.yaml` has it. The example itself is in `ads`."""

from feed_assets.ads.definitions import build_definitions, defs

__all__ = ["build_definitions", "defs"]
