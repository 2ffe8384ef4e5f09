"""Parts and numbers: whether they can be taken, and what they change. Pure.

Not here: storage of parts (`tables`), what follows for slots (`act`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Final, NamedTuple

from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.instants import DAY_SECONDS, instant_of, moment_of
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.act import Act
from feed_assets.dependencies.completeness import BaseFacts, Count
from feed_assets.dependencies.errors import RefusedFactError
from feed_assets.dependencies.facts import Ends, Number, Part
from feed_assets.dependencies.positions import Ranges, added, joined, size, without
from feed_assets.dependencies.rules import PARTS, Basis
from feed_assets.dependencies.streams import stream_key
from feed_assets.file_feed.digest import short_digest

PARTS_KEPT: Final = 7 * DAY_SECONDS
"""How long the ids of parts are kept after the end of their slots, in seconds."""
CLOCK_MAY_DIFFER: Final = 600
"""By how many seconds the clock of a reporting machine may be ahead."""


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


def stored_part(act: Act, part: Part, *, check_time: bool = True) -> StoredPart:
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


def check_writer(act: Act, part: Part) -> None:
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


def add_part(act: Act, part: StoredPart, dataset: str, *, late: bool) -> None:
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


def retract_part(act: Act, part: StoredPart, dataset: str, others: Iterable[StoredPart]) -> None:
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


def take_number(act: Act, number: Number) -> bool:
    """Take what a witness counted; whether it is new. Raises RefusedFactError."""
    slot, rule = number.slot, act.windows.rule_of(number.slot.member)
    if number.records < 0:
        raise RefusedFactError(f"{slot}: {number.witness} says {number.records} records: a count cannot be negative.")
    if number.witness not in rule.witnesses:
        names = ", ".join(rule.witnesses) or "none"
        raise RefusedFactError(f"{slot}: {number.witness!r} is no witness of {slot.member}. Declared are: {names}.")
    facts = act.facts(slot)
    known = dict(facts.numbers)
    before, new = known.get(number.witness), Count(number.records, number.final, number.version)
    if before is not None and (before == new or (new.version, new.final) < (before.version, before.final)):
        return False
    known[number.witness] = new
    act.set_facts(slot, facts._replace(numbers=tuple(sorted(known.items()))))
    return True


def take_ends(act: Act, ends: Ends) -> bool:
    """Take the end positions of a slot; whether they are new. The earliest ones count. Raises RefusedFactError."""
    slot, taken = ends.slot, instant_of(ends.taken)
    rule = act.windows.rule_of(slot.member)
    earliest = act.windows.end(slot) + rule.grace_seconds
    if taken < earliest:
        raise RefusedFactError(
            f"{slot}: the end positions of {moment_of(taken):%Y-%m-%dT%H:%M:%SZ} are too early: "
            f"take them at {moment_of(earliest):%Y-%m-%dT%H:%M:%SZ} or later."
        )
    if taken > act.clock + CLOCK_MAY_DIFFER:
        raise RefusedFactError(_ahead(str(slot), taken, act.clock))
    if not ends.ends or any(position < 0 for position in (*ends.ends.values(), *ends.begins.values())):
        raise RefusedFactError(f"{slot}: end positions are missing or negative: give one for each stream.")
    for key, begin in ends.begins.items():
        act.set_stream(slot.member, key, act.lookup(slot.member)(key).seen(begin))
    facts = act.facts(slot)
    if facts.ends and facts.taken <= taken:
        return False
    act.set_facts(slot, facts._replace(ends=tuple(sorted(ends.ends.items())), taken=taken))
    return True


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
        raise RefusedFactError(_ahead(f"part {part.id} names {slot}", begin, act.clock))
    facts = act.facts(slot)
    if facts.backfill:
        return
    if act.known.is_folded(slot) and slot not in act.bases:
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
    rule = act.windows.rule_of(slot.member)
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


def _ahead(what: str, instant: int, clock: int) -> str:
    return (
        f"{what}: {moment_of(instant):%Y-%m-%dT%H:%M:%SZ} is later than the store's time, "
        f"{moment_of(clock):%Y-%m-%dT%H:%M:%SZ}. Check the clock of the reporting machine."
    )


def check_member(act: Act, member: str) -> None:
    """Raise RefusedFactError unless a member takes parts."""
    act.windows.dataset.branch(member)
    if not act.windows.is_member(member):
        raise RefusedFactError(f"{act.windows.dataset.name}: {member} is no member but a level: name one below it.")
    if (basis := act.windows.rule_of(member).basis) not in {Basis.COUNTED, Basis.COVERED}:
        raise RefusedFactError(
            f"{act.windows.dataset.name} {member} has the basis {basis}, which takes no parts and numbers. Declare "
            "counted or covered."
        )
