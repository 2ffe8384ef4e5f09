"""The manifest: one small file that makes an update visible, whole.

Here: its name and its content. Not here: when it is written (`publishing`) or compared (`reading`).
"""

from __future__ import annotations

import re

MANIFEST = "_SUCCESS"
"""The name of the file that makes an update visible; it holds the number of the other files."""
MAX_BYTES = 64
"""A longer manifest is not valid, whatever it says."""

NEVER_VALID = b"-1"
"""What retention leaves in an update's manifest while it deletes the files: a number, so that the plainest reader can
parse it, and one that no count of files ever equals. Before the first file goes it leaves `taken_over`."""

INVALIDATED = b"-2"
"""What an invalidation leaves in the manifest, which is never valid either. Were there no manifest, a publisher whose
answer was lost would create it again; were it that of retention, retention would give back what it took."""

RECOVERABLE_BYTES = range(11, 19)
"""The sizes of what is taken over and can be given back: more than those of a manifest that is in force."""

_COUNT = re.compile(rb"0|[1-9][0-9]*")
_REMOVAL = re.compile(rb"-1([0-9]{8}(?P<count>0|[1-9][0-9]{0,7})?)?")
_WHITE_SPACE = b" \t\n\r\v\f"


def manifest(count: int) -> bytes:
    """The content of the manifest of an update with this many files."""
    return str(count).encode("ascii")


def parse_manifest(data: bytes) -> int | None:
    """The number a manifest states, or None where what it says makes no update valid. Never raises.

    White space around the number and one newline after it are tolerated, as other programs write them.
    """
    if len(data) > MAX_BYTES:
        return None
    text = data.strip(_WHITE_SPACE)
    return int(text) if _COUNT.fullmatch(text) else None


def taken_over(replaced: bytes | None, token: int) -> bytes:
    """What retention leaves in place of the manifest `replaced` (None: there was none) before it deletes any file.

    `token`, of at most eight digits, makes it differ from what every other retention leaves: a store may compare two
    manifests by nothing but their content. The number of files that it replaces stands behind, so that others can give
    it back, too. All of it is one negative number that fits 64 bits.
    """
    taken = NEVER_VALID + b"%08d" % token
    stated = None if replaced is None else parse_manifest(replaced)
    with_count = taken if stated is None else taken + manifest(stated)
    return with_count if len(with_count) in RECOVERABLE_BYTES else taken


def is_removal(data: bytes) -> bool:
    """Whether this is what retention leaves in a manifest, at any of its steps."""
    return _REMOVAL.fullmatch(data) is not None


def replaced_by(data: bytes) -> bytes | None:
    """The manifest that was taken over by this, where it stated a number and no file was deleted yet."""
    removal = _REMOVAL.fullmatch(data)
    return removal["count"] if removal else None
