"""When the slots of a dataset end and are due, by its calendars and rules; and the next time something is due.

Not here: what is complete (`slot_states`). A member is *timed* if its basis is `assumed`: its slots become complete by
time alone, without any fact. All times are instants.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from feed_assets.datasets.containment import ancestors, base_starts
from feed_assets.datasets.grains import Grain, moved
from feed_assets.datasets.members import Member
from feed_assets.datasets.ranges import member_starts, slots_between
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.completeness import NEVER
from feed_assets.dependencies.rules import Basis, Declared, Rule, weakest

_KEPT = 16_384
HOUR_SECONDS = Grain.HOUR.seconds


class Windows:
    """The windows of the slots of one declared dataset."""

    def __init__(self, declared: Declared) -> None:
        self.declared = declared
        self.dataset = declared.dataset
        self.base = declared.dataset.base
        self._members = {member.path: member for member in self.dataset.hierarchy.members}
        self._timed = {
            path: rule.buffer_seconds for path in self._members if (rule := self.rule_of(path)).basis is Basis.ASSUMED
        }
        self._buffers = {
            path: [self._timed[leaf.path] for leaf in self.dataset.hierarchy.leaves(path) if leaf.path in self._timed]
            for path in self.dataset.hierarchy
        }
        self._bases = {
            path: weakest(frozenset(self.rule_of(leaf.path).basis for leaf in self.dataset.hierarchy.leaves(path)))
            for path in self.dataset.hierarchy
        }
        self._fold_grain = next((each for each in self.dataset.grains if not 0 < each.seconds < HOUR_SECONDS), None)
        self.ancestors = lru_cache(_KEPT)(self._ancestors)
        """All slots that contain a slot, finest first."""
        self.due = lru_cache(_KEPT)(self._due)
        """When the last timed base slot in a slot has ended and its buffer has passed; NEVER, long ago, without any."""
        self.untimed = lru_cache(_KEPT)(self._untimed)
        """How many base slots of a slot need facts."""

    def rule_of(self, member: str) -> Rule:
        """The rule of a member's base slots."""
        return self.declared.rule_of(member)

    def basis(self, path: str) -> Basis:
        """The basis of slots at a path: the weakest of its members'."""
        return self._bases[path]

    def is_timed(self, member: str) -> bool:
        """Whether a member's slots become complete by time alone."""
        return member in self._timed

    @property
    def takes_parts(self) -> bool:
        """Whether some member has a basis with parts, whose states are deleted when they are old."""
        return any(self.rule_of(path).basis in {Basis.COUNTED, Basis.COVERED} for path in self._members)

    def is_member(self, path: str) -> bool:
        """Whether a path is a member, not a level above."""
        return path in self._members

    def is_base(self, slot: Slot) -> bool:
        """Whether a slot is a base slot: of a member, at the base grain."""
        return slot.grain is self.base and slot.member in self._members

    def is_holiday(self, slot: Slot) -> bool:
        """Whether nothing is delivered in a base slot."""
        calendar = self._members[slot.member].calendar
        return bool(calendar.holidays) and self.dataset.is_holiday(slot)

    def end(self, slot: Slot) -> int:
        """The end of a slot's window."""
        return slot.start + slot.grain.seconds if slot.grain.seconds else self.dataset.window(slot)[1]

    def begin(self, slot: Slot) -> int:
        """The beginning of a slot's window."""
        return slot.start if slot.grain.seconds else self.dataset.window(slot)[0]

    def fold_slot(self, slot: Slot) -> Slot | None:
        """The slot of an hour or a day that keeps what is known of a slot below an hour; None for other slots."""
        if not slot.grain.seconds or slot.grain.seconds >= HOUR_SECONDS or self._fold_grain is None:
            return None
        return next((each for each in self.ancestors(slot) if each[1:3] == (slot.member, self._fold_grain)), None)

    def _due(self, slot: Slot) -> int:
        if slot.grain.seconds:
            leaves = self.dataset.branch(slot.member).leaves
            end = slot.start + slot.grain.seconds
            buffers = (
                self._timed[leaf.path]
                for leaf in leaves
                if leaf.path in self._timed and leaf.begin <= slot.start < leaf.end
            )
            return max((end + buffer for buffer in buffers), default=NEVER)
        return max(
            (
                member.calendar.days.begins(last + 1) + self._timed[member.path]
                for member, _, last in self.dataset.member_dates(slot)
                if member.path in self._timed
            ),
            default=NEVER,
        )

    def _untimed(self, slot: Slot) -> int:
        if len(self._timed) == len(self._members):
            return 0
        found = base_starts(self.dataset, slot)
        return sum(len(starts) for member, starts in found if member not in self._timed)

    def not_due(self, slot: Slot, clock: int) -> int:
        """How many timed base slots of a slot are not due yet."""
        if clock >= self.due(slot):
            return 0
        count = 0
        for member, starts in base_starts(self.dataset, slot):
            if member in self._timed:
                last = clock - self._timed[member]
                count += sum(1 for start in starts if self._base_end(member, start) > last)
        return count

    def became_due(self, path: str, grain: Grain, after: int, until: int) -> Iterator[Slot]:
        """The slots of a grain at a path whose last timed base slot became due after one time, up to another."""
        buffers = self._buffers[path]
        branch = self.dataset.branch(path)
        if not buffers or (grain.seconds and grain not in branch.phases):
            return
        begin, end = max(after - max(buffers), branch.begin), min(until - min(buffers) + 1, branch.end)
        if begin >= end:
            return
        for slot in slots_between(self.dataset, grain, begin, end, path):
            if after < self.due(slot) <= until:
                yield slot

    def holidays_ended(self, after: int, until: int) -> Iterator[Slot]:
        """The base slots on holidays of members that need facts, which ended after one time, up to another."""
        for path, member in self._members.items():
            if path in self._timed:
                continue
            for holiday in sorted(member.calendar.holiday_days()):
                if member.dates_in(holiday, holiday) is None:
                    continue
                if self.base.seconds or self.base is Grain.DAY:
                    for start in member_starts(member, self.base, holiday, holiday):
                        slot = Slot(self.dataset.name, path, self.base, start)
                        if after < self.end(slot) <= until:
                            yield slot

    def next_due(self, clock: int) -> int | None:
        """The first time after `clock` at which some slot becomes due by time alone; None: never again."""
        found = [
            due
            for path, member in self._members.items()
            if (path in self._timed or member.calendar.holidays)
            and (due := self._next_due(member, clock, self._timed.get(path, 0))) is not None
        ]
        return min(found, default=None)

    def _next_due(self, member: Member, clock: int, buffer: int) -> int | None:
        last = max(clock - buffer, member.begin)
        if last >= member.end:
            return None
        if self.base.seconds:
            phase = self.dataset.branch(member.path).phases[self.base]
            return last - (last - phase) % self.base.seconds + self.base.seconds + buffer
        slot = self.dataset.slot_at(last, self.base, member.path)
        return self.end(slot) + buffer

    def _base_end(self, member: str, start: int) -> int:
        if self.base.seconds:
            return start + self.base.seconds
        days = self._members[member].calendar.days
        return days.begins(min(moved(self.base, start, 1) - 1, self._members[member].last_day) + 1)

    def _ancestors(self, slot: Slot) -> tuple[Slot, ...]:
        order = self.dataset.grains.index
        return tuple(sorted(ancestors(self.dataset, slot), key=lambda each: (order(each.grain), -len(each.member))))
