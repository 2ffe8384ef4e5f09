"""The assets that deliver feeds to destinations, downstream of the feeds.

Here: wiring and metadata. Not here: how a project names them (`delivered`), delivering (`feed_assets.delivery`), the
checks (`checks.deliveries`), and when a delivery runs (`sensors.deliveries`).
"""

import base64
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg

from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.delivery.declared import require_fit
from feed_assets.delivery.delivering import Deliverer
from feed_assets.delivery.destination import Destination, load_destinations
from feed_assets.delivery.errors import DestinationError, StreamBusyError
from feed_assets.delivery.ledger import Begun, Ended
from feed_assets.delivery.stores.address import store_kind
from feed_assets.delivery.streams.address import require_stream
from feed_assets.feed_events.declarations import COLUMN_SCHEMA, DESTINATION, declared_feed, plain, specs_of
from feed_assets.feed_events.metadata import UPDATE
from feed_assets.file_feed.errors import NoValidUpdateError
from feed_assets.io_manager.audits_under_way import once_audited
from feed_assets.io_manager.retries import retrying
from feed_assets.resources.settings import Clock, Settings
from feed_assets.resources.spark import SparkResource
from feed_assets.resources.storage import BlackboardResource, StateResource
from feed_assets.spark_delivery.backend import SparkBackend

NOTHING = "none"
"""The data version of a delivery that deleted all keys, because no update is in force."""
BUSY_RETRIES, BUSY_SECONDS = 10, 60.0
"""How often a run tries again whose stream takes another delivery, as a command's; runs of Dagster share a pool."""
SAID_EVERY = 30.0
"""Seconds between two lines of a run's log about its progress."""
PLOTTED_PERIODS = 3
"""A delivery of fewer periods gets no plot."""


def delivery_assets(
    deliveries: Sequence[dg.AssetSpec], feeds: Iterable[dg.AssetsDefinition | dg.AssetSpec], settings: Settings
) -> dict[str, tuple[dg.AssetsDefinition, Destination]]:
    """The assets that deliver, by their destinations' names. `feeds` are the other assets of the project.

    Raises DestinationError, or DagsterInvalidDefinitionError if a destination is named twice, or the asset of its feed
    is not among the assets.
    """
    if not deliveries:
        return {}
    directory = settings.deliveries_directory
    known = {each.name: each for each in load_destinations(directory)}
    specs = {spec.key: spec for each in feeds for spec in specs_of(each)}
    found: dict[str, tuple[dg.AssetsDefinition, Destination]] = {}
    problems = []
    for each in deliveries:
        name, (dep,) = str(plain(each.metadata[DESTINATION])), each.deps
        asset = dep.asset_key.to_user_string()
        if name in found:
            raise dg.DagsterInvalidDefinitionError(f"`delivered` makes {name} twice: deliver to it once.")
        if dep.asset_key not in specs:
            raise dg.DagsterInvalidDefinitionError(
                f"delivered({asset}, {name!r}) needs {asset} among the `assets` of the project, too."
            )
        if name not in known:
            there = f"there are {', '.join(known)}" if known else "there is none yet"
            problems.append(
                f"delivered({asset}, {name!r}): {directory} has no destination {name} ({there}): write "
                f"{directory / name}.yaml, or correct the name."
            )
            continue
        feed = declared_feed(specs[dep.asset_key].metadata) or FeedDeclaration("", ())
        try:
            require_fit(known[name], feed, asset)
        except DestinationError as error:
            problems.append(str(error))
        else:
            made = _asset(each, feed, known[name], specs[dep.asset_key], settings.local_state)
            found[name] = made, known[name]
    if problems:
        raise DestinationError("\n".join(problems))
    return found


def delivery_metadata(to: Destination, begun: Begun, ended: Ended) -> dict[str, Any]:
    """A delivery in Dagster's metadata."""
    shown: dict[str, Any] = {
        UPDATE: begun.update or "none: all keys were deleted",
        "edition": begun.edition,
        "mode": begun.mode,
        "puts": begun.puts,
        "deletes": begun.deletes,
        "acked": ended.acked,
        "repeats": ended.repeats,
        "ambiguous": ended.ambiguous,
        "throttled %": round(100 * ended.throttled_share, 2),
        "share of the limit %": round(100 * ended.share(to.records_a_second, to.bytes_a_second), 1),
        "seconds": ended.seconds,
        "stream": to.stream_address,
        "dagster/row_count": begun.rows,
    }
    if len(ended.series) >= PLOTTED_PERIODS:
        from feed_assets.notices.pictures import rate  # noqa: PLC0415 - loads matplotlib

        plot = rate(ended.series, ended.series_seconds, limit=ended.shards * to.records_a_second)
        picture = base64.b64encode(plot).decode()
        shown["acked per second"] = dg.MetadataValue.md(f"![acknowledged per second](data:image/png;base64,{picture})")
    return shown


