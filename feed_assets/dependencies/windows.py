"""When the slots of a dataset end and are due, by its calendars and rules; and the next time something is due.

Not here: what is complete (`slot_states`). A base slot is *timed* if its basis is `assumed`: it becomes complete by
time alone, without any fact. All times are instants.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from feed_assets.datasets.containment import ancestors, base_starts
from feed_assets.datasets.grains import Grain, moved
from feed_assets.datasets.instants import FIRST_DAY, LAST_DAY, date_of, day_of
from feed_assets.datasets.members import Member
from feed_assets.datasets.ranges import member_starts, slots_between
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.completeness import NEVER
from feed_assets.dependencies.rules import Basis, Declared, Rule, weakest

_KEPT = 16_384
HOUR_SECONDS = Grain.HOUR.seconds


@dataclass(frozen=True, slots=True)
class Leaf:
    """A member with its rules. Its slots before the day `until` are timed: `assumed` is their rule."""

    member: Member
    rule: Rule
    assumed: Rule
    until: int

    @classmethod
    def of(cls, member: Member, rule: Rule, since: int | None) -> Leaf:
        """A member whose base slots have this rule; without a date of its own, from the day `since` on."""
        assumed = Rule(Basis.ASSUMED, buffer=rule.buffer, quiet=rule.quiet)
        if rule.basis is Basis.ASSUMED:
            return cls(member, rule, rule, LAST_DAY + 1)
        first = FIRST_DAY if since is None else since
        return cls(member, rule, assumed, day_of(rule.since) if rule.since else first)

    @property
    def has_timed(self) -> bool:
        """Whether some of its slots are timed."""
        return self.until > self.member.first_day

    @property
    def until_instant(self) -> int:
        """The first instant after its timed slots."""
        return self.member.calendar.days.begins(self.until)

    def is_timed(self, start: int, grain: Grain) -> bool:
        """Whether a base slot is timed, by its start."""
        return start < (self.until_instant if grain.seconds else self.until)


class StoredMember(NamedTuple):
    """What is stored of a member. Its slots before the day `until` are timed."""

    basis: str
    until: int
    first_day: int
    last_day: int
    zone: str


def since_of(declared: Declared, stored: Mapping[str, StoredMember], clock: int) -> Mapping[str, int]:
    """The first day of the rules of members that were `assumed` when the states were stored, up to `clock`.

    A rule that asks for facts begins on the day after it was introduced: nobody has counted the days before.
    """
    found: dict[str, int] = {}
    if not declared.dataset.base.seconds and declared.dataset.base is not Grain.DAY:
        return found
    for member in declared.dataset.hierarchy.members:
        before = stored.get(member.path)
        if before is None or declared.rule_of(member.path).basis is Basis.ASSUMED:
            continue
        was_assumed = before.basis == Basis.ASSUMED
        found[member.path] = member.calendar.day_at(clock) + 1 if was_assumed else before.until
    return found


class Windows:
    """The windows of the slots of one declared dataset."""

    def __init__(self, declared: Declared, since: Mapping[str, int] | None = None) -> None:
        """`since` has the first day of rules that were introduced later, by member."""
        self.declared = declared
        self.dataset = declared.dataset
        self.base = declared.dataset.base
        members = self.dataset.hierarchy.members
        self._leaves = {
            each.path: Leaf.of(each, declared.rule_of(each.path), (since or {}).get(each.path)) for each in members
        }
        self._timed = {path: leaf for path, leaf in self._leaves.items() if leaf.has_timed}
        self._needs_facts = any(leaf.rule.basis is not Basis.ASSUMED for leaf in self._leaves.values())
        self._fold_grain = next((each for each in self.dataset.grains if not 0 < each.seconds < HOUR_SECONDS), None)
        self.ancestors = lru_cache(_KEPT)(self._ancestors)
        """All slots that contain a slot, finest first."""
        self.due = lru_cache(_KEPT)(self._due)
        """When the last timed base slot in a slot has ended and its buffer has passed; NEVER, long ago, without any."""
        self.untimed = lru_cache(_KEPT)(self._untimed)
        """How many base slots of a slot need facts."""
        self.basis = lru_cache(_KEPT)(self._basis)
        """The basis of a slot: the weakest of its base slots'."""

    @property
    def stored_members(self) -> Mapping[str, StoredMember]:
        """What is stored of each member, to find what a later declaration changes."""
        return {
            path: StoredMember(
                leaf.rule.basis.value,
                leaf.until,
                leaf.member.first_day,
                leaf.member.last_day,
                leaf.member.calendar.zone,
            )
            for path, leaf in self._leaves.items()
        }

    def rule_of(self, slot: Slot) -> Rule:
        """The rule of a base slot."""
        leaf = self._leaves[slot.member]
        return leaf.assumed if leaf.is_timed(slot.start, slot.grain) else leaf.rule

    def newest_rule(self, member: str) -> Rule:
        """The rule of a member's newest base slots."""
        return self._leaves[member].rule

    def is_timed(self, slot: Slot) -> bool:
        """Whether a base slot becomes complete by time alone."""
        leaf = self._timed.get(slot.member)
        return leaf is not None and leaf.is_timed(slot.start, slot.grain)

    @property
    def takes_parts(self) -> bool:
        """Whether some member has a basis with parts."""
        return any(leaf.rule.basis in {Basis.COUNTED, Basis.COVERED} for leaf in self._leaves.values())

    @property
    def has_to_fold(self) -> bool:
        """Whether something is deleted when it is old: states of slots below an hour, or parts."""
        return self.takes_parts or 0 < self.base.seconds < HOUR_SECONDS

    def is_member(self, path: str) -> bool:
        """Whether a path is a member, not a level above."""
        return path in self._leaves

    def is_base(self, slot: Slot) -> bool:
        """Whether a slot is a base slot: of a member, at the base grain."""
        return slot.grain is self.base and slot.member in self._leaves

    def is_holiday(self, slot: Slot) -> bool:
        """Whether nothing is delivered in a base slot."""
        calendar = self._leaves[slot.member].member.calendar
        return bool(calendar.holidays) and self.dataset.is_holiday(slot)

    def end(self, slot: Slot) -> int:
        """The end of a slot's window."""
        return slot.start + slot.grain.seconds if slot.grain.seconds else self.dataset.window(slot)[1]

    def begin(self, slot: Slot) -> int:
        """The beginning of a slot's window."""
        return slot.start if slot.grain.seconds else self.dataset.window(slot)[0]

    def date_of_base(self, slot: Slot) -> date:
        """The batch date of its member in which a base slot begins."""
        return date_of(self._leaves[slot.member].member.calendar.day_at(self.begin(slot)))

    def fold_slot(self, slot: Slot) -> Slot | None:
        """The slot of an hour or a day that keeps what is known of a slot below an hour; None for other slots."""
        if not slot.grain.seconds or slot.grain.seconds >= HOUR_SECONDS or self._fold_grain is None:
            return None
        return next((each for each in self.ancestors(slot) if each[1:3] == (slot.member, self._fold_grain)), None)

    def _due(self, slot: Slot) -> int:
        found = [NEVER]
        if slot.grain.seconds:
            end = slot.start + slot.grain.seconds
            for leaf in self._timed_below(slot.member):
                here = leaf.member.begin <= slot.start < min(leaf.member.end, leaf.until_instant)
                found += [end + leaf.assumed.buffer_seconds] * here
            return max(found)
        for member, first, last in self.dataset.member_dates(slot):
            leaf = self._leaves[member.path]
            if first < leaf.until:
                end = member.calendar.days.begins(min(last + 1, leaf.until))
                found.append(end + leaf.assumed.buffer_seconds)
        return max(found)

    def _untimed(self, slot: Slot) -> int:
        if not self._needs_facts:
            return 0
        found = base_starts(self.dataset, slot)
        return sum(len(starts) - self._timed_among(member, starts) for member, starts in found)

    def _basis(self, slot: Slot) -> Basis:
        if self.is_base(slot):
            return self.rule_of(slot).basis
        bases = set()
        for member, starts in base_starts(self.dataset, slot):
            timed = self._timed_among(member, starts)
            bases |= {Basis.ASSUMED} if timed else set()
            bases |= {self._leaves[member].rule.basis} if timed < len(starts) else set()
        return weakest(frozenset(bases))

    def not_due(self, slot: Slot, clock: int) -> int:
        """How many timed base slots of a slot are not due yet."""
        if clock >= self.due(slot):
            return 0
        count = 0
        for member, starts in base_starts(self.dataset, slot):
            if (leaf := self._timed.get(member)) is not None:
                last = clock - leaf.assumed.buffer_seconds
                timed = starts[: self._timed_among(member, starts)]
                count += sum(1 for start in timed if self._base_end(leaf.member, start) > last)
        return count

    def became_due(self, path: str, grain: Grain, after: int, until: int) -> Iterator[Slot]:
        """The slots of a grain at a path whose last timed base slot became due after one time, up to another."""
        leaves = self._timed_below(path)
        branch = self.dataset.branch(path)
        if not leaves or (grain.seconds and grain not in branch.phases):
            return
        buffers = [leaf.assumed.buffer_seconds for leaf in leaves]
        begin, end = max(after - max(buffers), branch.begin), min(until - min(buffers) + 1, branch.end)
        if begin >= end:
            return
        for slot in slots_between(self.dataset, grain, begin, end, path):
            if after < self.due(slot) <= until:
                yield slot

    def holidays_ended(self, after: int, until: int) -> Iterator[Slot]:
        """The base slots on holidays of members that need facts, which ended after one time, up to another."""
        for path, leaf in self._leaves.items():
            if leaf.rule.basis is Basis.ASSUMED or not (self.base.seconds or self.base is Grain.DAY):
                continue
            for holiday in sorted(leaf.member.calendar.holiday_days()):
                if holiday < leaf.until or leaf.member.dates_in(holiday, holiday) is None:
                    continue
                for start in member_starts(leaf.member, self.base, holiday, holiday):
                    slot = Slot(self.dataset.name, path, self.base, start)
                    if after < self.end(slot) <= until:
                        yield slot

    def next_due(self, clock: int) -> int | None:
        """The first time after `clock` at which some slot becomes due by time alone; None: never again."""
        found = [due for leaf in self._leaves.values() if (due := self._next_due(leaf, clock)) is not None]
        return min(found, default=None)

    def _next_due(self, leaf: Leaf, clock: int) -> int | None:
        """When the next timed slot of a member is due, or the next slot ends that may be a holiday without facts."""
        found = []
        if leaf.has_timed and (end := self._next_end(leaf, clock - leaf.assumed.buffer_seconds)) is not None:
            found.append(end + leaf.assumed.buffer_seconds)
        if leaf.rule.basis is not Basis.ASSUMED and leaf.member.calendar.holidays:
            found += [end for end in [self._next_end(leaf, clock, timed=False)] if end is not None]
        return min(found, default=None)

    def _next_end(self, leaf: Leaf, after: int, *, timed: bool = True) -> int | None:
        """The end of the first base slot of a member that ends after a time; None without any."""
        member = leaf.member
        instant = max(after, member.begin)
        if instant >= (min(member.end, leaf.until_instant) if timed else member.end):
            return None
        if self.base.seconds:
            phase = self.dataset.branch(member.path).phases[self.base]
            return instant - (instant - phase) % self.base.seconds + self.base.seconds
        return self.end(self.dataset.slot_at(instant, self.base, member.path))

    def _timed_below(self, path: str) -> list[Leaf]:
        """The members at or below a path that have timed slots."""
        leaves = (self._leaves[member.path] for member in self.dataset.branch(path).leaves)
        return [leaf for leaf in leaves if leaf.has_timed]

    def _timed_among(self, member: str, starts: Sequence[int]) -> int:
        """How many of a member's base slots, in order of time, are timed."""
        leaf = self._timed.get(member)
        if leaf is None:
            return 0
        return bisect_left(starts, leaf.until_instant if self.base.seconds else leaf.until)

    def _base_end(self, member: Member, start: int) -> int:
        if self.base.seconds:
            return start + self.base.seconds
        return member.calendar.days.begins(min(moved(self.base, start, 1) - 1, member.last_day) + 1)

    def _ancestors(self, slot: Slot) -> tuple[Slot, ...]:
        order = self.dataset.grains.index
        return tuple(sorted(ancestors(self.dataset, slot), key=lambda each: (order(each.grain), -len(each.member))))
