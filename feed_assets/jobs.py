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
    made = [*clean, *derived]
    if not made:
        return []
    all_made, last = (dg.AssetSelection.assets(*assets) for assets in (made, derived))
    config = dict(run_config)
    found = [
        dg.define_asset_job(
            PROCESS_DAY,
            selection=all_made,
            partitions_def=partitions,
            config=config,
            description="Everything of a day: cleaned, checked, published, and what is derived from it.",
        ),
    ]
    if derived:
        found.append(
            dg.define_asset_job(
                EFFECTIVENESS,
                selection=last,
                partitions_def=partitions,
                config=config,
                description="Ad effectiveness of a day from the cleaned feeds in force.",
            )
        )
    return found
