"""The places where partners put their files: a directory or bucket, SFTP, and HTTP.

Here: listing the files of some days, and downloading one of them. Not here: which of them are new (`taken`), and their
landing (`polling`). Names come from outside: a name that would be a path out of the place is no file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from html.parser import HTMLParser
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote, urljoin, urlsplit

from botocore.exceptions import BotoCoreError

from feed_assets.blackboard import (
    Blackboard,
    BlackboardError,
    ConflictError,
    Entry,
    NotFoundError,
    check_key,
    local_directory,
    open_blackboard,
)
from feed_assets.sources import Source
from feed_assets.sources.poll_spec import Component, Poll, options_variable

AHEAD = timedelta(days=1)
"""Partners east of UTC name files by a day that has not begun in UTC."""

_SECONDS = 60
"""How long a server may be silent."""
_AT_ONCE = 8
_GONE = (404, 410)
"""The answers of HTTP for a file that is missing."""


class PlaceError(Exception):
    """A partner's place or a file there cannot be read; the message says why."""


class ChangedError(PlaceError):
    """A file changed, or was removed, while it was read."""


@dataclass(frozen=True, slots=True)
class PartnersFile:
    """A file at a place, as a listing shows it.

    `name` is its path below the place. `size` and `modified` are None if the place does not tell. `tag` changes with
    the content, as far as the place can tell. `day` is the date in its path, else that of `modified`, else today.
    """

    name: str
    size: int | None
    tag: str
    modified: datetime | None
    day: date = date.min
    is_folder: bool = False

    @property
    def base(self) -> str:
        """The last part of its name."""
        return self.name.rpartition("/")[2]

    def is_same(self, other: PartnersFile) -> bool:
        """Whether the other is the same state of this file."""
        return (self.name, self.size, self.tag) == (other.name, other.size, other.tag)


class Place(Protocol):
    """A place of a partner; names are relative to it. All methods raise PlaceError."""

    def entries(self, folder: str) -> Iterable[PartnersFile]:
        """The files and folders directly in a folder, "" for the place itself; none if the folder is missing."""
        ...

    def look(self, files: Sequence[PartnersFile]) -> Sequence[PartnersFile | PlaceError | None]:
        """The present state of these files; None for a missing one, and an error if the place does not tell.

        As they were listed, if a listing of the place tells all.
        """
        return files

    def download(self, file: PartnersFile, target: Path) -> None:
        """Copy the file into a new local file. Raises ChangedError if it is not in the listed state any more."""
        ...

    def close(self) -> None:
        """End the connection, if there is one."""
        return


def open_place(source: Source) -> Place:
    """The place of a polled source. Nothing is connected yet, save to SFTP.

    The variable `FEED_ASSETS_POLL_<KIND>_<NAME>` has options as a JSON object, such as credentials: of boto3's client
    for a bucket, of fsspec's file systems for SFTP (`password`, `key_filename`) and HTTP (`headers`). Without it, S3 is
    as configured for boto3, SFTP uses the keys of the user and of the agent, and HTTP `~/.netrc`. Raises PlaceError.
    """
    poll = polling_of(source)
    options = _options(source)
    match urlsplit(poll.place).scheme if "://" in poll.place else "":
        case "sftp":
            return _sftp(poll.place, options)
        case "http" | "https":
            return HttpPlace(poll.place, options)
        case "s3":
            with _explained((BlackboardError, BotoCoreError, TypeError, ValueError)):
                return BoardPlace(open_blackboard(poll.place, s3_client_factory=_bucket_client(options)))
    directory = (local_directory(poll.place) or Path()).expanduser()
    if source.origin is not None:
        directory = source.origin.absolute().parent / directory
    if not directory.is_dir():
        raise PlaceError(f"{directory} is no directory; create it, or correct {source.place(('poll', 'place'))}")
    return BoardPlace(open_blackboard(str(directory)))


def polling_of(source: Source) -> Poll:
    """The field `poll` of a source. Raises PlaceError if it has none."""
    if source.poll is None:
        raise PlaceError(f"{source.key} has no field `poll`; describe where its files are")
    return source.poll


