"""The settings of a receiver, each with its default and a line for people. Not here: what enforces them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def _setting(default: float, meaning: str, most: float | None = None) -> Any:
    return field(default=default, metadata={"meaning": meaning, "most": most})


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of requests, and the times at which events land. 0 is no limit for `rate` only."""

    roll_seconds: float = _setting(60.0, "Seconds from the first event of a segment until it lands.", most=86400)
    roll_bytes: int = _setting(64 * 2**20, "Bytes of a segment with which it lands earlier.")
    body_bytes: int = _setting(16 * 2**20, "The largest body, as it is sent.")
    unpacked_bytes: int = _setting(64 * 2**20, "The largest body, unpacked.")
    records: int = _setting(50_000, "The most records in a body.")
    record_bytes: int = _setting(2**20, "The largest record; larger ones go to quarantine.")
    body_seconds: float = _setting(30.0, "Seconds that a head, or a body, may take.")
    held_bytes: int = _setting(128 * 2**20, "Bytes of all requests that are not answered yet.")
    connections: int = _setting(1_000, "Connections at the same time.")
    rate: float = _setting(0.0, "Records a second of a partner; 0 is any number.")
    backlog_seconds: float = _setting(900.0, "Seconds that events may wait beyond `--roll-seconds` while it is ready.")
