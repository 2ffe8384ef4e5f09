"""What a token may do with a dataset. Not here: whose a request is (`serving.access`)."""

from __future__ import annotations

from enum import StrEnum


class Verb(StrEnum):
    """What a token may do with a dataset."""

    READ = "read"
    """Ask: answers, events, explanations."""
    REPORT = "report"
    """Say which parts have landed."""
    EXPECT = "expect"
    """Say how many records there are."""
    MARK = "mark"
    """Say that a slot is bad, waive it, or reopen it."""
    START = "start"
    """Start flows."""