def deliverer_of(
    to: Destination,
    blackboard: BlackboardResource,
    state: StateResource,
    now: Callable[[], datetime],
    folder: Path,
    **more: Any,
) -> Deliverer:
    """Delivers to a destination, with the resources of a project."""
    feed = FeedDeclaration(to.feed, ()).on(blackboard.blackboard)
    return Deliverer(feed, to, folder, now, state.store, **more)


def _asset(
    delivery: dg.AssetSpec, feed: FeedDeclaration, to: Destination, upstream: dg.AssetSpec, folder: Path
) -> dg.AssetsDefinition:
    columns = {each.name: each for each in plain(upstream.metadata[COLUMN_SCHEMA]).columns}
    store = f", and from there into {store_kind(to.store)}" if to.store else ""

    @dg.asset(
        key=delivery.key,
        deps=delivery.deps,
        partitions_def=delivery.partitions_def,
        group_name=delivery.group_name,
        kinds={require_stream(to.stream)[0], *([store_kind(to.store)] if to.store else ())},
        owners=list(delivery.owners),
        metadata={**delivery.metadata, COLUMN_SCHEMA: dg.TableSchema([columns[each] for each in to.columns])},
        description=(
            f"The rows of {feed.location} go to {to.stream_address}{store}: those that differ from the delivery "
            "before. A run succeeds when the stream has acknowledged each row."
        ),
        pool=to.stream_address,
    )
    def deliver(
        context: dg.AssetExecutionContext,
        blackboard: BlackboardResource,
        state: StateResource,
        clock: Clock,
        spark: SparkResource,
    ) -> dg.MaterializeResult[None]:
        told, large = _Progress(context.log.info), SparkBackend(lambda: spark.spark_session)
        deliverer = deliverer_of(
            to, blackboard, state, clock.now, folder, said=context.log.info, told=told, large=large
        )
        shown, versions = {}, []
        for partition in _partitions(context, delivery.partitions_def):
            with retrying(context.retry_number):
                begun, ended = once_audited(
                    partial(_deliver, context, deliverer, partition),
                    deliverer.feed,
                    [partition],
                    context.instance,
                    context.run,
                    context.log,
                )
            shown[partition] = delivery_metadata(to, begun, ended)
            versions.append(begun.update or NOTHING)
        version = dg.DataVersion(max(versions))
        if len(shown) == 1:
            return dg.MaterializeResult(metadata=shown.popitem()[1], data_version=version)
        for partition, each in shown.items():
            context.add_asset_metadata(each, asset_key=delivery.key, partition_key=partition)
        return dg.MaterializeResult(data_version=version)

    return deliver


def _deliver(context: dg.AssetExecutionContext, deliverer: Deliverer, partition: str | None) -> tuple[Begun, Ended]:
    """Deliver a partition; returns its last delivery, which may have been sent before.

    Raises NoValidUpdateError if there was nothing to deliver, now or before.
    """
    try:
        found = deliverer.deliver(partition)
    except StreamBusyError as error:
        context.log.warning(f"{error} This run tries again.")
        raise dg.RetryRequested(max_retries=BUSY_RETRIES, seconds_to_wait=BUSY_SECONDS) from error
    title = f"{deliverer.to.name} {partition or ''}".strip()
    if found is not None:
        begun, ended = found.begun, found.ended
        context.log.info(f"{title}: edition {begun.edition} of {begun.update or NOTHING}: {ended.acked:,} acknowledged")
        return begun, ended
    if not (editions := deliverer.ledger.of(partition)):
        raise NoValidUpdateError(f"{deliverer.feed.title(partition)} has no valid update, so nothing was delivered.")
    begun, ended = deliverer.ledger.began(editions[-1]), deliverer.ledger.ended(editions[-1])
    context.log.info(f"{title}: edition {begun.edition} of {begun.update or NOTHING} was delivered before")
    return begun, ended


class _Progress:
    """Says from time to time how far a delivery is."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say, self._last = say, time.monotonic()

    def __call__(self, rows: int, of: int) -> None:
        if time.monotonic() - self._last >= SAID_EVERY:
            self._last = time.monotonic()
            self._say(f"{rows:,} of {of:,} rows sent")


def _partitions(context: dg.AssetExecutionContext, partitions: dg.PartitionsDefinition | None) -> list[str | None]:
    found: list[str | None] = [None]
    return found if partitions is None else [*sorted(map(str, context.partition_keys))]
