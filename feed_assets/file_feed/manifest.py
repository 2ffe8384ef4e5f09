"""The manifest: a small file that makes the whole update visible.

Here: its name and its content. Not here: when it is written (`publishing`) or compared (`reading`).
"""

from __future__ import annotations

import re

MANIFEST = "_SUCCESS"
"""The name of the manifest; its content is the number of the other files."""
MAX_BYTES = 64
"""A longer manifest is not valid."""

NEVER_VALID = b"-1"
"""The manifest of an update while retention deletes its files. Even a plain reader can parse it as a number, and no
count of files equals it. Before retention deletes the first file, the manifest is `taken_over`."""

INVALIDATED = b"-2"
"""The manifest after an invalidation; never valid. Without a manifest, a publisher whose answer was lost would create
it again; a manifest as retention writes it would be undone by the next retention."""

RECOVERABLE_BYTES = range(11, 19)
"""The sizes of manifests that retention wrote and can undo: larger than those of manifests in force."""

_COUNT = re.compile(rb"0|[1-9][0-9]*")
_REMOVAL = re.compile(rb"-1([0-9]{8}(?P<count>0|[1-9][0-9]{0,7})?)?")
_WHITE_SPACE = b" \t\n\r\v\f"


def manifest(count: int) -> bytes:
    """The content of the manifest of an update with this many files."""
    return str(count).encode("ascii")


def parse_manifest(data: bytes) -> int | None:
    """The number a manifest states, or None if it makes no update valid. Never raises.

    Accepts white space around the number, as other programs write it.
    """
    if len(data) > MAX_BYTES:
        return None
    text = data.strip(_WHITE_SPACE)
    return int(text) if _COUNT.fullmatch(text) else None


def taken_over(replaced: bytes | None, token: int) -> bytes:
    """The manifest that retention writes over `replaced` (None: there was none) before it deletes any file.

    `token`, of at most eight digits, makes it differ from those of other retentions: a store may compare manifests by
    content only. It ends with the number of files that it replaces, so that others can restore it, too. It is one
    negative number that fits 64 bits.
    """
    taken = NEVER_VALID + b"%08d" % token
    stated = None if replaced is None else parse_manifest(replaced)
    with_count = taken if stated is None else taken + manifest(stated)
    return with_count if len(with_count) in RECOVERABLE_BYTES else taken


def is_removal(data: bytes) -> bool:
    """Whether retention wrote this manifest, at any of its steps."""
    return _REMOVAL.fullmatch(data) is not None


def replaced_by(data: bytes) -> bytes | None:
    """The manifest that this one took over, if that stated a number and no file was deleted yet."""
    removal = _REMOVAL.fullmatch(data)
    return removal["count"] if removal else None
