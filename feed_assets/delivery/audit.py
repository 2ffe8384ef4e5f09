"""The audit of a delivery: how many rows each hop has seen, and the first hop where one is missing.

Here: comparing the sets of ordinals of the hops. It reads what senders and consumers wrote into the ledger, and
nothing else. Not here: writing that (`sending`, `consuming`).

Hops: `staged` (what is to be sent), `acked` (by the stream), `received` (by a consumer), `settled` (in the store).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from typing import Final, Literal

from feed_assets.delivery.destination import Destination
from feed_assets.delivery.ledger import Begun, Edition, Ended, Hop, Ledger, Part
from feed_assets.delivery.ordinals import BLOCK, Ordinals, everything

State = Literal["open", "abandoned", "delivered", "settled", "overdue"]
HOPS: Final[Mapping[str, Hop]] = {"acked": "acks", "received": "received", "settled": "settled"}
"""The hops after `staged`, and where the ledger has what they saw."""
MOST_LOSSES: Final = 20
"""Blocks that an audit names."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Rows of one block that a hop has not seen.

    `holders` and `minutes` are where they passed the hop before: acknowledged to attempts of senders, received from
    shards.
    """

    hop: str
    block: int
    first: int
    last: int
    rows: int
    file: str
    holders: tuple[str, ...]
    minutes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Account:
    """What became of a delivery. `rows` by hop; `repeats` are rows that a hop has seen again."""

    destination: str
    partition: str | None
    edition: int
    update: str | None
    state: State
    rows: dict[str, int]
    repeats: dict[str, int]
    superseded: int
    losses: tuple[Loss, ...] = field(default_factory=tuple)

    @property
    def is_lost(self) -> bool:
        """Whether a row is missing that should have arrived: the stream has it, and the time to settle is over."""
        return self.state == "overdue"

    @property
    def is_whole(self) -> bool:
        """Whether no hop lacks a row."""
        return not self.losses


def account(ledger: Ledger, to: Destination, edition: Edition, *, now: datetime) -> Account:
    """What became of an edition: a listing and a GET for each holder of each hop. Raises LedgerError."""
    begun = ledger.began(edition)
    ended = ledger.ended(edition) if edition.has_ended else None
    if (summary := ledger.settled_summary(edition)) is not None:
        return _summarized(begun, summary)
    rows, repeats, losses = {"staged": begun.rows}, dict[str, int](), list[Loss]()
    superseded, before = 0, everything(begun.rows)
    holders: Mapping[str, Part] = {}
    for name in _hops(to):
        parts = ledger.parts(HOPS[name], begun)
        seen = reduce(lambda all_, part: all_ | part.set(), parts.values(), Ordinals())
        if name == "acked" and ended and ended.outcome == "delivered" and not parts:
            seen = everything(begun.rows)  # the parts of a delivery go when the next one has ended
        rows[name] = len(seen)
        repeats[name] = _repeats(name, parts, seen)
        superseded = (
            sum(each.counts.get("superseded", 0) for each in parts.values()) if name == "settled" else superseded
        )
        losses += _losses(name, begun, before - seen, holders)
        before, holders = seen, parts
    return Account(
        destination=to.name,
        partition=begun.partition,
        edition=begun.edition,
        update=begun.update,
        state=_state(to, begun, ended, rows, now),
        rows=rows,
        repeats=repeats,
        superseded=superseded,
        losses=tuple(losses[:MOST_LOSSES]),
    )


def summarize(ledger: Ledger, edition: Edition, found: Account) -> None:
    """Keep what a settled delivery came to in one object, and drop the sets. Its rows stay for lookups."""
    begun = ledger.began(edition)
    if found.state == "settled" and found.is_whole and ledger.settled_summary(edition) is None:
        ledger.summarize(begun, {"rows": found.rows, "repeats": found.repeats, "superseded": found.superseded})
        ledger.drop(begun, ("acks", "received", "settled"), staged=False)


def _hops(to: Destination) -> Sequence[str]:
    """The hops that somebody writes down."""
    match to.who_settles:
        case "consumer":
            return "acked", "received", "settled"
        case "watcher":
            return "acked", "received"
        case _:
            return ("acked",)


def _state(to: Destination, begun: Begun, ended: Ended | None, rows: Mapping[str, int], now: datetime) -> State:
    if ended is None:
        return "open"
    if ended.outcome == "abandoned":
        return "abandoned"
    if len(rows) == 2:  # noqa: PLR2004 - staged and acked: nobody says more
        return "delivered"
    if all(each == begun.rows for each in rows.values()):
        return "settled"
    return "overdue" if now - ended.at > timedelta(seconds=to.settle_within) else "delivered"


def _repeats(name: str, parts: Mapping[str, Part], seen: Ordinals) -> int:
    if name == "acked":
        return sum(len(each.set()) for each in parts.values()) - len(seen)
    return sum(each.repeats for each in parts.values())


def _losses(hop: str, begun: Begun, missing: Ordinals, before: Mapping[str, Part]) -> Iterator[Loss]:
    """The blocks with missing rows."""
    sets = {name: part.set() for name, part in before.items()} if missing else {}
    by_block: dict[int, Ordinals] = {}
    for ordinal in missing:
        by_block.setdefault(ordinal // BLOCK, Ordinals()).add(ordinal)
    for block, ordinals in sorted(by_block.items()):
        holders = [name for name, each in sets.items() if each.intersect(ordinals)]
        minutes = sorted({minute for name in holders for minute in before[name].minutes})
        yield Loss(
            hop, block, ordinals.min(), ordinals.max(), len(ordinals), _file_of(begun, ordinals.min()),
            tuple(sorted(holders)), tuple(minutes),
        )  # fmt: skip


def _file_of(begun: Begun, ordinal: int) -> str:
    """The staged file that has a row."""
    first = 0
    for each in begun.files:
        first += each.rows
        if ordinal < first:
            return each.key
    return ""


def _summarized(begun: Begun, summary: Mapping[str, Mapping[str, int] | int]) -> Account:
    rows, repeats, superseded = summary["rows"], summary["repeats"], summary["superseded"]
    return Account(
        destination=begun.destination, partition=begun.partition, edition=begun.edition, update=begun.update,
        state="settled", rows=dict(Counter(rows)), repeats=dict(Counter(repeats)), superseded=int(superseded),  # type: ignore[arg-type] # as `summarize` wrote them
    )  # fmt: skip
