"""The names in a feed: updates, versions, partitions, files, tags.

Here: which names are legal. Not here: what lies under them. Every name from outside passes one of these checks before
it becomes part of a key.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from feed_assets.blackboard.keys import check_key
from feed_assets.blackboard.port import InvalidKeyError
from feed_assets.file_feed.errors import BadNameError

SECOND = timedelta(seconds=1)
"""The least time between two updates of a partition."""

FIRST_YEAR, LAST_YEAR = 1970, 9998
"""The years that can be the present: the lookbacks and deadlines around it must be in the calendar, too."""

TIMES = "a UTC time such as 2019-12-01T16:00:00, or an update's name such as 20191201.160000"
"""The texts that `parse_time` takes, for messages."""

NAMES = 10_000
"""How many names of each kind a process remembers: a listing asks for the same names at every key, and so does the next
listing."""

_UPDATE_SHAPE = re.compile(r"[0-9]{8}\.[0-9]{6}", re.ASCII)


def is_update_name(name: str) -> bool:
    """Whether this is `YYYYMMDD.HHMMSS` and a second that exists (no 30 February, no second 60)."""
    return _names_a_second(name)


@lru_cache(maxsize=NAMES)
def _names_a_second(name: str) -> bool:
    if not has_update_shape(name):
        return False
    try:
        begun(name)
    except ValueError:
        return False
    return True


def has_update_shape(name: str) -> bool:
    """Whether this looks like an update's name, though the second may not exist."""
    return _UPDATE_SHAPE.fullmatch(name) is not None


def is_hidden(path: str) -> bool:
    """Whether Spark skips a file of this path for its name, as Hadoop's tools do."""
    return path.rpartition("/")[2].startswith((".", "_"))


def update_name(moment: datetime) -> str:
    """The name of an update begun in this second. `moment` is aware, in any zone. Raises BadNameError."""
    if moment.tzinfo is None:
        raise BadNameError(f"{moment} has no time zone, so it names no UTC second: pass an aware datetime.")
    utc = moment.astimezone(UTC)
    return f"{utc.year:04}{utc:%m%d.%H%M%S}"


def begun(name: str) -> datetime:
    """The UTC second in which an update was begun. Raises BadNameError if the name is not an update's."""
    message = f"{name!r} is no update: updates are named by a UTC second, such as 20180521.160000."
    if not has_update_shape(name):
        raise BadNameError(message)
    try:
        # Not strptime: it takes three times as long, and a listing does this for every key.
        year, month, day = int(name[:4]), int(name[4:6]), int(name[6:8])
        return datetime(year, month, day, int(name[9:11]), int(name[11:13]), int(name[13:]), tzinfo=UTC)
    except ValueError:
        raise BadNameError(message) from None


def check_update(name: str) -> str:
    """Return the name; raise BadNameError unless it is an update's."""
    begun(name)
    return name


def parse_time(text: str) -> datetime:
    """A time in UTC from ISO 8601, or from an update's name: the second in which it was begun.

    A time without a zone is UTC, a date alone is its midnight. Raises ValueError.
    """
    if has_update_shape(text):
        return begun(text)
    moment = datetime.fromisoformat(text)
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} is outside the years 1 to 9999 in UTC.") from None


def fixed_time(text: str | None, *, setting: str) -> datetime | None:
    """The time that a setting fixes as the present; None, also for `now`, means real time.

    Raises ValueError, whose message names the setting and the values it takes.
    """
    if not text or text == "now":
        return None
    try:
        moment = parse_time(text)
    except ValueError:
        moment = None
    if moment is None or not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(f"{setting} is {text!r}; it takes {TIMES}, from {FIRST_YEAR} to {LAST_YEAR}, or `now`.")
    return moment


def check_partition(name: str) -> str:
    """Return the name; raise BadNameError unless it is a safe single name that is not shaped like an update."""
    if fault := _partition_fault(name):
        raise BadNameError(f"{name!r} cannot be a partition: {fault}. Use a name such as 2018-05-20.")
    return name


def is_partition_name(name: str) -> bool:
    """Whether a folder of this name is a partition; other folders are ignored."""
    return _partition_fault(name) is None


def check_label(name: str, what: str) -> str:
    """Return the name; raise BadNameError unless it is a safe single name. `what` is its role, for the message."""
    if fault := _segment_fault(name):
        raise BadNameError(f"{name!r} cannot be a {what}: {fault}.")
    return name


@lru_cache(maxsize=NAMES)
def _partition_fault(name: str) -> str | None:
    if fault := _segment_fault(name):
        return fault
    if has_update_shape(name):
        return "it is shaped like an update"
    if name.startswith("."):
        return "a leading dot marks the control area"
    return None


def _segment_fault(name: str) -> str | None:
    if "/" in name:
        return "it has a path separator"
    try:
        check_key(name)
    except InvalidKeyError as error:
        return str(error).partition(": ")[2].partition(". ")[0]
    return None
