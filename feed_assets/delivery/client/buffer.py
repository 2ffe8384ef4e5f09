"""What is open: records that wait for their shards, and those under way. In bounded memory.

Here: a structure without locks and threads. Not here: when something is sent, and what answers mean (`facade`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from feed_assets.delivery.client.chunks import Chunk, Lane, Rate, Receipt, Request, Routing
from feed_assets.delivery.streams.port import Limits, Record, Shard


class Buffer:
    """Open records by shard. The caller holds a lock."""

    def __init__(
        self, shards: Sequence[Shard], limits: Limits, new_rate: Callable[[float], Rate], most: int, now: float
    ) -> None:
        """`most`: bytes of data and keys that may be open together; of one shard, half of it."""
        self._limits = limits
        self._new_rate = new_rate
        self._most = most
        self.routing = Routing([Lane(shard, new_rate(now)) for shard in shards], limits)
        self.open = 0
        self.size = 0
        self.waiting = 0
        self._waiting_size = 0
        self.under_way: set[Request] = set()
        self._turn = 0
        self._blocked: dict[str, float] = {}

    @property
    def fills_a_request(self) -> bool:
        """Whether enough waits for a full request."""
        limits = self._limits
        return self.waiting >= limits.records_a_request or self._waiting_size >= limits.bytes_a_request

    def blocked(self, now: float) -> dict[str, float]:
        """Seconds in which records waited for their shard's rate, by shard."""
        found = dict(self._blocked)
        for lane in self.routing.lanes:
            if lane.blocked_since is not None:
                found[lane.shard.name] = found.get(lane.shard.name, 0.0) + now - lane.blocked_since
        return found

    def admit(self, chunk: Chunk) -> bool:
        """Let in as much of the chunk as there is space for; whether that is all."""
        # A record that is larger than half of the buffer enters alone.
        half = max(self._most // 2, chunk.first_size) - chunk.lane.size
        whole = max(self._most, chunk.first_size) - self.size
        entering = chunk.split(len(chunk), min(half, whole))
        if entering is None:
            return False
        entering.lane.queue.append(entering)
        self._count_open(entering)
        return entering is chunk

    def requests(self, now: float, most: int) -> Iterator[Request]:
        """At most so many requests of what the shards have room for. Each call begins with another shard."""
        lanes = self.routing.lanes
        self._turn = (self._turn + 1) % len(lanes)
        request = Request(now)
        for lane in (*lanes[self._turn :], *lanes[: self._turn]):
            self._end_blocked(lane, now)
            while lane.queue:
                if most <= 0:
                    return
                if (chunk := self._taken(lane, request, now)) is not None:
                    request.add(chunk)
                elif lane.blocked_since is not None:
                    break
                if chunk is None or len(request.records) == self._limits.records_a_request:
                    most -= 1
                    self.under_way.add(request)
                    yield request
                    request = Request(now)
        if request.records:
            self.under_way.add(request)
            yield request

    def _taken(self, lane: Lane, request: Request, now: float) -> Chunk | None:
        """Records of a shard that fit into the request; None if it is full, or the shard has no room."""
        first = lane.queue[0].first_size
        records, size = lane.rate.room(now, first)
        if not records or size < first:
            lane.blocked_since = now
            return None
        records = min(records, self._limits.records_a_request - len(request.records))
        left = self._limits.bytes_a_request - request.size
        if not request.records:
            left = max(left, first)  # else it would wait for ever; the stream says what is wrong
        chunk = lane.take(records, min(size, left))
        if chunk is not None:
            lane.rate.take(len(chunk), chunk.size)
            self.waiting -= len(chunk)
            self._waiting_size -= chunk.size
        return chunk

    def answered(self, request: Request, now: float) -> None:
        """The request has ended; its records are open no more, unless they are given back."""
        self.under_way.discard(request)
        for chunk in request.chunks:
            chunk.lane.rate.answered(request.taken, now, len(chunk), chunk.size)
            chunk.lane.size -= chunk.size
        self.open -= len(request.records)
        self.size -= request.size

    def give_back(self, chunks: Sequence[Chunk]) -> list[Lane]:
        """Records wait again, before all others. The shards that they go to now.

        What one request had of a shard stays together. Else a long outage would grind all to single records.
        """
        together: dict[Receipt, tuple[list[Record], list[int]]] = {}
        for chunk in chunks:
            records, ordinals = together.setdefault(chunk.receipt, ([], []))
            records += chunk.records
            ordinals += chunk.ordinals
        lanes: list[Lane] = []
        for receipt, (records, ordinals) in together.items():
            for new in self.routing.chunks(records, ordinals, receipt):
                new.lane.queue.appendleft(new)
                self._count_open(new)
                lanes.append(new.lane)
        return lanes

    def replace(self, shards: Sequence[Shard], now: float) -> None:
        """Split and merge: new shards have new rates, and take what waits for those that are gone.

        A new shard has already got what was sent to the old ones, so it waits for a second.
        """
        before = {lane.shard.name: lane for lane in self.routing.lanes}
        lanes = [before.get(shard.name) or Lane(shard, self._new_rate(now + 1.0)) for shard in shards]
        self.routing = Routing(lanes, self._limits)
        for lane in set(before.values()).difference(lanes):
            self._end_blocked(lane, now)
            for chunk in lane.queue:
                lane.size -= chunk.size
                for new in self.rerouted(chunk.whole()):
                    new.lane.size += new.size
                    new.lane.queue.append(new)
            lane.queue.clear()

    def rerouted(self, chunk: Chunk) -> list[Chunk]:
        """The same records by the shards of now."""
        return self.routing.chunks(chunk.records, chunk.ordinals, chunk.receipt)

    def clear(self) -> list[Receipt]:
        """Drop what waits. All receipts, also those of what is under way."""
        receipts: dict[Receipt, None] = {}
        for lane in self.routing.lanes:
            receipts |= dict.fromkeys(chunk.receipt for chunk in lane.queue)
            lane.queue.clear()
        for request in self.under_way:
            receipts |= dict.fromkeys(chunk.receipt for chunk in request.chunks)
        self.open -= self.waiting
        self.size -= self._waiting_size
        self.waiting = self._waiting_size = 0
        return list(receipts)

    def _count_open(self, chunk: Chunk) -> None:
        self.open += len(chunk)
        self.waiting += len(chunk)
        self.size += chunk.size
        self._waiting_size += chunk.size
        chunk.lane.size += chunk.size

    def _end_blocked(self, lane: Lane, now: float) -> None:
        if lane.blocked_since is not None:
            name = lane.shard.name
            self._blocked[name] = self._blocked.get(name, 0.0) + now - lane.blocked_since
            lane.blocked_since = None
