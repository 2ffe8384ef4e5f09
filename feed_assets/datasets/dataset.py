"""A dataset: its grains, its members, and which slots it has.

Here: loading, the slot of an instant, the window of a slot, texts. Not here: how slots contain each other
(`containment`), ranges of slots (`ranges`), and what a flow waits for (`input_mappings`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise

from feed_assets.datasets.calendars import Calendar
from feed_assets.datasets.errors import GrainError, MemberError, SlotError
from feed_assets.datasets.grains import Grain, moved, period_start
from feed_assets.datasets.instants import FIRST_DAY, LAST_DAY, moment_of
from feed_assets.datasets.members import UTC_DAYS, Hierarchy, Member
from feed_assets.datasets.names import NO_MEMBER, name_fault
from feed_assets.datasets.slots import Slot, parse_slot, parse_start, start_text
from feed_assets.datasets.zone_days import DayRuns


@dataclass(frozen=True, slots=True)
class Branch:
    """What a dataset knows of a path: the members at or below it, and what their calendars have in common.

    `days` are the days of all members, or None if their days begin at different instants: then an instant may lie in
    two batch dates. `phases` has each grain below a day whose slots begin at the same instants for all members.
    `coarser` has, for each grain, the next coarser grains: those of the slots that contain one of its slots directly.
    `begin` and `end` are the first instant of a member, and the first after all. In the `gaps` between, no member
    delivers.
    """

    leaves: tuple[Member, ...]
    days: DayRuns | None
    phases: dict[Grain, int]
    coarser: dict[Grain, tuple[Grain, ...]]
    begin: int
    end: int
    gaps: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Dataset:
    """A named thing with slots. The finest of its `grains` is its base; the base divides the others.

    `name` is the location of a feed, such as `clean-ads/v1.0`, or another path of names, such as `raw/ads`. Raises
    MemberError for an unsafe name. Raises GrainError if a grain below a day does not divide the days of a member's
    calendar, with the zone and the date, or if the base does not divide a grain.

    >>> ads = Dataset.flat("raw/ads", Grain.HOUR, first=date(2026, 1, 1))
    >>> str(ads.slot_at(1795794900, Grain.HOUR))
    'raw/ads - hour 2026-11-27T15:00Z'
    """

    name: str
    grains: tuple[Grain, ...]
    hierarchy: Hierarchy
    _branches: dict[str, Branch] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if fault := name_fault(self.name, path=True):
            raise MemberError(f"{self.name!r} is no name of a dataset: {fault}. Use a name such as clean-ads/v1.0.")
        grains = tuple(grain for grain in Grain if grain in self.grains)
        if not grains:
            raise GrainError(f"{self.name} has no grain: name at least its base, such as hour.")
        if bad := [grain for grain in grains if not grains[0].divides(grain)]:
            raise GrainError(f"{self.name}: its base {grains[0]} does not divide {', '.join(bad)}. Leave these out.")
        object.__setattr__(self, "grains", grains)
        try:
            phases = {member.path: _phases(member, grains) for member in self.hierarchy.members}
        except GrainError as error:
            raise GrainError(f"{self.name}: {error}") from None
        branches = {path: _branch(self.hierarchy.leaves(path), grains, phases) for path in self.hierarchy}
        object.__setattr__(self, "_branches", branches)

    @classmethod
    def flat(
        cls, name: str, base: Grain, *, first: date, last: date | None = None, calendar: Calendar = UTC_DAYS
    ) -> Dataset:
        """A dataset without a hierarchy, with its base grain and all coarser ones."""
        return cls(name, base.and_coarser, Hierarchy.flat(first, last, calendar))

    @property
    def base(self) -> Grain:
        """The finest grain."""
        return self.grains[0]

    def branch(self, member: str) -> Branch:
        """A path of the hierarchy, as the dataset knows it. Raises MemberError if it does not exist."""
        if (found := self._branches.get(member)) is None:
            try:
                self.hierarchy.leaves(member)
            except MemberError as error:
                raise MemberError(f"{self.name}: {error}") from None
        return self._branches[member] if found is None else found

    def slot_at(self, instant: int, grain: Grain, member: str = NO_MEMBER) -> Slot:
        """The slot that contains an instant: seconds since 1970-01-01 00:00 UTC.

        Raises SlotError if the members at or below `member` do not deliver at the instant, or if their batch dates
        differ there: then ask for one of them. Raises GrainError if the dataset has no such grain.
        """
        branch = self._branches.get(member) or self.branch(member)
        if not branch.begin <= instant < branch.end or branch.gaps:
            self._check_delivering(branch, instant, member)
        phase = branch.phases.get(grain)
        if phase is not None:
            return Slot(self.name, member, grain, instant - (instant - phase) % grain.seconds)
        self.check_grain(grain, member)
        if branch.days is None:
            raise SlotError(
                f"{self.name}: {_time(instant)} may lie in several batch dates of {member}, whose members have several "
                f"calendars. Ask for one of its members, or name the {grain}."
            )
        return Slot(self.name, member, grain, period_start(grain, branch.days.day_at(instant)))

    def window(self, slot: Slot) -> tuple[int, int]:
        """The first instant of a slot, and the first one after it.

        The window of several batch dates is that of the dates on which a member delivers. If the members below have
        several calendars, it is from the first beginning to the last end. Raises SlotError if the slot does not exist.
        """
        if slot.grain.seconds:
            self.check(slot)
            return slot.start, slot.start + slot.grain.seconds
        windows = [
            (member.calendar.days.begins(first), member.calendar.days.begins(last + 1))
            for member, first, last in self.member_dates(slot)
        ]
        if not windows:
            self.check(slot)
        return min(begin for begin, _ in windows), max(end for _, end in windows)

    def member_dates(self, slot: Slot) -> list[tuple[Member, int, int]]:
        """The members of a slot of days or longer that deliver in it, each with its first and last day there."""
        first, last = slot.start, moved(slot.grain, slot.start, 1) - 1
        found = ((member, member.dates_in(first, last)) for member in self.branch(slot.member).leaves)
        return [(member, *dates) for member, dates in found if dates is not None]

    def is_holiday(self, slot: Slot) -> bool:
        """Whether nothing is delivered in a slot: each of its dates is a holiday of each of its members."""
        if slot.grain.seconds:
            members = self.branch(slot.member).leaves
            there = [member.calendar for member in members if member.begin <= slot.start < member.end]
            return bool(there) and all(each.is_holiday(each.day_at(slot.start)) for each in there)
        dates = self.member_dates(slot)
        return bool(dates) and all(
            member.calendar.is_holiday(day)
            for member, first, last in dates
            for day in member.calendar.existing(first, last)
        )

    def slot(self, start: str, member: str = NO_MEMBER, grain: Grain | None = None) -> Slot:
        """The slot that a person names by its start: `2026-11-27`, `2026-11-27T15`, `2026-W48`, `2026-11`, `2026-Q4`.

        Times without an offset are UTC if the member's calendar is UTC; else they are refused. `grain` is needed for
        times with minutes. Raises SlotError if the dataset has no such slot.

        >>> ads = Dataset.flat("raw/ads", Grain.HOUR, first=date(2026, 1, 1))
        >>> ads.slot("2026-11-27T15").start, ads.slot("2026-11").grain
        (1795791600, <Grain.MONTH: 'month'>)
        """
        leaves = self.branch(member).leaves
        in_utc = all(each.calendar.days.same_days(UTC_DAYS.days, each.first_day) for each in leaves)
        return self.check(Slot(self.name, member, *parse_start(start, grain, utc=in_utc)))

    def parse(self, text: str) -> Slot:
        """The slot of a text such as `raw/ads - hour 2026-11-27T15:00Z`. Raises SlotError if there is no such slot."""
        return self.check(parse_slot(text))

    def check(self, slot: Slot) -> Slot:
        """Return the slot. Raises SlotError, GrainError or MemberError unless the dataset has it."""
        if slot.dataset != self.name:
            raise SlotError(f"{slot} is a slot of another dataset than {self.name}.")
        branch = self.branch(slot.member)
        self.check_grain(slot.grain, slot.member)
        if slot.grain.seconds:
            self._check_delivering(branch, slot.start, slot.member)
        elif not FIRST_DAY - 6 <= slot.start <= LAST_DAY:
            raise SlotError(f"{slot} does not exist: {slot.start} is no day of the years 1970 to 2099.")
        nearest = self._nearest(slot, branch)
        if nearest != slot.start:
            raise SlotError(f"{slot} is not on its grain: use {start_text(slot.grain, nearest)}.")
        if not slot.grain.seconds and not self.member_dates(slot):
            raise SlotError(f"{slot} does not exist: {self._why_no_date(slot, branch)}")
        return slot

    def check_grain(self, grain: Grain, member: str) -> None:
        """Raise GrainError unless slots of a grain exist at a path of the hierarchy."""
        if grain not in self.grains:
            raise GrainError(f"{self.name} has no slots of the grain {grain}; it has {', '.join(self.grains)}.")
        if grain.seconds and grain not in self.branch(member).phases:
            raise GrainError(
                f"{self.name}: {member} has no slots of the grain {grain}, because they begin at different instants "
                "for its members. Ask for one of them, or for another grain."
            )

    def _nearest(self, slot: Slot, branch: Branch) -> int:
        """The start on the slot's grain at or before the start of the slot."""
        if slot.grain.seconds:
            return slot.start - (slot.start - branch.phases[slot.grain]) % slot.grain.seconds
        return period_start(slot.grain, slot.start)

    def _check_delivering(self, branch: Branch, instant: int, member: str) -> None:
        inside = branch.begin <= instant < branch.end
        if inside and not any(begin <= instant < end for begin, end in branch.gaps):
            return
        between = f"from {_time(branch.begin)} to {_time(branch.end)}" if not inside else "with gaps"
        raise SlotError(f"{self.name}: {member} does not deliver at {_time(instant)}; it delivers {between}.")

    def _why_no_date(self, slot: Slot, branch: Branch) -> str:
        within = [
            member
            for member in branch.leaves
            if member.first_day <= moved(slot.grain, slot.start, 1) - 1 and slot.start <= member.last_day
        ]
        if within:
            return within[0].calendar.missing(max(slot.start, within[0].first_day))
        dates = [(each.first, each.last) for each in branch.leaves]
        first = min(first for first, _ in dates)
        last = None if any(last is None for _, last in dates) else max(last for _, last in dates if last)
        return f"{slot.member} delivers from {first}{f' to {last}' if last else ' on'}."


