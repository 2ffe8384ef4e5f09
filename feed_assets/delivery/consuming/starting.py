"""A consumer of a destination, with its stream, its store, and its place in the ledger. Not here: consuming."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from feed_assets.delivery.consuming.consumer import Consumer
from feed_assets.delivery.consuming.settling import Settling, dispatch_to_store
from feed_assets.delivery.delivering import Deliverer
from feed_assets.delivery.errors import DestinationError
from feed_assets.delivery.lookups import store_of
from feed_assets.state.store import Store


@contextmanager
def consumer_of(deliverer: Deliverer, state: Store) -> Iterator[Consumer]:
    """The consumer that brings a destination's records into its store, or only counts them (`watcher`).

    Raises DestinationError if nobody is to consume them, SpaceTakenError, StoreUnusableError, StreamError.
    """
    to = deliverer.to
    if to.who_settles == "none":
        raise DestinationError(f"{to.name} has no store and `settled_by: none`, so there is nothing to consume.")
    with ExitStack() as stack:
        stream = stack.enter_context(deliverer.open_stream())
        store = None
        if to.who_settles == "consumer":
            store = stack.enter_context(store_of(to, deliverer.folder))
            store.claim(to.store_space, f"{deliverer.feed.location} by {to.name}")
        dispatch = dispatch_to_store(to)

        def settling(shard: str) -> Settling:
            return Settling(deliverer.ledger, to, shard, store, dispatch)

        # Leases are by the machine's clock: under a fixed time, that of a killed process would never end.
        yield Consumer(to.name, stream, state, settling)
