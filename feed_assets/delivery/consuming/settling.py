"""What happens to the records of one shard: they take effect in the store, and are counted by delivery.

Here: take (count as received), settle (dispatch, apply, count as settled), write down. Not here: when the shard's
checkpoint moves (`reading`): never before `write_down`, so what was not written down is read again. Counting is by
sets, and by the place in the shard, so it is not counted twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from feed_assets.blackboard.port import ConflictError
from feed_assets.delivery.consuming.dispatching import Arrived, Dispatch
from feed_assets.delivery.consuming.figures import Figures
from feed_assets.delivery.destination import Destination
from feed_assets.delivery.errors import PoisonedError
from feed_assets.delivery.ledger import Ledger, PartWriter
from feed_assets.delivery.ordinals import BLOCK, Minutes, Ordinals, minute_text, note
from feed_assets.delivery.records import Details, details_of
from feed_assets.delivery.stores.port import Change, Store
from feed_assets.delivery.streams.port import Read

MOST_SEEN: Final = 64
"""Editions whose sets stay in memory although nothing of them has come since they were written down."""


@dataclass(slots=True)
class _Seen:
    """What was seen of one delivery in this shard. `is_over`: it has settled, and nobody writes down more."""

    received: PartWriter
    settled: PartWriter
    arrived: Ordinals = field(default_factory=Ordinals)
    done: Ordinals = field(default_factory=Ordinals)
    repeats: int = 0
    sequence: str = ""
    minutes: Minutes = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    is_changed: bool = False
    is_over: bool = False

    def join(self) -> bool:
        """Join what this shard's holder has written down before, or another one meanwhile; whether anything was."""
        received, settled = self.received.read(), self.settled.read()
        if received is not None:
            self.arrived |= received.set()
            for block, minutes in received.minutes.items():
                for minute in minutes:
                    note(self.minutes, block, minute)
            # Both read the same records in the same order: who has read further has counted all that the other has.
            if int(received.sequence or 0) > int(self.sequence or 0):
                self.sequence, self.repeats = received.sequence, received.repeats
        if settled is not None:
            self.done |= settled.set()
            if sum(settled.counts.values()) > self.counts.total():
                self.counts = Counter(settled.counts)
        return received is not None or settled is not None

    def write(self) -> None:
        """Write down what was received, and then what was settled. Raises ConflictError, BlackboardError."""
        self.received.write(self.arrived, repeats=self.repeats, minutes=self.minutes, sequence=self.sequence)
        if self.done:
            self.settled.write(self.done, counts=self.counts)