def _phases(member: Member, grains: tuple[Grain, ...]) -> dict[Grain, int]:
    return {grain: member.calendar.phase(grain, member.first_day, member.last_day) for grain in grains if grain.seconds}


def _branch(leaves: tuple[Member, ...], grains: tuple[Grain, ...], phases: dict[str, dict[Grain, int]]) -> Branch:
    first = leaves[0]
    earliest = min(leaf.first_day for leaf in leaves)
    same_days = all(leaf.calendar.days.same_days(first.calendar.days, earliest) for leaf in leaves)
    shared = {
        grain: phase
        for grain, phase in phases[first.path].items()
        if all(phases[leaf.path][grain] == phase for leaf in leaves)
    }
    spans = _joined(sorted((leaf.begin, leaf.end) for leaf in leaves))
    return Branch(
        leaves,
        days=first.calendar.days if same_days else None,
        phases=shared,
        coarser={grain: _next_coarser(grain, grains, shared, same_days=same_days) for grain in grains},
        begin=spans[0][0],
        end=spans[-1][1],
        gaps=tuple((before, after) for (_, before), (after, _) in pairwise(spans)),
    )


def _next_coarser(
    grain: Grain, grains: tuple[Grain, ...], phases: dict[Grain, int], *, same_days: bool
) -> tuple[Grain, ...]:
    """The coarser grains whose slots contain those of a grain, without those that a grain between leads to."""
    found = [
        each
        for each in grains
        if grain.divides(each)
        and each is not grain
        and (each in phases if each.seconds else same_days or not grain.seconds)
    ]
    return tuple(each for each in found if not any(other.divides(each) and other is not each for other in found))


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted spans of time, of which those that touch or overlap are one."""
    joined = spans[:1]
    for begin, end in spans[1:]:
        if begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined


def _time(instant: int) -> str:
    try:
        return f"{moment_of(instant):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError):
        return f"{instant} s since 1970"
