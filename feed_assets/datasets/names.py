"""Names of datasets, levels and members. A name from outside passes this check before it becomes part of a key.

A slot's text separates its words by spaces, and paths by slashes. So names have neither.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_SEGMENT: Final = re.compile(r"\w[\w.+=@-]*")
_LONGEST: Final = 255

NO_MEMBER: Final = "-"
"""The member of a dataset without a hierarchy; in a hierarchy, all members together."""


def name_fault(name: object, *, path: bool) -> str | None:
    """Why this is no safe name, or no safe path of names such as `eu/fr/par1`; None if it is safe."""
    if not isinstance(name, str):
        return f"it is {type(name).__name__}, not a text"
    if not name or len(name) > _LONGEST:
        return f"it has {len(name)} characters; use 1 to {_LONGEST}"
    if unicodedata.normalize("NFC", name) != name:
        return "it is not in Unicode's form NFC, so equal texts may differ"
    segments = name.split("/") if path else [name]
    bad = next((each for each in segments if not _SEGMENT.fullmatch(each)), None)
    if bad is None:
        return None
    return f"{bad!r} must begin with a letter, a digit or _, and go on with these or with . + = @ -"
