"""The plainest reader of a feed there can be, for the library to agree with: it knows nothing but the protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

Files = tuple[tuple[str, bytes], ...]


def updates(objects: Mapping[str, bytes], prefix: str) -> dict[str, Files]:
    """name -> (path, content) of the files, of every valid update below the prefix."""
    valid = {}
    for name in {key[len(prefix) :].split("/")[0] for key in objects if key.startswith(prefix)}:
        folder = f"{prefix}{name}/"
        below = {key[len(folder) :]: data for key, data in objects.items() if key.startswith(folder)}
        stated = below.pop("_SUCCESS", b"")
        files = sorted((path, data) for path, data in below.items() if path and not path.endswith("/"))
        number = re.fullmatch(rb"[ \t\n\r\v\f]*(0|[1-9][0-9]*)[ \t\n\r\v\f]*", stated)
        if _is_second(name) and len(stated) <= 64 and number and int(number[1]) == len(files):
            valid[name] = tuple(files)
    return valid


def latest(objects: Mapping[str, bytes], prefix: str, as_of: str | None = None) -> tuple[str, Files] | None:
    """The newest of them, not after `as_of`."""
    return max((each for each in updates(objects, prefix).items() if as_of is None or each[0] <= as_of), default=None)


def _is_second(name: str) -> bool:
    if not re.fullmatch(r"[0-9]{8}\.[0-9]{6}", name):
        return False
    year, month, day = int(name[:4]), int(name[4:6]), int(name[6:8])
    try:
        datetime(year, month, day, int(name[9:11]), int(name[11:13]), int(name[13:]), tzinfo=UTC)
    except ValueError:
        return False
    return True
