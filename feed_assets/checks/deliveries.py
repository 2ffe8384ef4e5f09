"""The checks of a delivery: the stream has every row, the store has settled them, and answers with them.

Here: the ledger's account of the last edition of a partition as Dagster's checks. Not here: the account itself
(`delivery.audit`), and when the checks run again (`sensors.deliveries`).
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import dagster as dg

from feed_assets.assets.deliveries import deliverer_of
from feed_assets.blackboard.port import NotFoundError
from feed_assets.delivery.audit import Account, account, summarize
from feed_assets.delivery.delivering import Deliverer
from feed_assets.delivery.destination import Destination
from feed_assets.delivery.errors import DeliveryError
from feed_assets.delivery.ledger import Begun
from feed_assets.delivery.lookups import answers
from feed_assets.io_manager.retries import retrying
from feed_assets.resources.settings import Clock
from feed_assets.resources.storage import BlackboardResource, StateResource

ALL_ACKED: Final = "all_acked"
SETTLED: Final = "settled"
LOOKUPS: Final = "lookups"

_ABOUT: Final = {
    ALL_ACKED: "The stream has acknowledged every row of the last delivery.",
    SETTLED: "Every row of the last delivery has arrived where the destination says; else it warns, and fails when it "
    "is overdue.",
    LOOKUPS: "100 keys of the last delivery answer with its version, or with a newer one.",
}
_WARN, _ERROR = dg.AssetCheckSeverity.WARN, dg.AssetCheckSeverity.ERROR


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of a check for one partition."""

    passed: bool
    text: str
    severity: dg.AssetCheckSeverity = _ERROR


def delivery_checks(asset: dg.AssetsDefinition, to: Destination, folder: Path) -> dg.AssetChecksDefinition:
    """The checks of the asset that delivers to a destination; `folder` is that of this machine."""
    names = names_of(to)
    partitions = asset.partitions_def

    @dg.multi_asset_check(
        name=f"{asset.key.to_python_identifier()}_checks",
        specs=[_declared(asset, each, partitions) for each in names],
        can_subset=True,
    )
    def check(
        context: dg.AssetCheckExecutionContext, blackboard: BlackboardResource, state: StateResource, clock: Clock
    ) -> Iterator[dg.AssetCheckResult]:
        deliverer = deliverer_of(to, blackboard, state, clock.now, folder)
        selected = {each.name for each in context.selected_asset_check_keys}
        keys = [None] if partitions is None else sorted(map(str, context.partition_keys))
        with retrying(context.retry_number):
            found = {each: _judged(deliverer, each, selected, clock.now()) for each in keys}
        for name in names:
            if name in selected:
                yield _combined(asset.key, name, {partition: each[name] for partition, each in found.items()})

    return check


def names_of(to: Destination) -> tuple[str, ...]:
    """The checks of a delivery to this destination: without a consumer or watcher nobody says what has settled."""
    settles = to.who_settles
    return (ALL_ACKED, *((SETTLED,) if settles != "none" else ()), *((LOOKUPS,) if settles == "consumer" else ()))


def _declared(asset: dg.AssetsDefinition, name: str, partitions: dg.PartitionsDefinition | None) -> dg.AssetCheckSpec:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)  # partitions of a check, as for audits
        return dg.AssetCheckSpec(
            name, asset=asset.key, description=_ABOUT[name], blocking=name == ALL_ACKED, partitions_def=partitions
        )


def _judged(deliverer: Deliverer, partition: str | None, names: set[str], now: datetime) -> Mapping[str, _Result]:
    """The result of each of these checks for a partition."""
    if not (editions := deliverer.ledger.of(partition)):
        return dict.fromkeys(names, _Result(passed=False, text="nothing was delivered yet: materialize the asset"))
    found = account(deliverer.ledger, deliverer.to, editions[-1], now=now)
    judges: dict[str, Callable[[], _Result]] = {
        ALL_ACKED: lambda: _all_acked(found),
        SETTLED: lambda: _settled(found, deliverer.to),
        LOOKUPS: lambda: _lookups(deliverer, deliverer.ledger.began(editions[-1]), found),
    }
    results = {name: judges[name]() for name in names}
    summarize(deliverer.ledger, editions[-1], found)
    return results


def _all_acked(found: Account) -> _Result:
    staged, acked = found.rows["staged"], found.rows["acked"]
    text = f"edition {found.edition} is {found.state}: {acked:,} of {staged:,} rows acknowledged"
    return _Result(passed=found.state not in {"open", "abandoned"} and acked == staged, text=text)


def _settled(found: Account, to: Destination) -> _Result:
    counts = ", ".join(f"{name} {rows:,}" for name, rows in found.rows.items())
    if found.state == "settled":
        return _Result(
            passed=True, text=f"edition {found.edition} has settled: {counts}, superseded {found.superseded:,}"
        )
    consumes = f"`feed-assets deliver consume {to.name}`"
    if found.state == "overdue":
        lost = found.losses[0]
        text = (
            f"edition {found.edition} is overdue, more than {to.settle_within} s after its end: {counts}. Rows are "
            f"not {lost.hop}; `feed-assets deliver audit {to.name}` names them. Does {consumes} run?"
        )
        return _Result(passed=False, text=text)
    return _Result(
        passed=False, severity=_WARN, text=f"edition {found.edition} has not settled yet: {counts}. {consumes} does it"
    )


def _lookups(deliverer: Deliverer, begun: Begun, found: Account) -> _Result:
    try:
        got = answers(deliverer, begun)
    except NotFoundError:
        return _Result(
            passed=False,
            severity=_WARN,
            text=f"the files of edition {found.edition} are gone: a newer delivery has replaced it",
        )
    except DeliveryError as error:  # of the store, or of the user's function: the other checks say what they see
        return _Result(passed=False, severity=_WARN, text=f"nothing was looked up: {str(error).rstrip('.')}")
    text = (
        f"{got.asked - got.behind - got.unknown:,} of {got.asked:,} keys answer with edition {found.edition}, or newer"
    )
    if got.unknown:
        text += f"; {got.unknown:,} have no value, and a newer delivery may have deleted them"
    if not got.behind:
        return _Result(passed=True, text=text)
    if found.state != "settled":
        return _Result(passed=False, severity=_WARN, text=f"{text}; it has not settled yet")
    text += (
        f"; {got.behind:,} are behind, although it has settled: somebody else has written into the store, or it has "
    )
    return _Result(
        passed=False, text=f"{text}lost data. `feed-assets deliver replay {found.destination}` sends all rows"
    )


def _combined(key: dg.AssetKey, name: str, found: Mapping[str | None, _Result]) -> dg.AssetCheckResult:
    """One result for all partitions of the run: the worst, with the text of each that failed."""
    failed = {partition: each for partition, each in found.items() if not each.passed}
    shown = failed or found
    text = "; ".join(f"{partition}: {each.text}" if len(found) > 1 else each.text for partition, each in shown.items())
    severity = _ERROR if any(each.severity is _ERROR for each in failed.values()) or not failed else _WARN
    metadata: dict[str, Any] = {"partitions": len(found)} if len(found) > 1 else {}
    return dg.AssetCheckResult(
        asset_key=key, check_name=name, passed=not failed, severity=severity, description=f"{text}.", metadata=metadata
    )
