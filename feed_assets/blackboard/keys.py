"""Which keys and prefixes a blackboard takes: one rule for every store.

Here: the check that keeps a name from outside from becoming a path out of the root. Not here: what
the names mean (see `feed_assets.file_feed.names`).
"""

from __future__ import annotations

import unicodedata

from feed_assets.blackboard.port import InvalidKeyError

MAX_KEY_BYTES = 1024
"""The longest key S3 takes, in bytes of UTF-8."""

REORDERING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
"""Unicode's classes of characters that reorder the text around them, such as U+202E: a name is not what one sees."""


def check_key(key: str) -> str:
    """Return the key; raise InvalidKeyError unless it is a safe relative path on every store."""
    if fault := _fault(key):
        raise InvalidKeyError(f"{key!r} cannot be a key: {fault}. Use a relative path such as 'a/b'.")
    return key


def check_prefix(prefix: str) -> str:
    """Return the prefix; raise InvalidKeyError unless it is "" or a safe relative path that ends in `/`."""
    if prefix and (not prefix.endswith("/") or _fault(prefix[:-1])):
        fault = _fault(prefix[:-1]) if prefix.endswith("/") else "it does not end in '/'"
        raise InvalidKeyError(f"{prefix!r} cannot be a prefix: {fault}. Use '' or a path such as 'a/'.")
    return prefix


def _fault(path: str) -> str | None:
    if not path:
        return "it is empty"
    if any(unicodedata.category(character) in {"Cc", "Cs"} or character in "\\\ufffe\uffff" for character in path):
        return "it has a control character, a backslash, half a surrogate pair, U+FFFE or U+FFFF"
    if not path.isascii() and any(unicodedata.bidirectional(character) in REORDERING for character in path):
        return "it has a character that reorders text, such as U+202E"
    if any(segment in {"", ".", ".."} for segment in path.split("/")):
        return "it has an empty, '.' or '..' segment"
    if len(path.encode()) > MAX_KEY_BYTES:
        return f"it is longer than {MAX_KEY_BYTES} bytes"
    return None
