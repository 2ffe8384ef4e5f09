"""A process that consumes a stream: it takes the leases of shards, reads them in order, and moves their checkpoints.

Here: which shard is read when. A child begins when all its parents have ended, so the records of a key stay in order.
Not here: what a batch does (`settling`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from feed_assets.delivery.consuming.settling import Settling
from feed_assets.delivery.ledger import Clock, utc_now
from feed_assets.delivery.streams.port import Shard, ShardReader, Source
from feed_assets.delivery.tables import Checkpoint, LeaseLostError, checkpoints, move
from feed_assets.leases.in_database import DatabaseLeases
from feed_assets.leases.port import Lease
from feed_assets.state.store import Store

LEASE: Final = timedelta(seconds=30)
CHECKPOINT_SECONDS: Final = 10.0
CHECKPOINT_RECORDS: Final = 100_000
SHARDS_SECONDS: Final = 5.0
"""How often a process looks for shards that nobody reads."""


@dataclass(slots=True)
class _Held:
    """A shard that this process reads."""

    lease: Lease
    reader: ShardReader
    settling: Settling
    sequence: str
    records: int = 0
    since: float = field(default_factory=time.monotonic)
    is_idle: bool = False


@dataclass(slots=True)
class Consumer:
    """Consumes a stream as `name`; processes of one name share the shards. `settling` makes what settles a shard."""

    name: str
    stream: Source
    state: Store
    settling: Callable[[str], Settling]
    now: Clock = utc_now
    _held: dict[str, _Held] = field(default_factory=dict)
    _looked: float = float("-inf")

    def run(self, stop: threading.Event, *, until_idle: bool = False) -> int:
        """Consume until `stop` is set, or until nothing is left; returns how many records were settled.

        What was settled is checkpointed at the end, and the leases are released. Raises StreamError,
        RecordsLostError, StoreUnusableError, BlackboardError, StoreError.
        """
        settled = 0
        try:
            while not stop.is_set():
                self._take()
                settled += sum(self._step(shard, held) for shard, held in list(self._held.items()))
                if until_idle and self._is_idle():
                    break
                if not self._held:
                    stop.wait(1.0)
            for shard, held in list(self._held.items()):
                self._checkpoint(shard, held, is_over=False)
        finally:
            leases = DatabaseLeases(self.state)
            for held in self._held.values():
                leases.release(held.lease)
            self._held.clear()
        return settled

    def _take(self) -> None:
        """Take the leases of shards that can be read, and that nobody reads."""
        if time.monotonic() - self._looked < SHARDS_SECONDS and all(not each.is_idle for each in self._held.values()):
            return
        self._looked = time.monotonic()
        shards = {each.name: each for each in self.stream.all_shards()}
        known = checkpoints(self.state, self.name)
        for shard in _readable(shards, known):
            if shard in self._held:
                continue
            lease = DatabaseLeases(self.state).take(f"consumer.{self.name}.{shard}", LEASE, now=self.now())
            if lease is None:
                continue
            # Somebody may have moved the checkpoint before the lease was free.
            after = checkpoints(self.state, self.name).get(shard, Checkpoint("", is_over=False))
            if after.is_over:
                DatabaseLeases(self.state).release(lease)
                continue
            reader = self.stream.reader(shard, after.sequence or None)
            self._held[shard] = _Held(lease, reader, self.settling(shard), after.sequence)

    def _step(self, shard: str, held: _Held) -> int:
        """Read and settle one batch; returns how many records it had."""
        batch = held.reader.next()
        held.settling.settle(batch.records)
        if batch.records:
            held.sequence = batch.records[-1].sequence
        held.records += len(batch.records)
        held.is_idle = not batch.records
        is_due = held.records >= CHECKPOINT_RECORDS or time.monotonic() - held.since >= CHECKPOINT_SECONDS
        if batch.is_end or is_due or (held.is_idle and held.records):
            self._checkpoint(shard, held, is_over=batch.is_end)
        return len(batch.records)

    def _checkpoint(self, shard: str, held: _Held, *, is_over: bool) -> None:
        """Write down what took effect, and then move the checkpoint. A lost lease ends the work on the shard."""
        held.settling.write_down()
        at = Checkpoint(held.sequence, is_over)
        try:
            held.lease = move(self.state, held.lease, LEASE, self.name, shard, at, now=self.now())
        except LeaseLostError:
            del self._held[shard]
            return
        held.records, held.since = 0, time.monotonic()
        if is_over:
            DatabaseLeases(self.state).release(held.lease)
            del self._held[shard]

    def _is_idle(self) -> bool:
        """Whether all shards that can be read are read by this process, and have nothing new."""
        shards = {each.name: each for each in self.stream.all_shards()}
        readable = _readable(shards, checkpoints(self.state, self.name))
        return all(each in self._held and self._held[each].is_idle for each in readable)


def _readable(shards: Mapping[str, Shard], known: Mapping[str, Checkpoint]) -> list[str]:
    """The shards that have not ended, and whose parents have, or are gone."""
    over = {name for name, each in known.items() if each.is_over}
    return [
        name
        for name, shard in sorted(shards.items())
        if name not in over and all(parent in over or parent not in shards for parent in shard.parents)
    ]
