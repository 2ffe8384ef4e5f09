"""What the headers of a request say of its body: the media type, the charset, and how the body is packed.

Here: which of these the receiver takes. Not here: whether the body is what its headers say (`door`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from feed_assets.receiving.documentation import TYPES
from feed_assets.receiving.door import JSON_TYPES, LINES_TYPES

_CHARSETS: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
_PACKINGS: Final[tuple[list[str], ...]] = ([], ["gzip"], ["x-gzip"])
_PARAMETER: Final = re.compile(r""";\s*([^\s=;"]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;]*)""")


class UnsupportedError(Exception):
    """The receiver takes no such body; the message says what to send."""


@dataclass(frozen=True, slots=True)
class Content:
    """The form of a body: JSON or a JSON object a line, by its media type; and whether it is packed with gzip."""

    media_type: str
    is_packed: bool

    @classmethod
    def of(cls, headers: Iterable[tuple[bytes, bytes]]) -> Content:
        """The content that these headers announce, with names in lower case. Raises UnsupportedError."""
        found: dict[bytes, list[str]] = {b"content-type": [], b"content-encoding": [], b"transfer-encoding": []}
        for name, value in headers:
            if name in found:
                found[name].append(value.decode("latin-1"))
        packings = _codings(found[b"content-encoding"])
        if packings not in _PACKINGS:
            raise UnsupportedError(
                f"The Content-Encoding is {', '.join(packings)!r}; pack it with gzip, once, or not at all."
            )
        if transfers := [each for each in _codings(found[b"transfer-encoding"]) if each != "chunked"]:
            raise UnsupportedError(
                f"The Transfer-Encoding packs with {', '.join(transfers)!r}; pack the body with gzip, and announce it "
                "by Content-Encoding."
            )
        return cls(_media_type(found[b"content-type"]), bool(packings))


def _codings(values: Iterable[str]) -> list[str]:
    """The codings of all headers of one name, in order, without those that change nothing."""
    codings = (each.strip().lower() for value in values for each in value.split(","))
    return [each for each in codings if each not in {"", "identity"}]


def _media_type(values: list[str]) -> str:
    if not values:
        raise UnsupportedError(f"The request has no Content-Type; send {TYPES}.")
    if len(values) > 1:
        raise UnsupportedError(f"The request has {len(values)} headers Content-Type; send one.")
    text, _, _ = values[0].partition(";")
    if (media_type := text.strip().lower()) not in JSON_TYPES | LINES_TYPES:
        raise UnsupportedError(f"The Content-Type is {media_type!r}; send {TYPES}.")
    for name, value in _PARAMETER.findall(values[0]):
        charset = value.strip(" \t\"'").lower()
        if name.lower() == "charset" and charset not in _CHARSETS:
            raise UnsupportedError(f"The charset of the Content-Type is {charset!r}; send the body in UTF-8.")
    return media_type
