"""Where, when and for what a partner is polled: the field `poll` of a source.

Here: the fields, and the pattern of file names. Not here: the partner's place itself, and what a poll does
(`polling`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, Field, field_validator

from feed_assets.blackboard.credentials import has_credentials

SCHEMES = ("file", "s3", "sftp", "http", "https")

_CREDENTIALS = "has credentials, which do not belong here; the README says which variable takes them"

_DATE = {"{yyyy}": r"(?P<yyyy>[0-9]{4})", "{mm}": r"(?P<mm>[0-9]{2})", "{dd}": r"(?P<dd>[0-9]{2})"}
_WILD = {"{hh}": r"(?:[01][0-9]|2[0-3])", "*": "[^/]*", "?": "[^/]"}
_TOKEN = re.compile(r"\{[^{}]*\}|\*|\?|[^{*?]+|\{")

Component = str | re.Pattern[str]
"""A part of a pattern between two slashes: the only name that it takes, or an expression for its names."""


class Poll(BaseModel, frozen=True, extra="forbid"):
    """Where a partner puts files, and when they are fetched. A polled file is known by its name."""

    place: Annotated[str, Field(min_length=1)]
    """A directory (a relative path starts at the YAML), or a URL: `file:`, `s3://bucket/prefix`,
    `sftp://user@host/directory` or `https://host/directory/`. It never has a password."""

    pattern: Annotated[str, Field(min_length=1)]
    """The paths of the files below the place. `*` and `?` match within one name, and no dot at its beginning. `{yyyy}`,
    `{mm}`, `{dd}` and `{hh}` match a date and an hour."""

    every: str
    """The schedule: five fields of cron, in UTC."""

    lookback_days: Annotated[int, Field(ge=1, le=3650)] = 7
    """Files of these last days are fetched: by the date in their paths, else by the time of their last change."""

    settle_seconds: Annotated[int, Field(ge=0, le=86400)] = 60
    """A file that changed within these last seconds may still be written. A later poll takes it."""

    @property
    def is_dated(self) -> bool:
        """Whether the paths of the files have a date."""
        return "{yyyy}" in self.pattern

    def name_of(self, path: Path) -> str | None:
        """The name of a file, which is the end of its path that the pattern takes; None if the pattern does not."""
        parts = path.absolute().parts[-1 - self.pattern.count("/") :]
        name = "/".join(parts)
        return name if _compiled(self.pattern).fullmatch(name) else None

    def components(self, day: date) -> Sequence[Component]:
        """The parts of the pattern for one day."""
        dated = self.pattern.replace("{yyyy}", f"{day:%Y}").replace("{mm}", f"{day:%m}").replace("{dd}", f"{day:%d}")
        return [part if set(part).isdisjoint("{*?") else _compiled(part) for part in dated.split("/")]

    @field_validator("place")
    @classmethod
    def _place_is_known(cls, place: str) -> str:
        try:
            parts = urlsplit(place)
        except ValueError:
            raise ValueError("is no URL; it is not shown, because it may have a password") from None
        if "://" in place and parts.scheme not in SCHEMES:
            raise ValueError(f"starts with {parts.scheme}://; use a directory, or one of {', '.join(SCHEMES)}")
        in_bucket = parts.scheme == "s3" and has_credentials(place)
        if in_bucket or parts.password is not None or (parts.username is not None and parts.scheme != "sftp"):
            raise ValueError(_CREDENTIALS)
        if parts.scheme in {"sftp", "http", "https"}:
            _check_host(parts)
        return place

    @field_validator("pattern")
    @classmethod
    def _pattern_is_relative(cls, pattern: str) -> str:
        parts = pattern.split("/")
        if "\\" in pattern or "**" in pattern or any(part in {"", ".", ".."} for part in parts):
            raise ValueError(f"{pattern!r} is no relative path; use names, * and ?, such as {{yyyy}}-{{mm}}/*.csv.gz")
        tokens = {token for token in _TOKEN.findall(pattern) if token.startswith("{")}
        if unknown := tokens - {*_DATE, "{hh}"}:
            raise ValueError(f"has {min(unknown)}; there are {', '.join(_DATE)} and {{hh}}")
        if tokens & set(_DATE) and not tokens >= set(_DATE):
            raise ValueError("has a part of a date; use {yyyy}, {mm} and {dd}, or none of them")
        return pattern


def _check_host(parts: SplitResult) -> None:
    """Raise ValueError if there is no host, or no number for its port."""
    host = parts.netloc.rpartition("@")[2]
    if not parts.hostname:
        raise ValueError(f"{parts.geturl()!r} names no host; write {parts.scheme}://host/directory")
    try:
        _ = parts.port
    except ValueError:
        if "@" in f"{parts.path}{parts.query}{parts.fragment}":  # a slash in a password has ended the host
            raise ValueError(_CREDENTIALS) from None
        raise ValueError(f"{host!r} has no port from 0 to 65535; write {parts.scheme}://host:port/directory") from None


def options_variable(source_key: str) -> str:
    """The environment variable with the options of a polled place, such as credentials."""
    return f"FEED_ASSETS_POLL_{source_key.replace('/', '_').upper()}"


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    """The expression of a pattern, or of one of its parts."""
    seen: set[str] = set()
    text = []
    for part in pattern.split("/"):
        # As in a shell, a wildcard does not take a dot at the beginning: such names are hidden, or not complete.
        name = r"(?!\.)" if part[0] in "*?" else ""
        for token in _TOKEN.findall(part):
            again = f"(?P={token[1:-1]})" if token in seen else ""
            name += again or _DATE.get(token) or _WILD.get(token) or re.escape(token)
            seen |= {token} & _DATE.keys()
        text.append(name)
    return re.compile("/".join(text))
