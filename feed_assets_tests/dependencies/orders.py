"""Facts about counted and covered slots in any order, against a brute-force account of what they mean.

Here: applying facts without a database, the account by sets of positions, random histories, and a command:

    python -m feed_assets_tests.dependencies.orders [HISTORIES] [SEED]

Each history is a source with records that are late and out of order, some of which are lost, read again, compacted or
replaced. The command says in how many histories a slot was complete, and fails if two orders of the same facts differ,
if the account differs, or if a slot is complete whose records are not there.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import instant_of
from feed_assets.datasets.members import Hierarchy
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.act import COMPLETED, Act, Change
from feed_assets.dependencies.answers import Answer, answer
from feed_assets.dependencies.facts import Ends, Number, Part
from feed_assets.dependencies.numbers import take_ends, take_number
from feed_assets.dependencies.parts import StoredPart, replace_parts, take_part
from feed_assets.dependencies.rules import PARTS, Basis, Declared, Rule
from feed_assets.dependencies.slot_states import SlotStates
from feed_assets.dependencies.windows import Windows
from feed_assets_tests.dependencies.datasets import at

GRAINS = (Grain.FIVE_MINUTES, Grain.TEN_MINUTES, Grain.HOUR)
BEGIN = at("2026-11-27T15:00")
FIRST = instant_of(BEGIN)
SLOTS = [Slot("raw/foo", "-", Grain.FIVE_MINUTES, FIRST + 300 * n) for n in range(12)]
HOUR = Slot("raw/foo", "-", Grain.HOUR, FIRST)


class Replace(NamedTuple):
    """A replacement of parts by others."""

    old: tuple[str, ...]
    new: tuple[Part, ...]


class Tick(NamedTuple):
    """Time passes."""

    now: datetime


EARLIER = Tick(BEGIN + timedelta(minutes=50))
"""A time at which parts may name all of the slots, and not all have ended."""

Fact = Part | Number | Ends | Replace | Tick


def declared(basis: Basis, threshold: int = 99_000, slack: int = 0) -> Declared:
    """A topic of one member by 5 minutes."""
    witnesses = ("source",) if basis is Basis.COUNTED else ()
    rule = Rule(basis, witnesses, threshold=threshold, slack=slack)
    return Declared(Dataset("raw/foo", GRAINS, Hierarchy.flat(date(2026, 11, 27))), rule)


@dataclass
class Told:
    """The states after some facts, and the changes that they told."""

    windows: Windows
    now: datetime = BEGIN + timedelta(minutes=4)
    states: SlotStates = field(init=False)
    changes: list[Change] = field(default_factory=list)
    parts: dict[str, StoredPart] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.states = SlotStates(self.windows)

    def part(self, dataset: str, member: str, id: str) -> StoredPart | None:  # noqa: A002, ARG002 - as a PartBook
        return self.parts.get(id)

    def parts_of(self, dataset: str, member: str) -> list[StoredPart]:  # noqa: ARG002 - as a PartBook
        return [part for part in self.parts.values() if not part.retracted]

    def keep(self, dataset: str, part: StoredPart) -> None:  # noqa: ARG002 - as a PartBook
        self.parts[part.id] = part

    def copied(self) -> Told:
        """The same, to go on with other facts."""
        copied = Told(self.windows, self.now)
        copied.changes, copied.parts = [*self.changes], {**self.parts}
        known = self.states
        states = SlotStates(self.windows, known.clock, {**known.bases}, {**known.roll_ups}, {**known.streams})
        states._pending = [*known._pending]
        states._uncovered = {member: {*slots} for member, slots in known._uncovered.items()}
        copied.states = states
        return copied

    def take(self, fact: Fact) -> None:
        if isinstance(fact, Tick):
            self.now = fact.now
        act = Act(self.states, instant_of(self.now))
        match fact:
            case Part():
                take_part(act, self, fact)
            case Number():
                take_number(act, fact)
            case Ends():
                take_ends(act, fact)
            case Replace():
                replace_parts(act, self, "-", fact.old, fact.new, equal=False)
        act.finish()
        act.install()
        self.changes += act.changes

    def answers(self) -> list[Answer]:
        """What is said of all slots in the end, without revisions: these depend on the order."""
        slots = [*SLOTS, *[Slot("raw/foo", "-", Grain.TEN_MINUTES, FIRST + 600 * n) for n in range(6)], HOUR]
        return [answer(self.states, slot)._replace(revision=0, content=0, begun=None) for slot in slots]

    def check_events(self) -> None:
        """Each revision of a slot was completed once, and what is complete in the end was completed."""
        completed = [(change.first, change.revision) for change in self.changes if change.kind == COMPLETED]
        assert len(completed) == len({*completed})
        for slot, state in (*self.states.bases.items(), *self.states.roll_ups.items()):
            assert not state.complete or (slot, state.revision) in completed
            assert {revision for each, revision in completed if each == slot} <= set(range(1, state.revision + 1))


class Account(NamedTuple):
    """What brute force says of a slot."""

    complete: bool
    accounted: int
    expected: int | None
    overlap: int
    gap: int


def account(rule: Rule, facts: Iterable[Fact], slot: Slot, now: datetime) -> Account:
    """The account of a base slot by sets of positions, from the facts in any order."""
    facts = [*facts]
    parts = {part.id: part for fact in facts for part in ([fact] if isinstance(fact, Part) else [])}
    parts |= {part.id: part for fact in facts if isinstance(fact, Replace) for part in fact.new}
    gone = {each for fact in facts if isinstance(fact, Replace) for each in fact.old}
    live = [part for part in parts.values() if part.id not in gone]
    naming = [part for part in live if slot.start in part.records]
    covered = _positions(live)
    mine = _positions(naming)
    overlap = sum(end - begin for part in naming for begin, end in part.ranges) - sum(map(len, mine.values()))
    accounted = max(sum(part.records[slot.start] for part in naming) - overlap, 0)
    gap = sum(len({*range(min(each), max(each))} - covered[stream]) for stream, each in mine.items() if each)
    ended = instant_of(now) >= slot.start + 300
    if rule.basis is Basis.COUNTED:
        numbers = [fact for fact in facts if isinstance(fact, Number) and fact.slot == slot]
        newest = max(numbers, key=lambda each: (each.version, each.final), default=None)
        expected = newest.records if newest else None
        final = newest is not None and newest.final
    else:
        ends = [fact for fact in facts if isinstance(fact, Ends) and fact.slot == slot]
        final = bool(ends)
        expected = None
        if ends:
            earliest = min(ends, key=lambda each: each.taken)
            missing = sum(len({*range(end)} - covered.get(key, set())) for key, end in earliest.ends.items())
            expected = accounted + missing
    enough = expected is not None and (
        accounted * PARTS >= expected * rule.threshold or expected - accounted <= rule.slack
    )
    return Account(ended and final and enough, accounted, expected, overlap, gap)


def _positions(parts: Iterable[Part]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for part in parts:
        for begin, end in part.ranges:
            found.setdefault(part.stream, set()).update(range(begin, end))
    return found


def accounts(rule: Rule, facts: Sequence[Fact]) -> dict[Slot, Account]:
    """The account of each slot after all facts."""
    now = max((fact.now for fact in facts if isinstance(fact, Tick)), default=BEGIN)
    return {slot: account(rule, facts, slot, now) for slot in SLOTS}


def in_all_orders(told: Told, facts: Sequence[Fact]) -> Iterator[Told]:
    """What is known after these facts, in each of their orders; equal facts next to each other are not swapped."""
    if not facts:
        yield told
    for place, fact in enumerate(facts):
        if place and fact is facts[place - 1]:
            continue
        after = told.copied()
        after.take(fact)
        yield from in_all_orders(after, [*facts[:place], *facts[place + 1 :]])


def checked(told: Told, expected: Mapping[Slot, Account]) -> Told:
    """Compare what is known with brute force."""
    told.check_events()
    for slot in SLOTS:
        found = answer(told.states, slot)
        got = Account(found.complete, found.accounted, found.expected, found.overlap, found.gap)
        assert got == expected[slot], (slot, got, expected[slot])
    hour = answer(told.states, HOUR)
    assert hour.complete == all(each.complete for each in expected.values())
    assert hour.accounted == sum(each.accounted for each in expected.values())
    return told


class History(NamedTuple):
    """Facts of a random source, and how many true records of each slot are in some part that counts."""

    facts: list[Fact]
    true: dict[int, int]
    there: dict[int, int]


def history(chance: random.Random, basis: Basis) -> History:
    """A random source of up to three streams: late, out of order, with positions without records, partly lost."""
    slots = chance.sample(SLOTS, chance.randint(1, 4))
    starts = [slot.start for slot in slots]
    facts: list[Fact] = []
    true, there = dict.fromkeys(starts, 0), dict.fromkeys(starts, 0)
    ends: dict[str, int] = {}
    for stream in ("foo-0", "foo-1", "foo-2")[: chance.randint(1, 3)]:
        length = chance.randint(1, 300)
        ends[stream] = length
        of = {each: chance.choice(starts) for each in range(length) if chance.random() > 0.1}
        parts = list(_parts(chance, stream, length, of))
        facts += parts
        if len(parts) > 1 and chance.random() < 0.4:
            facts += _replacement(chance, stream, parts, of)
        for start in starts:
            true[start] += sum(1 for each in of.values() if each == start)
            there[start] += len(_live(facts, stream, of, start))
    now = BEGIN + timedelta(hours=1)
    facts.append(Tick(now))
    for slot in slots:
        if basis is Basis.COVERED:
            facts.append(Ends(slot, ends, now))
        else:
            facts += [Number("source", slot, chance.randint(0, 300), final=chance.random() < 0.5)] * (
                chance.random() < 0.5
            )
            facts.append(Number("source", slot, true[slot.start], version=1))
    return History(facts, true, there)


def _parts(chance: random.Random, stream: str, length: int, of: dict[int, int]) -> Iterable[Part]:
    cuts = [0, *sorted(chance.sample(range(length + 1), min(length, chance.randint(0, 6)))), length]
    ranges = [(begin, end) for begin, end in pairwise(cuts) if begin < end]
    kept = [each for each in ranges if chance.random() > 0.15]
    if kept and chance.random() < 0.4:  # read again after a restart
        begin, end = chance.choice(kept)
        kept.append((max(0, begin - chance.randint(0, 10)), end))
    for number, each in enumerate(kept):
        part = _part(f"{stream}-{number}", stream, (each,), of)
        yield part
        if chance.random() < 0.2:
            yield part


def _replacement(chance: random.Random, stream: str, parts: Sequence[Part], of: dict[int, int]) -> Iterable[Fact]:
    distinct = list({part.id: part for part in parts}.values())
    old = chance.sample(distinct, min(len(distinct), chance.randint(1, 3)))
    ranges = sorted({each for part in old for each in part.ranges})
    apart = [each for n, each in enumerate(ranges) if not n or each[0] >= max(end for _, end in ranges[:n])]
    new = _part(f"{stream}-new", stream, tuple(apart[chance.randint(0, 1) :]), of)
    yield Replace(tuple(part.id for part in old), (new,))


def _part(id_: str, stream: str, ranges: tuple[tuple[int, int], ...], of: dict[int, int]) -> Part:
    records: dict[int, int] = {}
    for begin, end in ranges:
        for each in range(begin, end):
            if each in of:
                records[of[each]] = records.get(of[each], 0) + 1
    return Part("raw/foo", "-", id_, f"s3://raw/{id_}", stream, ranges, records)


def _live(facts: Iterable[Fact], stream: str, of: dict[int, int], start: int) -> set[int]:
    facts = [*facts]
    parts = {fact.id: fact for fact in facts if isinstance(fact, Part)}
    parts |= {part.id: part for fact in facts if isinstance(fact, Replace) for part in fact.new}
    gone = {each for fact in facts if isinstance(fact, Replace) for each in fact.old}
    covered = _positions(part for part in parts.values() if part.id not in gone).get(stream, set())
    return {each for each in covered if of.get(each) == start}


def try_histories(number: int, seed: int = 0) -> tuple[int, int]:
    """Random histories in two random orders. Returns the numbers of slots, and of complete ones."""
    windows = {basis: Windows(declared(basis)) for basis in (Basis.COUNTED, Basis.COVERED)}
    slots = complete = 0
    for each in range(number):
        chance = random.Random(f"{seed}/{each}")
        basis = chance.choice([*windows])
        found = history(chance, basis)
        answers, expected = [], accounts(windows[basis].newest_rule("-"), found.facts)
        for _ in range(2):
            order = [EARLIER, *chance.sample(found.facts, len(found.facts))]
            order.sort(key=lambda fact: isinstance(fact, Ends))  # their time must have come
            told = Told(windows[basis])
            for fact in order:
                told.take(fact)
            answers.append(checked(told, expected).answers())
        assert answers[0] == answers[1], f"history {seed}/{each}: two orders differ"
        for said in answers[0][: len(SLOTS)]:
            start = said.slot.start
            if start in found.true:
                slots += 1
                complete += said.complete
                enough = found.there[start] * PARTS >= found.true[start] * windows[basis].newest_rule("-").threshold
                assert enough or not said.complete, f"history {seed}/{each}: {said.slot} is not complete"
    return slots, complete


def main(number: str = "10000", seed: str = "0") -> None:
    slots, complete = try_histories(int(number), int(seed))
    print(f"{number} histories, each in 2 orders: of {slots} slots {complete} complete, none wrongly.")


if __name__ == "__main__":
    main(*sys.argv[1:])
