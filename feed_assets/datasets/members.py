"""The members of a dataset: where its parts belong in a hierarchy such as region, country, data center.

Here: the tree of names, and from when to when a member delivers. Not here: slots, and what a change of members alters
(`member_changes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from feed_assets.datasets.calendars import Calendar
from feed_assets.datasets.errors import CalendarError, MemberError
from feed_assets.datasets.instants import LAST_DAY, day_of
from feed_assets.datasets.names import NO_MEMBER, name_fault

UTC_DAYS: Final = Calendar("UTC")
"""The calendar of UTC days, without holidays."""


@dataclass(frozen=True)
class Member:
    """A member that delivers: a leaf of the hierarchy. `path` has a name for each level: `eu/fr/par1`.

    It delivers for the batch dates from `first` to `last`, both included, of its own calendar; without `last` it has no
    end. Raises MemberError if a name is unsafe, or if the dates are not in order or not in the years 1970 to 2099.
    """

    path: str
    first: date
    last: date | None = None
    calendar: Calendar = UTC_DAYS
    first_day: int = field(init=False, repr=False, compare=False)
    last_day: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.path != NO_MEMBER and (fault := name_fault(self.path, path=True)):
            raise MemberError(f"{self.path!r} is no member: {fault}. Write names with / between them: eu/fr/par1.")
        try:
            first_day = day_of(self.first)
            last_day = day_of(self.last) if self.last is not None else LAST_DAY
        except CalendarError as error:
            raise MemberError(f"member {self.path}: {error}") from None
        if last_day < first_day:
            raise MemberError(f"member {self.path} ends on {self.last}, before its first batch date {self.first}.")
        object.__setattr__(self, "first_day", first_day)
        object.__setattr__(self, "last_day", last_day)

    @property
    def begin(self) -> int:
        """The first instant of the member's first batch date."""
        return self.calendar.days.begins(self.first_day)

    @property
    def end(self) -> int:
        """The first instant after the member's last batch date; without one, after 2099."""
        return self.calendar.days.begins(self.last_day + 1)

    def dates_in(self, first: int, last: int) -> tuple[int, int] | None:
        """The first and last day of the member within two days, both included. None: no day, or skipped days only."""
        first, last = max(first, self.first_day), min(last, self.last_day)
        days = self.calendar.days
        return (first, last) if first <= last and days.begins(first) < days.begins(last + 1) else None


@dataclass(frozen=True)
class Hierarchy:
    """The levels of a dataset, and its members: `Hierarchy(("region", "country"), (Member("eu/fr", ...), ...))`.

    Without levels there is one member, whose path is `-`. With levels `-` stands for all members together, and each
    beginning of a path for those below it: `eu` has all members of the region. Raises MemberError if a path has not
    one name for each level, or if two members have one path.
    """

    levels: tuple[str, ...]
    members: tuple[Member, ...]
    _leaves: dict[str, tuple[Member, ...]] = field(init=False, repr=False, compare=False)
    _children: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        members = tuple(sorted(self.members, key=lambda member: member.path))
        levels = tuple(self.levels)
        for level in levels:
            if fault := name_fault(level, path=False):
                raise MemberError(f"{level!r} is no level: {fault}.")
        if not members:
            raise MemberError("a dataset needs at least one member.")
        for member in members:
            self._check_path(member.path)
        leaves: dict[str, list[Member]] = {}
        children: dict[str, dict[str, None]] = {}
        for member in members:
            for path in ancestry(member.path):
                leaves.setdefault(path, []).append(member)
                if path != NO_MEMBER:
                    children.setdefault(parent_path(path), {})[path] = None
        if twice := next((path for path in leaves if len(leaves[path]) > 1 and depth(path) == len(levels)), None):
            raise MemberError(f"two members have the path {twice}. Give each a path of its own.")
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "members", members)
        object.__setattr__(self, "_leaves", {path: tuple(found) for path, found in leaves.items()})
        object.__setattr__(self, "_children", {path: tuple(found) for path, found in children.items()})

    def _check_path(self, path: str) -> None:
        if depth(path) == len(self.levels):
            return
        expected = (
            f"one name for each level ({' / '.join(self.levels)})" if self.levels else "no level: its path is '-'"
        )
        raise MemberError(f"member {path!r} has {depth(path)} names; it must have {expected}.")

    @classmethod
    def flat(cls, first: date, last: date | None = None, calendar: Calendar = UTC_DAYS) -> Hierarchy:
        """The one member `-` of a dataset without a hierarchy."""
        return cls((), (Member(NO_MEMBER, first, last, calendar),))

    def __iter__(self) -> Iterator[str]:
        """All paths: `-`, the beginnings of paths, and those of members."""
        return iter(self._leaves)

    def __contains__(self, path: object) -> bool:
        return path in self._leaves

    def leaves(self, path: str) -> tuple[Member, ...]:
        """The members at or below a path. Raises MemberError, with the paths that are there, if there is none.

        >>> start = date(2026, 1, 1)
        >>> tree = Hierarchy(("region", "country"), (Member("eu/fr", start), Member("eu/de", start)))
        >>> [member.path for member in tree.leaves("eu")], tree.children("-")
        (['eu/de', 'eu/fr'], ('eu',))
        """
        found = self._leaves.get(path)
        if found is None:
            raise MemberError(f"no member has the path {path!r}. {self._known(path)}")
        return found

    def children(self, path: str) -> tuple[str, ...]:
        """The paths one level below; empty for a member. Raises MemberError if the path does not exist."""
        self.leaves(path)
        return self._children.get(path, ())

    def _known(self, path: str) -> str:
        """The paths next to one that does not exist."""
        if not self.levels:
            return "The dataset has no hierarchy: its member is '-'."
        above = next((each for each in ancestry(path) if each != path and each in self._leaves), NO_MEMBER)
        there = self._children.get(above, ())
        shown = ", ".join(there[:10]) + (", ..." if len(there) > 10 else "")  # noqa: PLR2004 - a message has a line
        return f"Below {above} are: {shown}." if there else f"{above} has no members below it."


def depth(path: str) -> int:
    """The number of names in a path: 0 for `-`."""
    return 0 if path == NO_MEMBER else path.count("/") + 1


def parent_path(path: str) -> str:
    """The path one level up; `-` for the first level."""
    return path.rpartition("/")[0] or NO_MEMBER


def ancestry(path: str) -> Iterator[str]:
    """The path, and all above it, up to `-`.

    >>> [*ancestry("eu/fr")]
    ['eu/fr', 'eu', '-']
    """
    yield path
    while path != NO_MEMBER:
        path = parent_path(path)
        yield path
