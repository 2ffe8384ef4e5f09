"""The project's definitions under Dagster's default executor, which gives every step a process of its own.

Here: what `dagster asset materialize` is pointed at. Not here: anything else; the project itself runs steps in one
process, because each of these starts a Spark.
"""

from __future__ import annotations

import dagster as dg

from feed_assets.definitions import build_definitions
from feed_assets.resources import Settings

_own = build_definitions(Settings.from_environment())
defs = dg.Definitions(assets=_own.assets, asset_checks=_own.asset_checks, resources=_own.resources)
