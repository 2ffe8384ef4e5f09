"""Objects of a blackboard as files of this machine, for programs that read files. Not here: reading them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from shlex import quote
from tempfile import TemporaryDirectory
from urllib.parse import unquote, urlsplit

import duckdb

from feed_assets.blackboard import Blackboard, NotFoundError
from feed_assets.file_feed import FeedError, Update


def fetch(blackboard: Blackboard, tags: Mapping[str, str | None], folder: Path) -> dict[Path, str]:
    """Link or copy the objects under these keys into a new folder. Returns the URI of each new file.

    The new names are plain, as DuckDB would read some characters as a pattern. Files on this disk are linked. Others
    are copied, one after the other, through memory. Raises NotFoundError if one is gone or has another tag.
    """
    folder.mkdir()
    uris = {}
    for number, (key, tag) in enumerate(tags.items()):
        file = folder / ".".join([f"{number:06}", *PurePosixPath(key).name.split(".")[1:]])
        uris[file] = uri = blackboard.uri(key)
        if uri.startswith("file:"):
            file.symlink_to(unquote(urlsplit(uri).path))
            continue
        content = blackboard.read(key)
        if tag not in {None, content.entry.tag}:
            raise NotFoundError(f"{uri} has changed meanwhile: run the command again.")
        file.write_bytes(content.data)
    return uris


def fetch_update(update: Update, folder: Path) -> dict[Path, str]:
    """As `fetch`, the files of an update."""
    return fetch(update.feed.blackboard, {update.key(file.path): file.tag for file in update.files}, folder)


@contextmanager
def readable_files(update: Update) -> Iterator[list[str]]:
    """Paths of the update's files for DuckDB. Its errors become a FeedError that says what to do."""
    with TemporaryDirectory() as folder:
        uris = fetch_update(update, Path(folder) / "files")
        try:
            yield [str(path) for path in uris]
        except duckdb.Error as error:
            partition = f" -p {quote(update.partition)}" if update.partition is not None else ""
            named = f"{quote(update.feed.uri)}{partition} --update {update.name}"
            raise FeedError(
                f"The files of {update.uri} cannot be read: {with_uris(str(error).partition(chr(10))[0], uris)} "
                f"`feed-assets feed files {named}` lists them; "
                f"`feed-assets feed invalidate {named} --reason TEXT` takes them out of force."
            ) from error


def with_uris(message: str, uris: Mapping[Path, str]) -> str:
    """The message with the URIs of fetched files instead of their paths."""
    for path, uri in uris.items():
        message = message.replace(str(path), uri)
    return message
