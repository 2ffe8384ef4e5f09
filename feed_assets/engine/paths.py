"""A blackboard's URIs as Spark takes them: as paths of Hadoop, which are not URIs and may be patterns.

Here: that difference. Not here: reading and writing.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

_PATTERN = re.compile(r"([\\*?{}\[\]])")


def to_write(uri: str) -> str:
    """The path to write to. Percent-encoding is Python's for `file:` URIs; Hadoop would take it literally."""
    return unquote(uri) if uri.startswith("file:") else uri


def to_read(uri: str) -> str:
    """The path to read exactly this from, also where a name has characters of Hadoop's patterns in it."""
    return _PATTERN.sub(r"\\\1", to_write(uri))
