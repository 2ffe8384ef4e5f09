"""Parts: whether they can be taken, and what they change. Pure.

Not here: numbers of witnesses (`numbers`), storage of parts (`tables`), what follows for slots (`act`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final, NamedTuple, Protocol

from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.instants import DAY_SECONDS
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.act import Act
from feed_assets.dependencies.completeness import BaseFacts
from feed_assets.dependencies.errors import RefusedFactError
from feed_assets.dependencies.facts import Outcome, Part, Status
from feed_assets.dependencies.numbers import CLOCK_MAY_DIFFER, ahead
from feed_assets.dependencies.positions import Ranges, added, joined, size, without
from feed_assets.dependencies.rules import PARTS, Basis
from feed_assets.dependencies.streams import stream_key
from feed_assets.file_feed.digest import short_digest

PARTS_KEPT: Final = 7 * DAY_SECONDS
"""How long the ids of parts are kept after the end of their slots, in seconds."""


class StoredPart(NamedTuple):
    """A part as it is kept: `digest` is of its content, `slots` and `ranges` say what it changed.

    `retracted` has the ids of the parts that replaced it. `until` is the instant up to which it is kept.
    """

    member: str
    id: str
    digest: str
    stream: str
    ranges: Ranges
    records: tuple[tuple[int, int], ...]
    object: str
    until: int
    retracted: str = ""

    @classmethod
    def never_known(cls, member: str, id: str, clock: int, retracted: str) -> StoredPart:  # noqa: A002 - its id
        """A part that was retracted before it was reported."""
        return cls(member, id, "", "", (), (), "", clock + PARTS_KEPT, retracted)


class PartBook(Protocol):
    """The parts that are kept."""

    def part(self, dataset: str, member: str, id: str) -> StoredPart | None:  # noqa: A002 - a part's id
        """A part, also a retracted one; None if it is not known."""

    def parts_of(self, dataset: str, member: str) -> list[StoredPart]:
        """The parts of a member that count."""

    def keep(self, dataset: str, part: StoredPart) -> None:
        """Keep a part that is new or retracted."""


def take_part(act: Act, book: PartBook, part: Part, *, late: bool = True) -> Outcome:
    """Count a part, unless it is known. Raises RefusedFactError, and then changes nothing.

    With `late`, it counts as late data of slots that are complete, which may reopen them.
    """
    check_member(act, part.member)
    known = book.part(part.dataset, part.member, part.id)
    if known is not None and known.retracted:
        return Outcome(Status.KNOWN, f"part {part.id} does not count: it was replaced by {known.retracted}.")
    stored = _stored(act, part, check_time=known is None)
    if known is not None and known.digest == stored.digest:
        return Outcome(Status.KNOWN)
    if known is not None:
        raise RefusedFactError(
            f"part {part.id} of {part.dataset} {part.member} was reported with other content before, as "
            f"{known.object}. Give the new object an id of its own, or replace the old part by it."
        )
    _check_writer(act, part)
    _add(act, stored, part.dataset, late=late)
    book.keep(part.dataset, stored)
    return Outcome(Status.ACCEPTED)


def replace_parts(
    act: Act, book: PartBook, member: str, old: Sequence[str], new: Sequence[Part], *, equal: bool
) -> None:
    """Retract parts by their ids, and count new ones. An old part that is not known yet will not count.

    With `equal`, slots that are reopened keep their content. Raises RefusedFactError: the act is then of no use.
    """
    dataset = act.windows.dataset.name
    if strangers := [part.id for part in new if (part.dataset, part.member) != (dataset, member)]:
        raise RefusedFactError(f"parts {', '.join(strangers)} are not of {dataset} {member}: replace them there.")
    if both := {*old} & {part.id for part in new}:
        raise RefusedFactError(f"{', '.join(sorted(both))} cannot replace itself: give the new part a new id.")
    check_member(act, member)
    names = ", ".join(part.id for part in new) or "nothing"
    for each in old:
        known = book.part(dataset, member, each)
        if known is None:
            book.keep(dataset, StoredPart.never_known(member, each, act.clock, names))
        elif not known.retracted:
            book.keep(dataset, known._replace(retracted=names))
            _retract(act, known, dataset, book.parts_of(dataset, member))
    for part in new:
        take_part(act, book, part, late=False)
    if equal:
        for slot in act.bases:
            act.keep_content(slot)


def _stored(act: Act, part: Part, *, check_time: bool = True) -> StoredPart:
    """A checked part, as it is kept. Raises RefusedFactError if it cannot be true, or comes at a wrong time."""
    if not part.id:
        raise RefusedFactError("a part has no id: give each object that is put an id of its own.")
    slots = [_slot(act, part, start) for start in sorted(part.records)]
    if negative := next((count for count in part.records.values() if count < 0), None):
        raise RefusedFactError(f"part {part.id}: {negative} records: a count cannot be negative.")
    begins = sorted(part.ranges)
    if any(begin < 0 or begin >= end for begin, end in begins):
        raise RefusedFactError(f"part {part.id}: a range of positions is empty or negative: write [first, end).")
    ranges = joined(part.ranges)
    if size(ranges) != size(part.ranges):
        raise RefusedFactError(f"part {part.id}: its own ranges of positions overlap.")
    for slot in slots if check_time else ():
        _check_time(act, part, slot)
    records = tuple(sorted(part.records.items()))
    stream = stream_key(part.stream, part.generation)
    digest = short_digest(json.dumps([part.object, stream, ranges, records], ensure_ascii=False))
    until = max((act.windows.end(slot) for slot in slots), default=act.clock)
    return StoredPart(
        part.member, part.id, digest, stream, ranges, records, part.object, max(until, act.clock) + PARTS_KEPT
    )


def _check_writer(act: Act, part: Part) -> None:
    """Refuse an older writer of a stream; note a new one. Raises RefusedFactError."""
    if not part.writer:
        return
    key = stream_key(part.stream, part.generation)
    stream = act.lookup(part.member)(key)
    if part.epoch < stream.epoch or (part.epoch == stream.epoch and stream.writer not in {"", part.writer}):
        raise RefusedFactError(
            f"part {part.id}: {part.writer} (epoch {part.epoch}) no longer writes {key or part.member}: "
            f"{stream.writer} took over with epoch {stream.epoch}. Take over with a higher epoch, or stop."
        )
    act.set_stream(part.member, key, stream._replace(epoch=part.epoch, writer=part.writer))


def _add(act: Act, part: StoredPart, dataset: str, *, late: bool) -> None:
    """Count a part. With `late`, it counts as late data of slots that are complete, which may reopen them."""
    if part.ranges:
        stream = act.lookup(part.member)(part.stream)
        act.set_stream(part.member, part.stream, stream._replace(covered=added(stream.covered, part.ranges)))
    for start, records in part.records:
        slot = Slot(dataset, part.member, act.windows.base, start)
        facts = act.facts(slot)
        spans = dict(facts.spans)
        if part.ranges:
            spans[part.stream] = added(spans.get(part.stream, ()), part.ranges)
        facts = facts._replace(
            landed=facts.landed + records,
            parts=facts.parts + 1,
            length=facts.length + size(part.ranges),
            spans=tuple(sorted(spans.items())),
        )
        if late and act.known.base(slot).complete:
            facts = facts._replace(late=facts.late + records, late_parts=facts.late_parts + 1)
            _check_late(act, slot, facts)
        act.set_facts(slot, facts)


def _retract(act: Act, part: StoredPart, dataset: str, others: Iterable[StoredPart]) -> None:
    """Take back a part. `others` are the parts of its member that still count."""
    same = [other for other in others if other.stream == part.stream and other.ranges]
    if part.ranges:
        stream = act.lookup(part.member)(part.stream)
        kept = joined(each for other in same for each in other.ranges)
        covered = joined((*without(stream.covered, part.ranges), *_within(kept, part.ranges)))
        act.set_stream(part.member, part.stream, stream._replace(covered=covered))
    for start, records in part.records:
        slot = Slot(dataset, part.member, act.windows.base, start)
        facts = act.facts(slot)
        spans = dict(facts.spans)
        if part.ranges:
            naming = joined(each for other in same if _names(other, start) for each in other.ranges)
            left = joined((*without(spans.get(part.stream, ()), part.ranges), *_within(naming, part.ranges)))
            spans = {stream: each for stream, each in (spans | {part.stream: left}).items() if each}
        facts = facts._replace(
            landed=facts.landed - records,
            parts=facts.parts - 1,
            length=facts.length - size(part.ranges),
            spans=tuple(sorted(spans.items())),
        )
        act.set_facts(slot, facts)


def _slot(act: Act, part: Part, start: int) -> Slot:
    slot = Slot(part.dataset, part.member, act.windows.base, start)
    try:
        act.windows.dataset.check(slot)
    except DatasetError as error:
        raise RefusedFactError(f"part {part.id}: {error}") from None
    return slot


def _check_time(act: Act, part: Part, slot: Slot) -> None:
    begin, end = act.windows.begin(slot), act.windows.end(slot)
    if begin > act.clock + CLOCK_MAY_DIFFER:
        raise RefusedFactError(ahead(f"part {part.id} names {slot}", begin, act.clock))
    facts = act.facts(slot)
    if facts.backfill:
        return
    if act.is_folded(slot):
        raise RefusedFactError(
            f"part {part.id} names {slot}, whose records are no longer kept one by one. Open a backfill of "
            f"{act.windows.fold_slot(slot)}, and report all of its parts again."
        )
    if not part.ranges and end + PARTS_KEPT < act.clock:
        raise RefusedFactError(
            f"part {part.id} names {slot}, which ended more than {timedelta(seconds=PARTS_KEPT).days} days ago: a "
            "repeated part without positions would count twice. Open a backfill of the slot, or report positions."
        )


def _check_late(act: Act, slot: Slot, facts: BaseFacts) -> None:
    rule = act.windows.rule_of(slot)
    before = facts.accounted - facts.late
    if rule.late_share is not None and facts.late * PARTS > before * rule.late_share:
        act.reopen(slot, f"late data: {facts.late} records after {before}")
    elif rule.late_parts is not None and facts.late_parts > rule.late_parts:
        act.reopen(slot, f"late data: {facts.late_parts} parts, and {rule.late_parts} are allowed")


def _names(part: StoredPart, start: int) -> bool:
    return any(each == start for each, _ in part.records)


def _within(ranges: Ranges, other: Ranges) -> Ranges:
    """The positions that both sets have."""
    return without(other, without(other, ranges))


def check_member(act: Act, member: str) -> None:
    """Raise RefusedFactError unless a member takes parts."""
    act.windows.dataset.branch(member)
    if not act.windows.is_member(member):
        raise RefusedFactError(f"{act.windows.dataset.name}: {member} is no member but a level: name one below it.")
    if (basis := act.windows.newest_rule(member).basis) not in {Basis.COUNTED, Basis.COVERED}:
        raise RefusedFactError(
            f"{act.windows.dataset.name} {member} has the basis {basis}, which takes no parts and numbers. Declare "
            "counted or covered."
        )