def list_files(place: Place, poll: Poll, today: date) -> tuple[list[PartnersFile], dict[str, PlaceError]]:
    """The files of the pattern in the days of the lookback, by name; and of each that cannot be looked at, the error.

    Each folder is listed once, and folders of other days are not. Files and folders whose names no store takes as a key
    are left out. Raises PlaceError if the place cannot be listed.
    """
    first = today - timedelta(days=poll.lookback_days)
    days = [first + timedelta(days=each) for each in range(poll.lookback_days + 1 + AHEAD.days)]
    entries = cache(lambda folder: tuple(place.entries(folder)))
    found: dict[str, PartnersFile] = {}
    for day in days if poll.is_dated else [today]:
        for file in _matching(entries, "", poll.components(day)):
            found.setdefault(file.name, replace(file, day=day))
    names = sorted(found)
    seen = list(zip(names, place.look([found[name] for name in names]), strict=True))
    problems = {name: file for name, file in seen if isinstance(file, PlaceError)}
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
        if each.is_folder != bool(rest) or not (
            each.base == head if isinstance(head, str) else head.fullmatch(each.base)
        ):
            continue
        if not _is_key(each.name):
            continue
        if rest:
            yield from _matching(entries, f"{each.name}/", rest)
        else:
            yield each


def _is_key(name: str) -> bool:
    try:
        return bool(check_key(name))
    except BlackboardError:
        return False


@dataclass(frozen=True, slots=True)
class BoardPlace(Place):
    """A directory or a bucket."""

    board: Blackboard

    def entries(self, folder: str) -> Iterator[PartnersFile]:
        """See `Place.entries`."""
        prefix, after = f"{folder}/" if folder else "", ""
        while True:
            with _explained((BlackboardError,)):
                page = self.board.page(prefix, after=after, folders=True)
            yield from map(_of_entry, page.entries)
            yield from (PartnersFile(each.removesuffix("/"), None, "", None, is_folder=True) for each in page.folders)
            if page.next_after is None:
                return
            after = page.next_after

    def download(self, file: PartnersFile, target: Path) -> None:
        """See `Place.download`."""
        with _explained((BlackboardError, OSError)):
            try:
                entry = self.board.download(file.name, target)
            except (NotFoundError, ConflictError):
                raise ChangedError("it changed while it was read") from None
        if not _of_entry(entry).is_same(file):
            raise ChangedError("it changed since it was listed")


def _of_entry(entry: Entry) -> PartnersFile:
    return PartnersFile(entry.key, entry.size, entry.tag, entry.modified)


@dataclass(frozen=True, slots=True)
class SftpPlace(Place):
    """A directory of an SFTP server; `fs` is a file system of fsspec."""

    fs: Any
    root: str
    errors: tuple[type[Exception], ...]

    def entries(self, folder: str) -> Iterator[PartnersFile]:
        """See `Place.entries`. Links are shown as what they point to."""
        path = self._path(folder)
        with _explained(self.errors):
            try:
                listed = self.fs.ls(path, detail=True)
            except FileNotFoundError:
                if folder:
                    return
                raise PlaceError(f"there is no directory {path} on the server") from None
            except UnicodeDecodeError as error:
                name = os.fsdecode(error.object)
                raise PlaceError(f"{path} has a file whose name is not UTF-8, {name!r}; have it renamed") from None
        for each in listed:
            name = f"{folder}/{each['name'].removeprefix(path.rstrip('/') + '/')}".lstrip("/")
            found = self._look(name) if each["type"] == "link" else _of_sftp(name, each)
            if found is not None:
                yield found

    def download(self, file: PartnersFile, target: Path) -> None:
        """See `Place.download`."""
        with _explained(self.errors):
            try:
                self.fs.get_file(self._path(file.name), str(target))
            except FileNotFoundError:
                raise ChangedError("it is gone") from None
        _require_same(file, self._look(file.name), target)

    def close(self) -> None:
        """See `Place.close`."""
        self.fs.client.close()

    def _look(self, name: str) -> PartnersFile | None:
        with _explained(self.errors):
            try:
                return _of_sftp(name, self.fs.info(self._path(name)))
            except FileNotFoundError:
                return None

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}".rstrip("/") or "/"


