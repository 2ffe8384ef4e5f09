"""The digest by which records, requests and cursors tell whether something changed."""

from __future__ import annotations

import hashlib


def short_digest(text: str) -> str:
    """16 hex digits that identify a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
