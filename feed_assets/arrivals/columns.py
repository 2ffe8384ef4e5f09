"""Columns of a source that its description does not know, and known ones that are suddenly without a value, by day.

Here: adding up what landings saw, and the rule:

- A name is new if it was not there on the first day on which columns were counted: a description need not name all
  columns, so those of the first day are taken as left out on purpose.
- A known column is gone if no landing of a day had a value of it, although each landing before had, or, on each of the
  days before, so many that some would be expected. Landings count, as records of one landing are often alike.

Not here: looking at files (`sources.seen_columns`), and who is told.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

from feed_assets.file_feed.wording import counted, listed, shortened

MOST_NAMES: Final = 50
"""The most unknown names of a day that are kept: those with the most records."""
NEW_FOR: Final = timedelta(days=7)
"""How long a new name makes the check warn."""
DAYS_BEFORE: Final = 3
"""Days with landings before a day on which a column can be missed."""
LANDINGS_BEFORE: Final = 14
"""Landings that all had a value, after which a landing without one is unusual."""
EXPECTED: Final = 20
"""Landings with a value that would be expected where there are none; after LANDINGS_BEFORE, records without a value."""
LONGEST: Final = 60
"""Characters of a name that are shown."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What is unusual in the columns of a source. `new` has the first day of each unknown name that is new.

    `gone` has the first day of each known column that has no values any more.
    """

    new: Mapping[str, date]
    gone: Mapping[str, date]

    def sentences(self, today: date) -> list[str]:
        """What there is to say on a day; nothing of names that have been there for NEW_FOR."""
        fresh = [f"{shown(name)} (from {day})" for name, day in self.new.items() if today - day < NEW_FOR]
        what = f"{counted(len(fresh), 'column')} that the description does not name"
        said = [f"{what}: {listed(fresh)}."] if fresh else []
        gone = [f"{shown(name)} (from {day})" for name, day in self.gone.items()]
        return [*said, *([f"No values any more of {listed(gone)}."] if gone else [])]


def day_of(seen: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What the landings of a day saw, together: `looked` records, and how many of them have each unknown name.

    `empty` has the number of the landings in which a known column had no value.
    """
    looked, landings, unknown, empty = 0, 0, Counter[str](), Counter[str]()
    for each in seen:
        if each["looked"]:
            looked, landings = looked + each["looked"], landings + 1
            unknown.update(each["unknown"])
            empty.update(each["empty"])
    common = dict(unknown.most_common(MOST_NAMES))
    return {"looked": looked, "landings": landings, "unknown": common, "empty": dict(empty)}


def changes(days: Mapping[date, Mapping[str, Any]], described: Collection[str] = ()) -> Changes:
    """What is unusual, by the days of arrival, oldest first. Names that are `described` by now are not new any more."""
    found = {day: seen for day, seen in days.items() if seen["looked"]}
    if not found:
        return Changes({}, {})
    first = min(found)
    new: dict[str, date] = {}
    for day, seen in found.items():
        for name in sorted(seen["unknown"]):
            if name not in found[first]["unknown"] and name not in described:
                new.setdefault(name, day)
    gone = {name: _gone_from(found, name) for name in sorted(found[max(found)]["empty"])}
    return Changes(new, {name: day for name, day in gone.items() if day is not None})


def _gone_from(days: Mapping[date, Mapping[str, Any]], name: str) -> date | None:
    """The day from which no landing has had a value; None if that is not unusual."""
    start: date | None = None
    earlier, records, landings = sorted(days), 0, 0
    while earlier and days[earlier[-1]]["empty"].get(name, 0) == days[earlier[-1]]["landings"]:
        start = earlier.pop()
        records, landings = records + days[start]["looked"], landings + days[start]["landings"]
    if start is None or len(earlier) < DAYS_BEFORE:
        return None
    least = min(1 - days[day]["empty"].get(name, 0) / days[day]["landings"] for day in earlier)
    always = least == 1 and sum(days[day]["landings"] for day in earlier) >= LANDINGS_BEFORE and records >= EXPECTED
    return start if always or least * landings >= EXPECTED else None


def escaped(name: str) -> str:
    """A name from outside, in which control and invisible characters are escaped."""
    return "".join(
        each if each == " " or unicodedata.category(each)[0] not in "CZ" else f"\\u{ord(each):04x}" for each in name
    )


def shown(name: str) -> str:
    """A name from outside as it can be shown: escaped, and cut."""
    return shortened(escaped(name), LONGEST)