@dataclass(slots=True)
class Settling:
    """Settles the records of one shard. Without a store, it only counts them. For one thread."""

    ledger: Ledger
    to: Destination
    shard: str
    store: Store | None
    dispatch: Dispatch
    figures: Figures = field(default_factory=Figures)
    settled: int = 0
    """Records that were settled."""
    _seen: dict[tuple[str, int], _Seen] = field(default_factory=dict)

    def take(self, records: Sequence[Read]) -> list[Arrived]:
        """Count records as received; returns those that are to be settled. Raises BlackboardError, LedgerError."""
        arrived = [each for each in map(self._known, records) if each is not None]
        for details, _ in arrived:
            if details is not None:
                self._of(details)  # before anything is counted: the ledger may not answer
        minute, at = "", None
        for details, read in arrived:
            if details is None:
                continue
            seen = self._of(details)
            if int(read.sequence) > int(seen.sequence or 0):
                seen.sequence = read.sequence
                seen.repeats += details.ordinal in seen.arrived
            seen.arrived.add(details.ordinal)
            seen.is_changed = True
            if at is None or read.arrived != at:
                at, minute = read.arrived, minute_text(read.arrived)
            note(seen.minutes, details.ordinal // BLOCK, minute)
        self.figures.records.labels("received", "delivered").inc(sum(each.details is not None for each in arrived))
        return arrived

    def settle(self, arrived: list[Arrived]) -> None:
        """Bring records into the store, and take them from the list. It can be repeated with what is left of it.

        Raises PoisonedError if the first that is left is poisoned, and StoreUnusableError.
        """
        work, poisoned = self._dispatched(arrived)
        outcomes = self._applied(work)
        for number, ((details, _), _) in enumerate(work):
            outcome = outcomes.get(number, "applied")
            if details is not None and details.ordinal not in (seen := self._of(details)).done:
                if self.store is not None:
                    seen.done.add(details.ordinal)
                    seen.counts[outcome] += 1
                seen.is_changed = True
            if self.store is not None:
                self.figures.records.labels("settled", outcome).inc()
        self.settled += len(work)
        del arrived[: len(work)]
        if poisoned is not None:
            raise poisoned

    def write_down(self) -> None:
        """Write what was seen into the ledger. Raises BlackboardError."""
        for (partition, edition), seen in list(self._seen.items()):
            if seen.is_over or not seen.is_changed:
                continue
            while True:
                try:
                    seen.write()
                except ConflictError:
                    # Another holder of the shard has written, or the delivery has settled, and its parts are gone.
                    if not seen.join() and self.ledger.is_summarized(partition or None, edition):
                        seen.is_over = True
                        break
                else:
                    break
            seen.is_changed = False
        idle = [place for place, seen in self._seen.items() if not seen.is_changed]
        for place in idle[: max(0, len(self._seen) - MOST_SEEN)]:
            del self._seen[place]

    def _known(self, read: Read) -> Arrived | None:
        details = details_of(read.data)
        if details is None:
            self.figures.records.labels("received", "foreign").inc()
            return Arrived(None, read) if self.to.foreign == "handle" else None
        if details.destination != self.to.name:
            self.figures.records.labels("received", "of another destination").inc()
            return None
        return Arrived(details, read)

    def _dispatched(
        self, arrived: Sequence[Arrived]
    ) -> tuple[list[tuple[Arrived, Sequence[tuple[str, Change]]]], PoisonedError | None]:
        """The records up to the first that is poisoned, each with its changes; and what is wrong with that one."""
        work: list[tuple[Arrived, Sequence[tuple[str, Change]]]] = []
        for each in arrived:
            try:
                work.append((each, self.dispatch(each) if self.store is not None else ()))
            except PoisonedError as error:
                return work, error
        return work, None

    def _applied(self, work: Sequence[tuple[Arrived, Sequence[tuple[str, Change]]]]) -> dict[int, str]:
        """Apply the changes, space by space; returns the outcome of each record: applied if any of its changes was."""
        if self.store is None:
            return {}
        outcomes: dict[int, str] = {}
        for space, numbers, changes in _by_space(work):
            for number, outcome in zip(numbers, self.store.apply(space, changes), strict=True):
                if outcomes.get(number) != "applied":
                    outcomes[number] = outcome
        return outcomes

    def _of(self, details: Details) -> _Seen:
        place = details.partition, details.edition
        if (seen := self._seen.get(place)) is None:
            partition = details.partition or None
            seen = _Seen(
                self.ledger.holder("received", partition, details.edition, self.shard),
                self.ledger.holder("settled", partition, details.edition, self.shard),
            )
            if not seen.join():
                seen.is_over = self.ledger.is_summarized(partition, details.edition)
            self._seen[place] = seen
        return seen


def _by_space(
    work: Sequence[tuple[Arrived, Sequence[tuple[str, Change]]]],
) -> Iterator[tuple[str, list[int], list[Change]]]:
    """The changes of each space, with the numbers of their records."""
    found: dict[str, tuple[list[int], list[Change]]] = {}
    for number, (_, changes) in enumerate(work):
        for space, change in changes:
            numbers, those = found.setdefault(space, ([], []))
            numbers.append(number)
            those.append(change)
    for space, (numbers, those) in found.items():
        yield space, numbers, those
