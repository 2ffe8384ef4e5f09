"""The address of a stream: `kinesis://REGION/NAME`, or `local://NAME?shards=2`. Not here: the streams."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from feed_assets.delivery.errors import DestinationError
from feed_assets.delivery.streams.port import Stream

MOST_SHARDS: Final = 64
"""Shards of a stream in a file."""
_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
_REGION: Final = re.compile(r"[a-z0-9-]{1,32}")


def require_stream(address: str) -> tuple[str, str, int]:
    """The kind of a stream, its place, and its shards if it is to be made. Raises DestinationError."""
    parts = urlsplit(address)
    name = parts.path.strip("/")
    if parts.scheme == "kinesis" and _REGION.fullmatch(parts.netloc) and _NAME.fullmatch(name) and not parts.query:
        return "kinesis", f"{parts.netloc}/{name}", 0
    options = parse_qs(parts.query, keep_blank_values=True)
    shards = options.pop("shards", ["1"])[0]
    is_local = parts.scheme == "local" and _NAME.fullmatch(parts.netloc) and not name and not options
    if is_local and shards.isdecimal() and 1 <= int(shards) <= MOST_SHARDS and not parts.netloc.startswith("."):
        return "local", parts.netloc, int(shards)
    raise DestinationError(
        f"{address!r} is no stream; write kinesis://REGION/NAME, or local://NAME?shards=2 (1 to {MOST_SHARDS}) for a "
        "stream in a file of this machine."
    )


def open_stream(address: str, folder: Path) -> Stream:
    """The stream at an address; local ones are files of `folder`. Raises DestinationError, StreamError."""
    kind, place, shards = require_stream(address)
    if kind == "local":
        from feed_assets.delivery.streams.local import LocalStream  # noqa: PLC0415 - only what is used is loaded

        return LocalStream(folder / f"{place}.db", shards)
    from feed_assets.delivery.streams.kinesis import KinesisStream  # noqa: PLC0415 - as above

    region, name = place.split("/")
    return KinesisStream(region, name)
