"""Which batch dates a new declaration of a dataset alters. A change of dates that have begun must be meant.

Not here: what follows for facts that are stored already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import MemberError
from feed_assets.datasets.instants import LAST_DAY, date_of, day_of
from feed_assets.datasets.members import Member


class MemberChange(NamedTuple):
    """The batch dates of a member that a new declaration alters: from `first` to `last`, both included, as days.

    `reason` says how: `added`, `removed`, `dates`, `calendar`, `holiday` or `base`.
    """

    member: str
    first: int
    last: int
    reason: str

    def __str__(self) -> str:
        end = "on" if self.last == LAST_DAY else f"to {date_of(self.last)}"
        return f"{self.member} from {date_of(self.first)} {end} ({self.reason})"


def member_changes(old: Dataset, new: Dataset) -> list[MemberChange]:
    """What a new declaration of a dataset alters: dates that a member gets or loses, or whose windows change.

    A base of another grain alters all dates. Coarser grains and names of levels alter none.
    """
    before = {member.path: member for member in old.hierarchy.members}
    after = {member.path: member for member in new.hierarchy.members}
    changes: list[MemberChange] = []
    for path in sorted(before.keys() | after.keys()):
        if path not in before:
            changes.append(_all_dates(after[path], "added"))
        elif path not in after:
            changes.append(_all_dates(before[path], "removed"))
        else:
            if old.base is not new.base:
                changes.append(_all_dates(after[path], "base"))
            changes += _changes(before[path], after[path])
    return changes


def check_change(old: Dataset, new: Dataset, now: int, *, reopen: bool = False) -> list[MemberChange]:
    """The changes of `member_changes`. Raises MemberError if a date that they alter has begun at `now`, an instant.

    `reopen` allows such a change: its dates become incomplete, and complete again by the new declaration. A date has
    begun if it has in the calendar of the old or of the new member.
    """
    changes = member_changes(old, new)
    begun = [each for each in changes if any(_begins(dataset, each) <= now for dataset in (old, new))]
    if begun and not reopen:
        more = f", and {len(begun) - 3} more" if len(begun) > 3 else ""  # noqa: PLR2004 - a message has a line
        raise MemberError(
            f"{new.name}: the change alters batch dates that have begun: {', '.join(map(str, begun[:3]))}{more}. "
            "Let it begin with a later date, or say reopen to make these dates incomplete again."
        )
    return changes


def _changes(old: Member, new: Member) -> Iterator[MemberChange]:
    """The dates of a member that are declared otherwise."""
    if old.first_day != new.first_day:
        first, after = sorted((old.first_day, new.first_day))
        yield MemberChange(new.path, first, after - 1, "dates")
    if old.last_day != new.last_day:
        before, last = sorted((old.last_day, new.last_day))
        yield MemberChange(new.path, before + 1, last, "dates")
    first, last = max(old.first_day, new.first_day), min(old.last_day, new.last_day)
    was, becomes = old.calendar.days, new.calendar.days
    if was is not becomes:
        moved = [day for day in range(first, last + 2) if was.begins(day) != becomes.begins(day)]
        if moved:
            yield MemberChange(new.path, max(moved[0] - 1, first), min(moved[-1], last), "calendar")
    for holiday in sorted(old.calendar.holidays ^ new.calendar.holidays):
        if first <= (day := day_of(holiday)) <= last:
            yield MemberChange(new.path, day, day, "holiday")


def _all_dates(member: Member, reason: str) -> MemberChange:
    return MemberChange(member.path, member.first_day, member.last_day, reason)


def _begins(dataset: Dataset, change: MemberChange) -> int:
    """The first instant of a change in a dataset's calendar; after 2099 where the dataset has no such member."""
    found = (each for each in dataset.hierarchy.members if each.path == change.member)
    member = next(found, None)
    return member.calendar.days.begins(change.first) if member else LAST_DAY * 100_000
