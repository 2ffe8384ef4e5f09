"""A feed of prices that is delivered to a stream in a file, and from there into a store; made without Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import Blackboard
from feed_assets.delivery.audit import Account, account
from feed_assets.delivery.consuming.consumer import Consumer
from feed_assets.delivery.consuming.reading import Pace
from feed_assets.delivery.consuming.starting import consumer_of
from feed_assets.delivery.delivering import Deliverer, Delivery
from feed_assets.delivery.destination import Destination
from feed_assets.delivery.encoding import key_text
from feed_assets.delivery.lookups import store_of
from feed_assets.delivery.streams.local import LocalStream
from feed_assets.file_feed.feed import Feed
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests.warehouse.feeds import Source

QUICK = Pace(lease=timedelta(seconds=1), looks=0.05, checkpoint=0.1, idle_checkpoint=0.2, first_pause=0.02)
DAY, NEXT_DAY = "2019-11-24", "2019-11-25"
Prices = Mapping[str, float | None]


@dataclass(slots=True)
class World:
    """A base, the folder of this machine, and a destination."""

    folder: Path
    board: Blackboard = field(default_factory=MemoryBlackboard)
    options: dict[str, Any] = field(default_factory=dict)
    state_url: str = ""
    source: Source = field(init=False)

    def __post_init__(self) -> None:
        self.source = Source(self.board, location="prices/v1.0", time=datetime(2026, 11, 1, tzinfo=UTC))

    @property
    def to(self) -> Destination:
        """The destination."""
        return Destination.model_validate(
            {
                "name": "prices",
                "feed": "prices/v1.0",
                "stream": "local://prices?shards=2",
                "key": ["product"],
                "columns": ["product", "price"],
                "store": "sqlite",
                **self.options,
            }
        )

    @property
    def deliverer(self) -> Deliverer:
        """Delivers to it."""
        return Deliverer(Feed(self.board, "prices/v1.0"), self.to, self.folder, self.now)

    def now(self) -> datetime:
        """The time, which goes on with each update and each question."""
        self.source.time += timedelta(seconds=1)
        return self.source.time

    def publish(self, prices: Prices, day: str | None = DAY) -> str:
        """A new update with these prices."""
        table = pa.table({"product": list(prices), "price": pa.array(prices.values(), pa.float64())})
        return self.source.publish(table, day)

    def deliver(self, day: str | None = DAY, **options: Any) -> Delivery | None:
        """Deliver a day."""
        return self.deliverer.deliver(day, **options)

    @property
    def state(self) -> Store:
        """The state database."""
        return Store(self.state_url or sqlite_url(self.folder / "state.db"))

    @property
    def stream(self) -> LocalStream:
        """The stream of the destination, in a file."""
        stream = self.deliverer.open_stream()
        assert isinstance(stream, LocalStream)
        return stream

    def consume(self, **options: Any) -> int:
        """Consume what is there; returns how many records were settled."""
        with consumer_of(self.deliverer, self.state, **options) as consumer:
            return consumer.run(threading.Event(), until_idle=True)

    @contextmanager
    def consuming(self, **options: Any) -> Iterator[Consumer]:
        """A consumer that goes on, quickly, until the block ends."""
        stop, failed = threading.Event(), list[BaseException]()

        def run() -> None:
            try:
                consumer.run(stop)
            except BaseException as error:  # noqa: BLE001 - raised below
                failed.append(error)

        with consumer_of(self.deliverer, self.state, **{"pace": QUICK, **options}) as consumer:
            thread = threading.Thread(target=run)
            thread.start()
            try:
                yield consumer
            finally:
                stop.set()
                thread.join()
        if failed:
            raise failed[0]

    def audited(self, day: str | None = DAY) -> Account:
        """The audit of the last edition of a day."""
        deliverer = self.deliverer
        return account(deliverer.ledger, deliverer.to, deliverer.ledger.of(day)[-1], now=self.now())

    def values(self, *products: str) -> dict[str, float | None]:
        """The prices in the store of those of the products that have one."""
        keys = [key_text([each]) for each in products]
        with store_of(self.to, self.folder) as store:
            found = store.get_many(self.to.store_space, keys, now=self.now().timestamp())
        return {each: msgspec.json.decode(value.data)["price"] for each, value in found.items()}
