"""Sending the rows of a delivery: those that nobody has acknowledged yet, and what is written down of them.

Here: one sender's attempt, which replaces its own object in the ledger while it sends. Not here: buffers and rates
(`client`), and when a delivery begins and ends (`delivering`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from feed_assets.blackboard.port import Blackboard
from feed_assets.delivery.client.facade import Client
from feed_assets.delivery.client.settings import Counters
from feed_assets.delivery.errors import AbandonedError
from feed_assets.delivery.ledger import Begun, Ledger, PartWriter, utc_now
from feed_assets.delivery.ordinals import BLOCK, Minutes, Ordinals, minute_text, note
from feed_assets.delivery.records import Prefix
from feed_assets.delivery.staging import read_staged
from feed_assets.delivery.streams.port import Record

ACKS_SECONDS: Final = 30.0
"""How often a sender writes down what was acknowledged."""


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

    def send(self, rows: Iterator[Sequence[tuple[int, str, str, bytes]]]) -> Counters:
        """Send batches of (ordinal, operation, shard key, body) and wait until each row is acknowledged.

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
            self.writer.write(self.acked.copy(), minutes=self.minutes.copy())


def staged_rows(board: Blackboard, begun: Begun) -> Iterator[Sequence[tuple[int, str, str, bytes]]]:
    """Batches of (ordinal, operation, shard key, body) of all rows of a delivery. Raises NotFoundError."""
    first = 0
    for file in begun.files:
        for batch in read_staged(board, file):
            columns = (batch.column(each).to_pylist() for each in ("op", "shard_key", "body"))
            yield list(zip(range(first, first + batch.num_rows), *columns, strict=True))
            first += batch.num_rows
