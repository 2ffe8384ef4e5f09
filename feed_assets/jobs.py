"""The usual selections as jobs, for people, schedules and scripts; the sensors choose their own selections.

Here: the jobs. Not here: the assets in them, or when they run (`schedules`, `sensors`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

PROCESS_DAY, EFFECTIVENESS = "process_day", "effectiveness"


def define_jobs(
    clean: Sequence[dg.AssetsDefinition],
    derived: Sequence[dg.AssetsDefinition],
    partitions: dg.PartitionsDefinition,
    *,
    run_config: Mapping[str, Any],
) -> list[Any]:
    """`process_day` makes everything of a day, `effectiveness` what is derived. A job without assets is left out.

    There is no job of checks alone: Dagster 1.13 gives such a job no partitions.
    """
    selections = {
        PROCESS_DAY: (
            [*clean, *derived],
            "Everything of a day: cleaned, checked, published, and the derived feeds.",
        ),
        EFFECTIVENESS: (derived, "Ad effectiveness of a day from the cleaned feeds in force."),
    }
    return [
        dg.define_asset_job(
            name,
            selection=dg.AssetSelection.assets(*assets),
            partitions_def=partitions,
            config=dict(run_config),
            description=description,
        )
        for name, (assets, description) in selections.items()
        if assets
    ]
