"""Sharing the shards of a stream between the processes of one consumer, by leases in the state database.

Each process holds a place, which is a lease. The processes with a place have equal shares of the shards that can be
read, those at the front one more. A process takes free shards up to its share, and gives back what is above it. So no
shard moves without need, and the shards of a process that dies are free when its leases end. Not here: reading.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from feed_assets.delivery.ledger import Clock
from feed_assets.delivery.streams.port import Shard
from feed_assets.delivery.tables import Checkpoint
from feed_assets.leases.holding import Holding
from feed_assets.leases.in_database import live_leases
from feed_assets.leases.port import Lease
from feed_assets.state.store import Store

MOST_PROCESSES: Final = 256


@dataclass(frozen=True, slots=True)
class Share:
    """How many shards are this process's, and which nobody reads. `rank` is its place among the processes, from 0."""

    rank: int | None
    shards: int
    free: Sequence[str]


@dataclass(slots=True)
class Sharing:
    """The place of this process among those that consume as `name`. For one thread."""

    name: str
    state: Store
    holding: Holding
    length: timedelta
    now: Clock
    _place: Lease | None = field(default=None)

    def look(self, readable: Collection[str]) -> Share:
        """The share of these shards. Takes a place, if this process has none. Raises StoreError."""
        names = {self.lease_of(each): each for each in readable}
        leases = self._live([*names, *map(self._place_name, range(MOST_PROCESSES))])
        if self._place is None or leases.get(self._place.name, self._place).holder != self._place.holder:
            leases |= self._sit_down(leases)
        places = [number for number in range(MOST_PROCESSES) if self._place_name(number) in leases]
        free = sorted(shard for lease, shard in names.items() if lease not in leases)
        mine = [at for at, number in enumerate(places) if self._place and self._place_name(number) == self._place.name]
        if not mine:
            return Share(None, 0, free)
        each, more = divmod(len(readable), len(places))
        return Share(mine[0], each + (mine[0] < more), free)

    def take(self, shard: str) -> Lease | None:
        """The lease of a shard, which is renewed from now on; None if somebody was faster. Raises StoreError."""
        lease = self.holding.leases.take(self.lease_of(shard), self.length, now=self.now())
        if lease is not None:
            self.holding.hold(lease)
        return lease

    def give_back(self, shard: str) -> None:
        """Release the lease of a shard. Raises StoreError."""
        self.holding.release(self.lease_of(shard))

    def lease_of(self, shard: str) -> str:
        """The name of the lease of a shard."""
        return f"consumer.{self.name}.{shard}"

    def _live(self, names: Collection[str]) -> dict[str, Lease]:
        if not self.state.exists():
            return {}
        with self.state.reading() as connection:
            return live_leases(connection, names, self.length, now=self.now())

    def _sit_down(self, leases: Mapping[str, Lease]) -> dict[str, Lease]:
        """Take the first free place; nothing if there is none."""
        if self._place is not None:
            self.holding.let_go(self._place.name)
            self._place = None
        for number in range(MOST_PROCESSES):
            if (name := self._place_name(number)) not in leases:
                lease = self.holding.leases.take(name, self.length, now=self.now())
                if lease is not None:
                    self.holding.hold(lease)
                    self._place = lease
                    return {name: lease}
        return {}

    def _place_name(self, number: int) -> str:
        return f"consumer.{self.name}: process {number}"


def readable(shards: Mapping[str, Shard], known: Mapping[str, Checkpoint]) -> list[str]:
    """The shards that have not ended, and whose parents have, or are gone: so the records of a key stay in order."""
    over = {name for name, each in known.items() if each.is_over}
    return [
        name
        for name, shard in sorted(shards.items())
        if name not in over and all(parent in over or parent not in shards for parent in shard.parents)
    ]
