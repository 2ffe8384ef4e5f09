"""Credentials in URLs: finding them, and messages without them. Not here: which URLs may have some."""

from __future__ import annotations

import re

_AUTHORITY = re.compile(r"(?i)(?:(?!file:)[a-z][a-z0-9+.-]*:/+|file://)([^/]*)")
"""The part of a location before its path. `file:/a:b` has none. A secret of AWS may go on behind a slash."""
_WITH_PASSWORD = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*:/+)[^\s/'\"]*:[^\s'\"]*@")


def has_credentials(uri: str) -> bool:
    """Whether the URI of a location has what may be a user, a key or a password."""
    found = _AUTHORITY.match(uri)
    return found is not None and not {":", "@"}.isdisjoint(found[1])


def without_credentials(text: str) -> str:
    """A text in which each URL with a user and a password has `***` in their place."""
    return _WITH_PASSWORD.sub(r"\1***@", text)
