"""A slot as a value, and its text. Not here: whether a dataset has the slot (`dataset`)."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Final, NamedTuple

from feed_assets.datasets.errors import CalendarError, SlotError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import FIRST_DAY, date_of, day_of, instant_of, moment_of
from feed_assets.datasets.names import NO_MEMBER, name_fault


class Slot(NamedTuple):
    """A window of a dataset at a member. Its text has four words: dataset, member, grain, start.

    `start` is an integer. Below a day, it is the first instant of the window: seconds since 1970-01-01 00:00 UTC. From
    a day on, it is the first batch date: days since 1970-01-01. A day is a name; the member's calendar says which
    instants it has. Slots of one grain sort by time.

    >>> str(Slot("raw/ads", "eu/fr", Grain.HOUR, 1795791600))
    'raw/ads eu/fr hour 2026-11-27T15:00Z'
    >>> str(Slot("revenue/v1.0", "-", Grain.DAY, 20784))
    'revenue/v1.0 - day 2026-11-27'
    """

    dataset: str
    member: str
    grain: Grain
    start: int

    def __str__(self) -> str:
        try:
            start = start_text(self.grain, self.start)
        except (ValueError, OverflowError):
            start = str(self.start)  # for the message that refuses it
        return f"{self.dataset} {self.member} {self.grain} {start}"


def start_text(grain: Grain, start: int) -> str:
    """The text of a slot's start: `2026-11-27T15:55Z`, `2026-11-27`, `2026-W48`, `2026-11`, `2026-Q4` or `-`."""
    if grain.seconds:
        moment = moment_of(start)
        return f"{moment:%Y-%m-%dT%H:%M:%SZ}" if moment.second else f"{moment:%Y-%m-%dT%H:%MZ}"
    match grain:
        case Grain.WHOLE:
            return "-"
        case Grain.DAY:
            return date_of(start).isoformat()
        case Grain.WEEK:
            year, week, _ = date_of(start).isocalendar()
            return f"{year}-W{week:02}"
        case _:
            found = date_of(start)
            return f"{found:%Y-%m}" if grain is Grain.MONTH else f"{found.year}-Q{(found.month + 2) // 3}"


def parse_slot(text: str) -> Slot:
    """The slot of a text with four words: `raw/ads eu/fr/par1 5min 2026-11-27T15:55Z`.

    Below a day, the start has `Z` or an offset such as `+01:00`. Raises SlotError if the text has another form, a name
    is unsafe, or the date does not exist. `Dataset.check` says whether the dataset has this slot.

    >>> parse_slot("raw/ads - hour 2026-11-27T16:00+01:00") == Slot("raw/ads", "-", Grain.HOUR, 1795791600)
    True
    """
    words = text.split(" ")
    if len(words) != len(Slot._fields):
        raise SlotError(f"{text!r} is no slot: write dataset, member, grain and start, with a space between them.")
    dataset, member, name, start = words
    for word, what in ((dataset, "dataset"), (member, "member")):
        if (what != "member" or word != NO_MEMBER) and (fault := name_fault(word, path=True)):
            raise SlotError(f"{text!r}: {word!r} is no {what}: {fault}.")
    grain = Grain.named(name)
    return Slot(dataset, member, grain, parse_start(start, grain)[1])


_STARTS: Final = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?P<time>T[0-9]{2}(?P<minutes>:[0-9]{2}(?::[0-9]{2})?)?(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?)?"
    r"|(?P<year>[0-9]{4})-(?:W(?P<week>[0-9]{2})|(?P<month>[0-9]{2})|Q(?P<quarter>[1-4]))"
    r"|-"
)
_FORMS: Final = "2026-11-27T15:55Z, 2026-11-27, 2026-W48, 2026-11, 2026-Q4 or -"
_EXAMPLES: Final = {
    Grain.FIVE_MINUTES: "a time such as 2026-11-27T15:55Z",
    Grain.TEN_MINUTES: "a time such as 2026-11-27T15:50Z",
    Grain.HOUR: "a time such as 2026-11-27T15Z",
    Grain.DAY: "a date such as 2026-11-27",
    Grain.WEEK: "a week such as 2026-W48",
    Grain.MONTH: "a month such as 2026-11",
    Grain.QUARTER: "a quarter such as 2026-Q4",
    Grain.WHOLE: "-",
}


def parse_start(text: str, grain: Grain | None = None, *, utc: bool = False) -> tuple[Grain, int]:
    """The grain and the start that a text names: `2026-11-27T15` an hour, `2026-11` a month.

    `grain` is needed for times with minutes, and is compared for other texts. A time needs `Z` or an offset, unless
    `utc` says that times without one are UTC. Raises SlotError.

    >>> parse_start("2026-W48")
    (<Grain.WEEK: 'week'>, 20780)
    """
    found = _STARTS.fullmatch(text)
    if found is None:
        raise SlotError(f"{text!r} is no start of a slot: write {_FORMS}.")
    named = _grain_of(found)
    if grain is None or (found["time"] and grain.seconds):
        grain = grain or named
    elif grain is not named:
        raise SlotError(f"{text!r} is no start of the grain {grain}: write {_EXAMPLES[grain]}.")
    if grain is None:
        raise SlotError(f"{text!r} may begin slots of several grains: name the grain, 5min, 10min or hour.")
    if found["time"] and not found["zone"] and not utc:
        raise SlotError(f"{text!r} has no offset: add Z for UTC, or an offset such as +01:00.")
    try:
        return grain, _start(found)
    except (CalendarError, ValueError) as error:
        raise SlotError(f"{text!r} is no start of a slot: {error}") from None


def _grain_of(found: re.Match[str]) -> Grain | None:
    """The grain that the form of a start names; None if it has minutes."""
    if found["time"]:
        return None if found["minutes"] else Grain.HOUR
    forms = {"day": Grain.DAY, "week": Grain.WEEK, "month": Grain.MONTH, "quarter": Grain.QUARTER}
    return next((grain for form, grain in forms.items() if found[form]), Grain.WHOLE)


def _start(found: re.Match[str]) -> int:
    """The start as an integer. Raises ValueError if there is no such date or time."""
    if found["time"]:
        moment = datetime.fromisoformat(found[0])
        return instant_of(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    if found["day"]:
        return day_of(date.fromisoformat(found["day"]))
    if not found["year"]:
        return FIRST_DAY
    year = int(found["year"])
    if found["week"]:
        sunday = date.fromisocalendar(year, int(found["week"]), 7)
        return day_of(sunday) - 6  # the first week begins in 1969
    return day_of(date(year, int(found["month"] or 3 * int(found["quarter"]) - 2), 1))
