"""A blackboard's URIs as Hadoop's paths, which are not URIs and may be patterns. Not here: reading and writing."""

from __future__ import annotations

import re
from urllib.parse import unquote

_PATTERN = re.compile(r"([\\*?{}\[\]])")


def to_write(uri: str) -> str:
    """The path to write to. Python percent-encodes `file:` URIs; Hadoop takes the encoding literally."""
    return unquote(uri) if uri.startswith("file:") else re.sub("^s3://", "s3a://", uri)


def to_read(uri: str) -> str:
    """The path to read exactly this URI, also if it has characters of Hadoop's patterns."""
    return _PATTERN.sub(r"\\\1", to_write(uri))
