"""Jobs over the usual selections of assets, for people, schedules and scripts; sensors select assets themselves."""

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
    """The job `process_day` over all assets, and `effectiveness` over derived assets. A job without assets is left out.

    No job has checks only, because Dagster 1.13 gives such a job no partitions.
    """
    selections = {
        PROCESS_DAY: ([*clean, *derived], "Cleans, checks and publishes a day, and computes the derived feeds."),
        EFFECTIVENESS: (derived, "Computes ad effectiveness of a day from the cleaned feeds in force."),
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
