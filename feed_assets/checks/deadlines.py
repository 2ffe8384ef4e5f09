"""The check of each asset with a deadline: whether its runs will keep it, by their history.

Here: the check, which warns and blocks nothing. Not here: the forecast (`run_history`), and notices
(`sensors.run_history`).
"""

import warnings
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, time
from typing import Final

import dagster as dg

from feed_assets.feed_events.declarations import declared_deadline, specs_of
from feed_assets.feed_events.health import metadata_of
from feed_assets.resources.storage import BlackboardResource, StateResource
from feed_assets.run_history.executions import ASSET
from feed_assets.run_history.health import DEADLINE, health_of
from feed_assets.run_history.tables import executions_of

KEEPS_DEADLINE: Final = "keeps_deadline"


def deadline_checks(assets: Iterable[dg.AssetsDefinition | dg.AssetSpec]) -> Iterator[dg.AssetChecksDefinition]:
    """The check of each asset that declares a deadline. Raises DagsterInvalidDefinitionError if it is hourly."""
    for spec in (spec for asset in assets for spec in specs_of(asset)):
        deadline = declared_deadline(spec.metadata)
        if deadline is None:
            continue
        if isinstance(spec.partitions_def, dg.HourlyPartitionsDefinition):
            raise dg.DagsterInvalidDefinitionError(
                f"{spec.key.to_user_string()} has a deadline, a time of day, and hours as partitions: give the "
                "deadline to a daily asset."
            )
        yield _check(spec, deadline)


def _check(spec: dg.AssetSpec, deadline: time) -> dg.AssetChecksDefinition:
    key, series = spec.key, f"{ASSET}{spec.key.to_user_string()}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)  # partitions of a check, as for audits
        declared = dg.AssetCheckSpec(
            KEEPS_DEADLINE,
            asset=key,
            description=f"The daily run ends before {deadline:%H:%M} UTC, also in two weeks, if it goes on to grow.",
            partitions_def=spec.partitions_def,
        )

    @dg.multi_asset_check(name=f"{key.to_python_identifier()}_{KEEPS_DEADLINE}", specs=[declared])
    def check(blackboard: BlackboardResource, state: StateResource) -> Iterator[dg.AssetCheckResult]:
        known = executions_of(state.store, blackboard.blackboard.uri(""), series=series).get(series, [])
        found = health_of(series, known, deadline, datetime.now(UTC).date())
        yield dg.AssetCheckResult(
            asset_key=key,
            check_name=KEEPS_DEADLINE,
            passed=DEADLINE not in found.warnings,
            severity=dg.AssetCheckSeverity.WARN,
            description=" ".join(found.sentences),
            metadata=metadata_of(found),
        )

    return check
