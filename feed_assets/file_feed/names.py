"""The names in a feed: updates, versions, partitions, files, tags.

Here: what is a legal name and how names are ordered. Not here: what is found under them. Every name
that comes from outside passes one of these checks before it becomes part of a key.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from feed_assets.blackboard.keys import check_key
from feed_assets.blackboard.port import InvalidKeyError
from feed_assets.file_feed.errors import BadNameError

FIRST_YEAR, LAST_YEAR = 1970, 9998
"""The years that can be the present: lookbacks and deadlines around it have to be in the calendar, too."""

_UPDATE_SHAPE = re.compile(r"[0-9]{8}\.[0-9]{6}", re.ASCII)
_VERSION_SHAPE = re.compile(r"v?[0-9]+(\.[0-9]+)*", re.ASCII)


def is_update_name(name: str) -> bool:
    """Whether this is `YYYYMMDD.HHMMSS` and a second that exists (no 30 February, no second 60)."""
    if not has_update_shape(name):
        return False
    try:
        begun(name)
    except ValueError:
        return False
    return True


def has_update_shape(name: str) -> bool:
    """Whether this looks like an update, though it may name a second that does not exist."""
    return _UPDATE_SHAPE.fullmatch(name) is not None


def update_name(moment: datetime) -> str:
    """The name of an update begun in this second. `moment` is aware, in any zone."""
    if moment.tzinfo is None:
        message = f"{moment} has no time zone, so it names no UTC second: pass an aware datetime."
        raise BadNameError(message)
    utc = moment.astimezone(UTC)
    return f"{utc.year:04}{utc:%m%d.%H%M%S}"


def begun(name: str) -> datetime:
    """The UTC second in which an update was begun. Raises BadNameError where the name is no update's."""
    message = f"{name!r} is no update: updates are named by a UTC second, such as 20180521.160000."
    if not has_update_shape(name):
        raise BadNameError(message)
    try:
        # By its digits: a listing asks this of every key, and strptime takes three times as long.
        year, month, day = int(name[:4]), int(name[4:6]), int(name[6:8])
        return datetime(year, month, day, int(name[9:11]), int(name[11:13]), int(name[13:]), tzinfo=UTC)
    except ValueError:
        raise BadNameError(message) from None


def check_update(name: str) -> str:
    """Return the name; raise BadNameError unless it is an update's."""
    begun(name)
    return name


def parse_time(text: str) -> datetime:
    """A time as people and programs name it, in UTC: ISO 8601, or the name of an update for the second it was begun in.

    A time without a zone is in UTC, a date alone is its midnight. Raises ValueError.
    """
    if has_update_shape(text):
        return begun(text)
    moment = datetime.fromisoformat(text)
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        message = f"{text!r} is outside the years 1 to 9999 in UTC."
        raise ValueError(message) from None


def parse_now(text: str) -> datetime:
    """The same for a time that is to be taken for the present: from 1970 to 9998, so that there are days around it."""
    moment = parse_time(text)
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        message = f"{text!r} is outside the years {FIRST_YEAR} to {LAST_YEAR} in UTC."
        raise ValueError(message)
    return moment


def check_partition(name: str) -> str:
    """Return the name; raise BadNameError unless it is a safe single name that is not shaped like an update."""
    if fault := _partition_fault(name):
        message = f"{name!r} cannot be a partition: {fault}. Use a name such as 2018-05-20."
        raise BadNameError(message)
    return name


def is_partition_name(name: str) -> bool:
    """Whether a folder of this name is a partition; others beside the partitions are passed over."""
    return _partition_fault(name) is None


def check_label(name: str, what: str) -> str:
    """Return the name; raise BadNameError unless it is a safe single name. `what` says what it is meant to be."""
    if fault := _segment_fault(name):
        message = f"{name!r} cannot be a {what}: {fault}."
        raise BadNameError(message)
    return name


def version_order(version: str) -> tuple[int, tuple[int, ...], str]:
    """A key to sort versions by: numerically, so that v1.9 is before v1.10; names that are none come last."""
    if _VERSION_SHAPE.fullmatch(version):
        return 0, tuple(int(part) for part in version.removeprefix("v").split(".")), version
    return 1, (), version


def _partition_fault(name: str) -> str | None:
    if fault := _segment_fault(name):
        return fault
    if has_update_shape(name):
        return "it is shaped like an update"
    if name.startswith("."):
        return "names with a leading dot are the control area's"
    return None


def _segment_fault(name: str) -> str | None:
    if "/" in name:
        return "it has a path separator"
    try:
        check_key(name)
    except InvalidKeyError as error:
        return str(error).partition(": ")[2].partition(". ")[0]
    return None
