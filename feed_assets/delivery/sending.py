"""Sending the rows of a delivery: those that nobody has acknowledged yet, and what is written down of them.

Here: one sender's attempt, which replaces its own object in the ledger while it sends. A delivery has one sender in
this process, or some on a cluster. Not here: buffers and rates (`client`), who sends where (`backend`), and when a
delivery begins and ends (`delivering`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from feed_assets.blackboard.port import Blackboard
from feed_assets.delivery.client.facade import Client
from feed_assets.delivery.client.settings import ClientSettings, Counters
from feed_assets.delivery.destination import Destination
from feed_assets.delivery.errors import AbandonedError, NotDeliveredError
from feed_assets.delivery.ledger import Begun, Ledger, PartWriter, union, utc_now
from feed_assets.delivery.ordinals import BLOCK, Minutes, Ordinals, minute_text, note
from feed_assets.delivery.records import Prefix
from feed_assets.delivery.staging import read_staged
from feed_assets.delivery.streams.address import open_stream
from feed_assets.delivery.streams.port import Record, Stream

ACKS_SECONDS: Final = 30.0
"""How often a sender writes down what was acknowledged."""
LOCAL_STREAMS: Final = "streams"
"""The folder, beside the state database, with the streams that are files."""

Row = tuple[int, str, str, bytes]
"""Ordinal, operation, shard key, body."""
Rows = Iterator[Sequence[Row]]
"""Batches of rows."""


@dataclass(frozen=True, slots=True)
class Job:
    """A delivery to be sent. Local streams are files of `folder`. `told` gets the rows sent so far, and all."""

    ledger: Ledger
    to: Destination
    folder: Path
    begun: Begun
    told: Callable[[int, int], object] = lambda _done, _all: None

    def open_stream(self) -> Stream:
        """The destination's stream. Raises StreamError."""
        return open_stream(self.to.stream, self.folder / LOCAL_STREAMS)

    def rows(self) -> Rows:
        """All rows of the delivery, in the order of their ordinals. Raises NotFoundError."""
        return staged_rows(self.ledger.feed.blackboard, self.begun)

    def send(self, rows: Rows, stream: Stream, holder: str, *, senders: int = 1) -> Counters:
        """Send those of these rows that nobody has got acknowledged, as one of so many senders that share the rates.

        `holder` names this attempt in the ledger. Returns when each row is acknowledged. Raises DeliveryError.
        """
        to = self.to
        settings = ClientSettings(
            queue_bytes=to.queue_bytes,
            give_up_after=to.give_up_after,
            share=1 / senders,
            records_a_second=to.records_a_second,
            bytes_a_second=to.bytes_a_second,
        )
        client = Client(stream, settings)
        writer = self.ledger.holder("acks", self.begun.partition, self.begun.edition, holder)
        seen = union(self.ledger.parts("acks", self.begun).values())
        attempt = Attempt(self.ledger, self.begun, client, writer, seen)
        return attempt.send(rows)


@dataclass(slots=True)
class Attempt:
    """One sender of a delivery. `seen` are the rows that others have got acknowledged; they are not sent again."""

    ledger: Ledger
    begun: Begun
    client: Client
    writer: PartWriter
    seen: Ordinals
    acked: Ordinals = field(default_factory=Ordinals)
    minutes: Minutes = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._last = self.clock()

    def send(self, rows: Rows) -> Counters:
        """Send rows, and wait until each is acknowledged.

        Raises DeliveryError, of which AbandonedError if somebody has abandoned the edition. What was acknowledged is
        written down in any case.
        """
        prefix = Prefix.of(self.begun.destination, self.begun.partition or "", self.begun.edition)
        try:
            for batch in rows:
                left = [each for each in batch if each[0] not in self.seen]
                records = [Record(key, prefix.record(ordinal, op, body)) for ordinal, op, key, body in left]
                if records:
                    self.client.put_many(records, [each[0] for each in left], self._note)
                self._beat()
            self.client.close()
        except BaseException as error:
            self.client.stop(NotDeliveredError(f"The delivery ended before the client did: {error}"))
            raise
        finally:
            self._write_down()
        return self.client.counters()

    def _beat(self) -> None:
        """Write down what was acknowledged, and look whether the edition goes on, when it is time."""
        if self.clock() - self._last < ACKS_SECONDS:
            return
        self._write_down()
        self._last = self.clock()
        if self.ledger.is_abandoned(self.begun):
            raise AbandonedError(f"Edition {self.begun.edition} of {self.ledger.destination} was abandoned.")

    def _note(self, ordinals: Sequence[int]) -> None:
        self.acked.update(ordinals)
        minute = minute_text(utc_now())
        for block in {each // BLOCK for each in ordinals}:
            note(self.minutes, block, minute)

    def _write_down(self) -> None:
        if self.acked:
            self.writer.write(self.acked.copy(), minutes=self.minutes.copy(), sent=self.client.counters())


def staged_rows(board: Blackboard, begun: Begun) -> Rows:
    """All rows of a delivery, in the order of their ordinals. Raises NotFoundError."""
    first = 0
    for file in begun.files:
        for batch in read_staged(board, file):
            columns = (batch.column(each).to_pylist() for each in ("op", "shard_key", "body"))
            yield list(zip(range(first, first + batch.num_rows), *columns, strict=True))
            first += batch.num_rows
