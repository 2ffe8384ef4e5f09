"""The places where partners put their files: a directory or bucket, SFTP, and HTTP.

Here: opening a place, listing the files of some days, and places that are blackboards. Not here: which files are new
(`taken`), and their landing (`poller`). Names come from outside: a name that would be a path out of the place is no
file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError

from feed_assets.blackboard.keys import check_key
from feed_assets.blackboard.location import local_directory, open_blackboard
from feed_assets.blackboard.port import Blackboard, BlackboardError, ConflictError, Entry, NotFoundError
from feed_assets.polling.http_place import HttpPlace
from feed_assets.polling.port import ChangedError, PartnersFile, Place, PlaceError, explained
from feed_assets.polling.sftp_place import open_sftp
from feed_assets.sources.file_names import is_passed_over
from feed_assets.sources.poll_spec import Component, Poll, options_variable
from feed_assets.sources.spec import Source

AHEAD = timedelta(days=1)
"""Partners east of UTC name files by a day that has not begun in UTC."""


def open_place(source: Source) -> Place:
    """The place of a polled source. Only SFTP connects at once.

    The variable `FEED_ASSETS_POLL_<KIND>_<NAME>` has options as a JSON object, such as credentials: of boto3's client
    for a bucket, of fsspec's file systems for SFTP (`password`, `key_filename`) and HTTP (`headers`). Without it, S3 is
    as configured for boto3, SFTP uses the keys of the user and of the agent, and HTTP `~/.netrc`. Raises PlaceError.
    """
    poll = polling_of(source)
    options = _options(source)
    match urlsplit(poll.place).scheme if "://" in poll.place else "":
        case "sftp":
            return open_sftp(poll.place, options)
        case "http" | "https":
            with explained((TypeError,)):
                return HttpPlace(poll.place, options)
        case "s3":
            with explained((BlackboardError, BotoCoreError, TypeError, ValueError)):
                return BoardPlace(open_blackboard(poll.place, s3_client_factory=_bucket_client(options)))
    directory = (local_directory(poll.place) or Path()).expanduser()
    if source.origin is not None:
        directory = source.origin.absolute().parent / directory
    if not directory.is_dir():
        raise PlaceError(f"{directory} is no directory; create it, or correct {source.place(('poll', 'place'))}")
    return BoardPlace(open_blackboard(str(directory)), directory)


def polling_of(source: Source) -> Poll:
    """The field `poll` of a source. Raises PlaceError if it has none."""
    if source.poll is None:
        raise PlaceError(f"{source.key} has no field `poll`; describe where its files are")
    return source.poll


def list_files(place: Place, poll: Poll, today: date) -> tuple[list[PartnersFile], dict[str, PlaceError]]:
    """The files of the pattern in the days of the lookback, by name; and of each that cannot be looked at, the error.

    Each folder is listed once, and folders of other days are not. Folders whose names no store takes as a key are left
    out; such a name of a file is an error. Raises PlaceError if the place cannot be listed.
    """
    first = today - timedelta(days=poll.lookback_days)
    days = [first + timedelta(days=each) for each in range(poll.lookback_days + 1 + AHEAD.days)]
    entries = cache(lambda folder: tuple(place.entries(folder)))
    found: dict[str, PartnersFile] = {}
    problems: dict[str, PlaceError] = {}
    for day in days if poll.is_dated else [today]:
        for file in _matching(entries, "", poll.components(day)):
            if _is_key(file.name):
                found.setdefault(file.name, replace(file, day=day))
            else:
                what_to_do = "have it renamed, without a backslash and control characters, in UTF-8"
                problems[repr(file.name)] = PlaceError(f"no store takes its name: {what_to_do}")
    names = sorted(found)
    seen = list(zip(names, place.look([found[name] for name in names]), strict=True))
    problems |= {name: file for name, file in seen if isinstance(file, PlaceError)}
    files = [replace(file, day=found[name].day) for name, file in seen if isinstance(file, PartnersFile)]
    if not poll.is_dated:
        files = [replace(each, day=each.modified.date()) if each.modified else each for each in files]
    return [each for each in files if each.day >= first], problems


def _matching(
    entries: Callable[[str], Iterable[PartnersFile]], folder: str, components: Sequence[Component]
) -> Iterator[PartnersFile]:
    head, *rest = components
    if rest and isinstance(head, str):
        yield from _matching(entries, f"{folder}{head}/", rest)
        return
    for each in entries(folder.removesuffix("/")):
        if (
            is_passed_over(each.name)
            or each.is_folder != bool(rest)
            or not (each.base == head if isinstance(head, str) else head.fullmatch(each.base))
        ):
            continue
        if not rest:
            yield each
        elif _is_key(each.name):
            yield from _matching(entries, f"{each.name}/", rest)


def _is_key(name: str) -> bool:
    try:
        return bool(check_key(name))
    except BlackboardError:
        return False


@dataclass(frozen=True, slots=True)
class BoardPlace(Place):
    """A directory or a bucket; `directory` is the place if it is one."""

    board: Blackboard
    directory: Path | None = None

    def entries(self, folder: str) -> Iterator[PartnersFile]:
        """See `Place.entries`."""
        prefix, after = f"{folder}/" if folder else "", ""
        while True:
            with explained((BlackboardError,)):
                page = self.board.page(prefix, after=after, folders=True)
            yield from (_of_entry(each) for each in page.entries if not self._is_pipe(each))
            yield from (PartnersFile(each.removesuffix("/"), None, "", None, is_folder=True) for each in page.folders)
            if page.next_after is None:
                return
            after = page.next_after

    def _is_pipe(self, entry: Entry) -> bool:
        """Whether an entry is a pipe or a device, whose content cannot be read twice."""
        if self.directory is None or entry.size:
            return False
        path = self.directory / entry.key
        return path.exists() and not path.is_file() and not path.is_dir()

    def download(self, file: PartnersFile, target: Path) -> None:
        """See `Place.download`."""
        with explained((BlackboardError, OSError)):
            try:
                entry = self.board.download(file.name, target)
            except (NotFoundError, ConflictError):
                raise ChangedError("it changed while it was read") from None
        if not _of_entry(entry).is_same(file):
            raise ChangedError("it changed since it was listed")


def _of_entry(entry: Entry) -> PartnersFile:
    return PartnersFile(entry.key, entry.size, entry.tag, entry.modified)


def _options(source: Source) -> Mapping[str, Any]:
    variable = options_variable(source.key)
    try:
        options = json.loads(os.environ.get(variable) or "{}")
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise PlaceError(f'{variable} is not a JSON object of options, such as {{"password": "..."}}')
    return options


def _bucket_client(options: Mapping[str, Any]) -> Callable[[], Any] | None:
    if not options:
        return None
    import boto3  # noqa: PLC0415 - loaded only for a bucket

    return lambda: boto3.client("s3", **options)