def _of_sftp(name: str, info: Mapping[str, Any]) -> PartnersFile:
    modified = info["mtime"].astimezone(UTC)
    return PartnersFile(
        name, info["size"], str(int(modified.timestamp())), modified, is_folder=info["type"] == "directory"
    )


def _sftp(url: str, options: Mapping[str, Any]) -> SftpPlace:
    try:
        import paramiko  # noqa: PLC0415 - an extra, loaded only for SFTP
        from fsspec.implementations.sftp import SFTPFileSystem  # noqa: PLC0415 - as above
    except ImportError:
        raise PlaceError("SFTP needs packages that are not installed: pip install 'feed_assets[poll]'") from None

    class KnownHosts(paramiko.MissingHostKeyPolicy):
        """Trust a server whose key `~/.ssh/known_hosts` has. fsspec by itself trusts all servers."""

        def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002 - paramiko's signature
            file = Path("~/.ssh/known_hosts").expanduser()
            known = paramiko.HostKeys(str(file)) if file.is_file() else paramiko.HostKeys()
            if not known.check(hostname, key):
                raise paramiko.SSHException(f"{file} does not have its key; compare it with the partner, then add it")

    parts = urlsplit(url)
    asked = {"username": parts.username, "port": parts.port}
    given = {name: value for name, value in asked.items() if value} | dict(options)
    waits = dict.fromkeys(("timeout", "banner_timeout", "auth_timeout"), _SECONDS)
    errors = (OSError, EOFError, TypeError, paramiko.SSHException, paramiko.SFTPError)
    with _explained(errors):
        fs = SFTPFileSystem(
            parts.hostname, **{"host_key_policy": KnownHosts, **waits, **given, "skip_instance_cache": True}
        )
        fs.ftp.get_channel().settimeout(_SECONDS)
    return SftpPlace(fs, unquote(parts.path).rstrip("/"), errors)


