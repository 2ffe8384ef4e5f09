"""The manifest: one small file that makes an update visible, whole.

Here: its name and its content. Not here: when it is written (`publishing`) or compared (`reading`).
"""

from __future__ import annotations

import re

MANIFEST = "_SUCCESS"
MAX_BYTES = 64
"""A longer manifest is not valid, whatever it says."""

NEVER_VALID = b"-1"
"""What retention leaves in an update's manifest while it removes it: a number, so that the plainest reader can
parse it, and one that no count of files ever equals."""

INVALIDATED = b"-2"
"""What an invalidation leaves in the manifest, which is never valid either. Were there no manifest, a publisher whose
answer was lost would create it again; were it that of retention, retention would give back what it took."""

_COUNT = re.compile(rb"0|[1-9][0-9]*")
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
