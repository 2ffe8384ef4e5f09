"""The checks of each source's raw asset: whether the source sends as expected, and the columns that are described.

Here: the checks, which warn and block nothing; the sensor `arrivals` reports them, too. Not here: the rules
(`arrivals`), and notices (`sensors.arrivals`).
"""

from collections.abc import Iterable, Iterator

import dagster as dg

from feed_assets.arrivals.answers import answer
from feed_assets.assets.external import raw_key
from feed_assets.feed_events.arrivals import ABOUT, ARRIVES, COLUMNS, metadata_of, passes, says
from feed_assets.resources.settings import Clock
from feed_assets.resources.storage import BlackboardResource, StateResource
from feed_assets.sources.spec import Source


def arrival_checks(sources: Iterable[Source]) -> Iterator[dg.AssetChecksDefinition]:
    """The checks of the raw asset of each source."""
    for source in sources:
        for name in checks_of(source):
            yield _check(source, name)


def checks_of(source: Source) -> list[str]:
    """The names of the checks that a source has."""
    return [*([ARRIVES] if source.expect_every else []), COLUMNS]


def _check(source: Source, name: str) -> dg.AssetChecksDefinition:
    key = raw_key(source)
    spec = dg.AssetCheckSpec(name, asset=key, description=ABOUT[name])

    @dg.multi_asset_check(name=f"{key.to_python_identifier()}_{name}", specs=[spec])
    def check(blackboard: BlackboardResource, state: StateResource, clock: Clock) -> Iterator[dg.AssetCheckResult]:
        found = answer(state.store, blackboard.blackboard.uri(""), source, now=clock.now())
        yield dg.AssetCheckResult(
            asset_key=key,
            check_name=name,
            passed=passes(found, name),
            severity=dg.AssetCheckSeverity.WARN,
            description=says(found, name),
            metadata=metadata_of(found, name),
        )

    return check
