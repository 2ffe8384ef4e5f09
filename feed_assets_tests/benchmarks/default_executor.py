"""The project's definitions under Dagster's default executor, which gives every step a process of its own.

Here: what `dagster asset materialize` is pointed at. Not here: anything else; the project itself runs steps in one
process, because each of these starts a Spark.
"""

from __future__ import annotations

import dagster as dg

from feed_assets.ads.definitions import build_definitions
from feed_assets.resources.settings import Settings


def _without_executor(own: dg.Definitions) -> dg.Definitions:
    return dg.Definitions(assets=own.assets, asset_checks=own.asset_checks, resources=own.resources)


defs = _without_executor(build_definitions(Settings.from_environment()))
