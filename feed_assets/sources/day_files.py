"""Names of files that others put for each day, with the date in them: `counts/{yyyy}-{mm}-{dd}.csv`.

Not here: reading the files (`control_files`), and the fields that name them.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from feed_assets.blackboard.keys import check_key
from feed_assets.blackboard.port import InvalidKeyError

EXAMPLE: Final = "counts/{yyyy}-{mm}-{dd}.csv"
_PLACEHOLDERS: Final = ("{yyyy}", "{mm}", "{dd}")


def check_day_file(name: str) -> str:
    """Return the name. Raises ValueError unless it names one file for each day, in a folder of its own."""
    if sorted(re.findall(r"\{[^}]*\}?|\}", name)) != sorted(_PLACEHOLDERS):
        raise ValueError(f"{name!r} must have each of {', '.join(_PLACEHOLDERS)} once, as {EXAMPLE!r} has")
    if "/" not in name.partition("{")[0]:
        raise ValueError(f"{name!r} must lie in a folder of its own, as {EXAMPLE!r} does")
    try:
        check_key(re.sub(r"[{}]", "", name))
    except InvalidKeyError as error:
        raise ValueError(f"{name!r} is no path below the base: {error}") from None
    return name


def is_day_file(name: str) -> bool:
    """Whether a name of a witness is that of daily files."""
    return "{" in name or "}" in name


def key_of_day(name: str, day: date) -> str:
    """The key of a day's file below the base."""
    dates = {"{yyyy}": f"{day:%Y}", "{mm}": f"{day:%m}", "{dd}": f"{day:%d}"}
    return re.sub(r"\{\w+\}", lambda found: dates[found[0]], name)


def folder_of_days(name: str) -> str:
    """The prefix of all days' files: the part of the name before the first folder that names a date."""
    return name.partition("{")[0].rpartition("/")[0] + "/"
