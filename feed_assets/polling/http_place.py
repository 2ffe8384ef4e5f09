"""A place on an HTTP server, by fsspec and aiohttp: pages of links, and the files that they lead to."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from feed_assets.polling.port import (
    SILENT_SECONDS,
    ChangedError,
    PartnersFile,
    Place,
    PlaceError,
    explained,
    require_same,
)

_AT_ONCE = 8
_LONGEST_PAGE = 64 * 1024 * 1024
"""Some hundred thousand links. A page of a few MB of gzip may be one of many GB."""
_GONE = (404, 410)
"""The answers of HTTP for a file that is missing."""


class HttpPlace(Place):
    """A directory that an HTTP server shows as a page of links. fsspec ends the session itself.

    A file's size, tag and time come from a HEAD request: one for each file of the pattern, in each poll.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        try:
            import aiohttp  # noqa: PLC0415 - an extra, loaded only for HTTP
            from fsspec.implementations.http import HTTPFileSystem  # noqa: PLC0415 - as above
        except ImportError:
            raise PlaceError("HTTP needs packages that are not installed: pip install 'feed_assets[poll]'") from None
        headers = {"Accept-Encoding": "identity", **options.get("headers", {})}
        silent = aiohttp.ClientTimeout(total=None, sock_connect=SILENT_SECONDS, sock_read=SILENT_SECONDS)
        client = {"timeout": silent, "trust_env": True, **options.get("client_kwargs", {})}
        secret = tuple({**client.get("headers", {}), **options.get("headers", {})})

        async def without_secrets(request: Any, send: Callable[[Any], Awaitable[Any]]) -> Any:
            # Of what a redirect to another server leaves out, aiohttp knows Authorization and Cookie only.
            if not _is_same_server(url, str(request.url)):
                for name in secret:
                    request.headers.popall(name, None)
            return await send(request)

        client["middlewares"] = (without_secrets,)
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
        self._too_many_redirects = aiohttp.TooManyRedirects

    def entries(self, folder: str) -> Iterator[PartnersFile]:
        """See `Place.entries`."""
        from fsspec.asyn import sync  # noqa: PLC0415 - as above

        url = self._urls.get(folder) or f"{self._root}{quote(folder)}"
        url = url.rstrip("/") + "/"
        with self._explained():
            found = sync(self._fs.loop, self._page, url)
        if found is None:
            if folder:
                return
            raise PlaceError(f"the server has no {url}")
        links = list(_links(found.page, found.url))
        moved = urlsplit(found.came_from).path.rstrip("/") != urlsplit(url).path.rstrip("/")
        if moved and not any("." in base or link.endswith("/") for link, base in links):
            # It may be a page of login, which is no empty folder.
            raise PlaceError(f"the server leads from {url} to {found.came_from}, where no link is to a file")
        for link, base in links:
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
        from fsspec import Callback  # noqa: PLC0415 - loaded only for HTTP

        def stop_after_its_size(_: int | None, received: int) -> None:
            if file.size is not None and received > file.size:
                raise _MoreCameError

        with self._explained():
            try:
                fs = self._packed_fs if file.name.lower().endswith(".gz") else self._fs
                callback = Callback(hooks={"received": stop_after_its_size})
                fs.get_file(self._urls[file.name], str(target), callback=callback)
            except FileNotFoundError:
                raise ChangedError("it is gone") from None
            except _MoreCameError:
                pass  # said below
        require_same(file, self._look(file.name), target)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors into PlaceError. A URL loses its query: a signature there opens the file to whoever reads it."""
        try:
            with explained(self._errors):
                yield
        except PlaceError as error:
            if isinstance(error.__cause__, self._too_many_redirects):
                raise PlaceError("the server leads in a circle, from one address to the next") from error
            raise type(error)(_without_queries(str(error))) from error

    async def _page(self, url: str) -> _Page | None:
        """The page of a folder; None if the server has no such folder."""
        session = await self._fs.set_session()
        async with session.get(self._fs.encode_url(url), **self._fs.kwargs) as answer:
            if answer.status == HTTPStatus.NOT_FOUND:
                return None
            answer.raise_for_status()
            media_type = answer.headers.get("Content-Type", "text/html")
            if "html" not in media_type.lower():
                raise PlaceError(f"{url} is {media_type}, and no page of links in HTML")
            page = bytearray()
            async for part in answer.content.iter_any():
                page += part
                if len(page) > _LONGEST_PAGE:
                    raise PlaceError(f"the page {url} has more than {_LONGEST_PAGE:,} bytes: divide the folder")
            came_from = str(answer.url) if answer.history else url
        # Another server must not get the partner's credentials: it is asked through the partner's redirects only.
        elsewhere = self._has_options and not _is_same_server(url, came_from)
        counted_from = url if elsewhere or f"{came_from}/" == url else came_from
        return _Page(page.decode(errors="replace"), counted_from, _without_queries(came_from))

    def _look(self, name: str) -> PartnersFile | None:
        with self._explained():
            try:
                info = self._fs.info(self._urls[name])
            except FileNotFoundError as error:
                # fsspec raises this for every error; the cause has the server's status.
                if getattr(error.__cause__, "status", None) in _GONE:
                    return None
                raise error.__cause__ or error from None
        time, modified = info.get("Last-Modified", ""), None
        with suppress(ValueError):  # the header is missing, or no time
            modified = parsedate_to_datetime(time).astimezone(UTC)
        tag = info.get("ETag") or info.get("Content-MD5") or info.get("Digest") or time
        return PartnersFile(name, info.get("size"), tag, modified)


@dataclass(frozen=True, slots=True)
class _Page:
    """A page of links, the URL that they count from, and the URL that the page came from, without a query."""

    page: str
    url: str
    came_from: str


class _MoreCameError(Exception):
    """The server sends more of a file than it shows."""


def _is_same_server(asked: str, came: str) -> bool:
    """Whether the URL that an answer came from is on the server that was asked, or on the same host by HTTPS."""
    before, after = urlsplit(asked), urlsplit(came)
    return before[:2] == after[:2] or (after.scheme, after.hostname) == ("https", before.hostname)


def _without_queries(text: str) -> str:
    return re.sub(r"(https?://[^\s?'\"]*)\?[^\s'\"]*", r"\1?...", text)


class _Links(HTMLParser):
    """Collects the values of `href` of a page's links, and of the first `base`, which they count from."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for each start of an element."""
        href = (dict(attrs).get("href") or "").strip()
        if href and tag == "a":
            self.found.append(href)
        elif href and tag == "base" and not self.base:
            self.base = href


def _links(page: str, url: str) -> Iterator[tuple[str, str]]:
    """The links of a page to what lies directly in the folder at its URL, each with the name there.

    Raises PlaceError if this is no page.
    """
    parser = _Links()
    try:
        parser.feed(page)
        counted_from = urljoin(url, parser.base)
    except (AssertionError, ValueError) as error:  # the first is Python's, for some of what is no HTML
        raise PlaceError(f"{url} is no page of links: {error}") from None
    here = urlsplit(url)
    inside = here.path.rpartition("/")[0]
    for href in parser.found:
        try:
            # A colon in a name is not the end of a scheme.
            link = urljoin(counted_from, f"./{href}" if re.match("[^/?#]*:(?!//)", href) else href)
            parts = urlsplit(link)
        except ValueError:
            continue  # it is no URL
        folder, _, base = parts.path.removesuffix("/").rpartition("/")
        beside = (parts.scheme, parts.netloc, unquote(folder)) == (here.scheme, here.netloc, unquote(inside))
        if beside and base and not (parts.query or parts.fragment):
            name = unquote(base)
            # Two names that are not UTF-8 must not become one, and a name is no path.
            yield link, name if {"\ufffd", "/"}.isdisjoint(name) else base
