"""A consumer of a destination, with its stream, its store, and its place in the ledger. Not here: consuming."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from feed_assets.delivery.consuming.consumer import Consumer
from feed_assets.delivery.consuming.dispatching import Function, dispatch_by, dispatch_of, dispatch_to_store
from feed_assets.delivery.consuming.figures import Figures
from feed_assets.delivery.consuming.keeping import LATE_RECORDS, Keeping
from feed_assets.delivery.consuming.reading import Pace
from feed_assets.delivery.consuming.settling import Settling
from feed_assets.delivery.delivering import Deliverer
from feed_assets.delivery.errors import DestinationError, StreamError
from feed_assets.delivery.ledger import utc_now
from feed_assets.delivery.lookups import store_of
from feed_assets.delivery.streams.port import NotSentError
from feed_assets.state.store import Store


@contextmanager
def consumer_of(
    deliverer: Deliverer,
    state: Store,
    *,
    dispatch: Function | None = None,
    accept_loss: bool = False,
    pace: Pace | None = None,
) -> Iterator[Consumer]:
    """The consumer that brings a destination's records into its store, or only counts them (`watcher`).

    `dispatch` takes the place of the destination's function. Raises DestinationError if nobody is to consume the
    records, or another destination has delivered under this name; StoreUnusableError, StreamError.
    """
    to = deliverer.to
    if to.who_settles == "none":
        raise DestinationError(
            f"{to.name} has no store and `settled_by: none`, so there is nothing to consume. Name a store, or say "
            "`settled_by: watcher` to prove that its rows arrive."
        )
    deliverer.require_same()
    figures = Figures()
    with ExitStack() as stack:
        stream = stack.enter_context(deliverer.open_stream())
        try:
            retention = stream.retention()
        except NotSentError as error:
            raise StreamError(f"{error} Start the consumer again when the stream answers.") from None
        store = None
        if to.who_settles == "consumer":
            keep = (retention + LATE_RECORDS).total_seconds()
            store = stack.enter_context(store_of(to, deliverer.folder, keep_seconds=keep))
        # Who only counts records needs no function of the user, and may not have it.
        changes = dispatch_by(to, dispatch) if dispatch else dispatch_of(to) if store else dispatch_to_store(to)

        def prepare() -> None:
            if store is None:
                return
            for space in to.spaces:
                store.claim(space, f"{deliverer.feed.location} by {to.name}")

        def settling(shard: str) -> Settling:
            return Settling(deliverer.ledger, to, shard, store, changes, figures)

        yield Consumer(
            name=to.name,
            stream=stream,
            state=state,
            settling=settling,
            # Leases are by the machine's clock: under a fixed time, that of a killed process would never end.
            now=utc_now,
            pace=pace or Pace(),
            accept_loss=accept_loss,
            prepare=prepare,
            keep=Keeping(deliverer.ledger, to, store, figures, deliverer.now, retention),
            figures=figures,
            retention=retention,
        )