class HttpPlace(Place):
    """A directory that an HTTP server shows as a page of links. fsspec ends the session itself.

    A file's size, tag and time are those of a HEAD request: one for each file of the pattern, in each poll.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        try:
            import aiohttp  # noqa: PLC0415 - an extra, loaded only for HTTP
            from fsspec.implementations.http import HTTPFileSystem  # noqa: PLC0415 - as above
        except ImportError:
            raise PlaceError("HTTP needs packages that are not installed: pip install 'feed_assets[poll]'") from None
        headers = {"Accept-Encoding": "identity", **options.get("headers", {})}
        silent = aiohttp.ClientTimeout(total=None, sock_connect=_SECONDS, sock_read=_SECONDS)
        client = {"timeout": silent, "trust_env": True, **options.get("client_kwargs", {})}
        given = {**options, "headers": headers, "client_kwargs": client, "skip_instance_cache": True}
        self._fs: Any = HTTPFileSystem(**given)
        # Servers call `.gz` an encoding of the content: such a file is wanted as it lies there.
        as_sent = {**given, "client_kwargs": {**client, "auto_decompress": False}}
        self._packed_fs: Any = HTTPFileSystem(**as_sent)
        self._has_options = bool(options)
        self._root = url.rstrip("/") + "/"
        self._urls: dict[str, str] = {}
        # fsspec passes unknown options on: a wrong one is a TypeError of a request.
        self._errors = (OSError, TypeError, ValueError, aiohttp.ClientError, TimeoutError)

    def entries(self, folder: str) -> Iterator[PartnersFile]:
        """See `Place.entries`."""
        from fsspec.asyn import sync  # noqa: PLC0415 - as above

        url = self._urls.get(folder) or f"{self._root}{quote(folder)}"
        url = url.rstrip("/") + "/"
        with _explained(self._errors):
            found = sync(self._fs.loop, self._page, url)
        if found is None:
            if folder:
                return
            raise PlaceError(f"the server has no {url}")
        for link, base in _links(*found):
            name = f"{folder}/{base}".lstrip("/")
            self._urls[name] = link
            yield PartnersFile(name, None, "", None, is_folder=link.endswith("/"))

    def look(self, files: Sequence[PartnersFile]) -> Sequence[PartnersFile | PlaceError | None]:
        """See `Place.look`."""

        def looked(file: PartnersFile) -> PartnersFile | PlaceError | None:
            try:
                return self._look(file.name)
            except PlaceError as error:
                return error

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(looked, files))

    def download(self, file: PartnersFile, target: Path) -> None:
        """See `Place.download`."""
        with _explained(self._errors):
            try:
                fs = self._packed_fs if file.name.lower().endswith(".gz") else self._fs
                fs.get_file(self._urls[file.name], str(target))
            except FileNotFoundError:
                raise ChangedError("it is gone") from None
        _require_same(file, self._look(file.name), target)

    async def _page(self, url: str) -> tuple[str, str] | None:
        """The page of a folder, and the URL that its links count from; None if the server has no such folder."""
        session = await self._fs.set_session()
        async with session.get(self._fs.encode_url(url), **self._fs.kwargs) as answer:
            if answer.status == HTTPStatus.NOT_FOUND:
                return None
            answer.raise_for_status()
            page = (await answer.read()).decode(errors="replace")
            came_from = str(answer.url) if answer.history else url
        asked, came = urlsplit(url), urlsplit(came_from)
        same = asked[:2] == came[:2] or (came.scheme, came.hostname) == ("https", asked.hostname)
        # Another server must not get the partner's credentials: it is asked through the partner's redirects only.
        elsewhere = self._has_options and not same
        return page, url if elsewhere or f"{came_from}/" == url else came_from

    def _look(self, name: str) -> PartnersFile | None:
        with _explained(self._errors):
            try:
                info = self._fs.info(self._urls[name])
            except FileNotFoundError as error:
                # fsspec says so whatever the server's answer is.
                if getattr(error.__cause__, "status", None) in _GONE:
                    return None
                raise error.__cause__ or error from None
        time, modified = info.get("Last-Modified", ""), None
        with suppress(ValueError):  # no time, as far as anybody can tell
            modified = parsedate_to_datetime(time).astimezone(UTC)
        tag = info.get("ETag") or info.get("Content-MD5") or info.get("Digest") or time
        return PartnersFile(name, info.get("size"), tag, modified)


class _Links(HTMLParser):
    """Collects the values of `href` of a page's links."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for each start of an element."""
        self.found += [value.strip() for name, value in attrs if (tag, name) == ("a", "href") and value]


def _links(page: str, url: str) -> Iterator[tuple[str, str]]:
    """The links of a page to what lies directly in the folder at its URL, each with the name there.

    Raises PlaceError if this is no page.
    """
    parser = _Links()
    try:
        parser.feed(page)
    except AssertionError as error:  # Python's, for some of what is no HTML
        raise PlaceError(f"{url} is no page of links: {error}") from None
    here = urlsplit(url)
    inside = here.path.rpartition("/")[0]
    for href in parser.found:
        try:
            # A colon in a name is not the end of a scheme.
            link = urljoin(url, f"./{href}" if re.match("[^/?#]*:(?!//)", href) else href)
            parts = urlsplit(link)
        except ValueError:
            continue  # it is no URL
        folder, _, base = parts.path.removesuffix("/").rpartition("/")
        beside = (parts.scheme, parts.netloc, unquote(folder)) == (here.scheme, here.netloc, unquote(inside))
        if beside and base and not (parts.query or parts.fragment):
            name = unquote(base)
            # Two names that are not UTF-8 must not become one.
            yield link, base if "\ufffd" in name else name


def _require_same(file: PartnersFile, now: PartnersFile | None, target: Path) -> None:
    """Raise ChangedError if the file's state is not that of the listing, PlaceError if not all of it came."""
    if now is None or not now.is_same(file):
        raise ChangedError("it changed since it was listed")
    if file.size is not None and (size := target.stat().st_size) != file.size:
        raise PlaceError(f"{size} bytes came, and the server shows {file.size}")


@contextmanager
def _explained(errors: tuple[type[Exception], ...]) -> Iterator[None]:
    try:
        yield
    except errors as error:
        raise PlaceError(str(error) or type(error).__name__) from error


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
