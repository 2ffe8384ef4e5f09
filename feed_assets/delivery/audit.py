"""The audit of a delivery: how many rows each hop has seen, and the first hop where one is missing.

Here: comparing the sets of ordinals of the hops. It reads what senders and consumers wrote into the ledger, and
nothing else. Not here: writing that (`sending`, `consuming`).

Hops: `staged` (what is to be sent), `acked` (by the stream), `received` (by a consumer), `settled` (in the store).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final, Literal

from feed_assets.blackboard.port import NotFoundError
from feed_assets.delivery.destination import Destination
from feed_assets.delivery.ledger import Begun, Edition, Ended, Hop, Ledger, Part, union
from feed_assets.delivery.ordinals import BLOCK, Ordinals, between, by_block, everything
from feed_assets.delivery.sending import staged_rows
from feed_assets.delivery.streams.port import Shard, hash_key

State = Literal["open", "abandoned", "delivered", "settled", "overdue"]
HOPS: Final[Mapping[str, Hop]] = {"acked": "acks", "received": "received", "settled": "settled"}
"""The hops after `staged`, and where the ledger has what they saw."""
MOST_LOSSES: Final = 20
"""Blocks that an audit names."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Rows of one block that a hop has not seen.

    `holders` and `minutes` are where rows of the block passed the hop before: acknowledged to attempts of senders,
    received from shards. `shards` are those that have, or had, the rows in the stream; see `with_shards`.
    """

    hop: str
    block: int
    first: int
    last: int
    rows: int
    file: str
    holders: tuple[str, ...]
    minutes: tuple[str, ...]
    shards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Account:
    """What became of a delivery. `rows` by hop; `repeats` are rows that a hop has seen again.

    Repeats that were received are `unexplained` if they are more than the ambiguous answers and the repeats of senders.
    A sender that was killed may have sent them; else two programs send the same delivery.
    """

    destination: str
    partition: str | None
    edition: int
    update: str | None
    state: State
    rows: dict[str, int]
    repeats: dict[str, int]
    superseded: int
    unexplained: int = 0
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
        seen = union(parts.values())
        if name == "acked" and ended and ended.outcome == "delivered" and not parts:
            # The parts of a delivery go when the next one has ended.
            seen, repeats[name] = everything(begun.rows), ended.repeats
        else:
            repeats[name] = _repeats(name, parts, seen)
        rows[name] = len(seen)
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
        unexplained=_unexplained(repeats, ended),
        losses=tuple(losses[:MOST_LOSSES]),
    )


def summarize(ledger: Ledger, edition: Edition, found: Account) -> None:
    """Keep what a delivery came to that is settled or abandoned in one object, and drop the sets.

    The rows of a settled one stay for lookups.
    """
    begun = ledger.began(edition)
    is_over = found.state == "abandoned" or (found.state == "settled" and found.is_whole)
    if is_over and ledger.settled_summary(edition) is None:
        counts = {"repeats": found.repeats, "superseded": found.superseded, "unexplained": found.unexplained}
        ledger.summarize(begun, {"state": found.state, "rows": found.rows, **counts})
        ledger.drop(begun, ("acks", "received", "settled"), staged=False)


def unsettled(ledger: Ledger, to: Destination, *, now: datetime) -> list[tuple[Edition, Account]]:
    """The deliveries that have ended and have no summary, oldest first: three listings, and `account` for each.

    An abandoned one counts if a later one of its partition has a summary: until then its rows may still arrive.
    """
    summarized, found = ledger.summarized(), list[tuple[Edition, Account]]()
    for partition, editions in ledger.editions().items():
        newest = max((each.number for each in editions if (partition, each.number) in summarized), default=-1)
        for each in editions:
            if each.has_ended and (partition, each.number) not in summarized:
                account_ = account(ledger, to, each, now=now)
                if account_.state != "abandoned" or each.number < newest:
                    found.append((each, account_))
    return sorted(found, key=lambda each: each[0].number)


def with_shards(ledger: Ledger, edition: Edition, found: Account, shards: Sequence[Shard]) -> Account:
    """The account, whose losses name the shards that have the rows, by the staged rows' shard keys.

    Reads the staged files up to the last row that is named. After a split or a merge, several shards may have a row.
    """
    wanted = [each for each in found.losses if each.hop == "received"]
    if not wanted:
        return found
    names: dict[int, set[str]] = {each.block: set() for each in wanted}
    begun, left = ledger.began(edition), Ordinals()
    seen = union(ledger.parts("received", begun).values())
    for each in wanted:
        left |= between(each.first, each.last + 1) - seen
    with suppress(NotFoundError):  # another delivery has ended since: its staged files are gone
        for batch in staged_rows(ledger.feed.blackboard, begun):
            for ordinal, _, key, _ in batch:
                if ordinal in left:
                    place = hash_key(key)
                    names[ordinal // BLOCK] |= {each.name for each in shards if each.low <= place <= each.high}
            if batch[-1][0] >= left.max():
                break
    losses = (
        replace(each, shards=tuple(sorted(names[each.block]))) if each.hop == "received" else each
        for each in found.losses
    )
    return replace(found, losses=tuple(losses))


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
    return sum(each.repeats + len(each.set()) for each in parts.values()) - len(seen)


def _unexplained(repeats: Mapping[str, int], ended: Ended | None) -> int:
    if ended is None:
        return 0
    return max(0, repeats.get("received", 0) - max(repeats["acked"], ended.repeats) - ended.ambiguous)


def _losses(hop: str, begun: Begun, missing: Ordinals, before: Mapping[str, Part]) -> Iterator[Loss]:
    """The blocks with missing rows."""
    sets = {name: part.set() for name, part in before.items()} if missing else {}
    for block, ordinals in islice(by_block(missing), MOST_LOSSES):
        holders = tuple(sorted(name for name, each in sets.items() if each.intersect(ordinals)))
        minutes = {minute for name in holders for minute in before[name].minutes.get(block, ())}
        file = _file_of(begun, ordinals.min())
        yield Loss(
            hop, block, ordinals.min(), ordinals.max(), len(ordinals), file, holders, tuple(sorted(minutes)),
            shards=holders if hop == "settled" else (),
        )  # fmt: skip


def _file_of(begun: Begun, ordinal: int) -> str:
    """The staged file that has a row."""
    first = 0
    for each in begun.files:
        first += each.rows
        if ordinal < first:
            return each.key
    return ""


def _summarized(begun: Begun, summary: Mapping[str, Any]) -> Account:
    return Account(
        destination=begun.destination,
        partition=begun.partition,
        edition=begun.edition,
        update=begun.update,
        state=summary["state"],
        rows=summary["rows"],
        repeats=summary["repeats"],
        superseded=summary["superseded"],
        unexplained=summary["unexplained"],
    )
