"""Objects of a blackboard as files of this machine, for programs that read files. Not here: reading them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from feed_assets.blackboard.location import local_directory, readable_uris
from feed_assets.blackboard.port import Blackboard, NotFoundError
from feed_assets.file_feed.feed import Update


def fetch(
    blackboard: Blackboard,
    tags: Mapping[str, str | None],
    folder: Path,
    *,
    starting: Callable[[str], object] = lambda _: None,
) -> dict[Path, str]:
    """Link or copy the objects under these keys into a new folder. Returns the URI of each new file.

    The new names are plain, as DuckDB would read some characters as a pattern. Files on this disk are linked. Others
    are copied, one after the other; `starting` is called with the name of each before. Raises NotFoundError if one is
    gone or has another tag, InvalidKeyError if a symbolic link leads one out of the blackboard.
    """
    folder.mkdir()
    uris = {}
    for number, ((key, tag), uri) in enumerate(zip(tags.items(), readable_uris(blackboard, tags), strict=True)):
        starting(PurePosixPath(key).name)
        file = folder / ".".join([f"{number:06}", *PurePosixPath(key).name.split(".")[1:]])
        uris[file] = uri
        if path := local_directory(uri):
            file.symlink_to(path)
            continue
        entry = blackboard.download(key, file)
        if tag not in {None, entry.tag}:
            raise NotFoundError(f"{uri} has changed meanwhile: run the command again.")
    return uris


def fetch_update(
    update: Update, folder: Path, *, starting: Callable[[str], object] = lambda _: None
) -> dict[Path, str]:
    """As `fetch`, the files of an update."""
    tags = {update.key(file.path): file.tag for file in update.files}
    return fetch(update.feed.blackboard, tags, folder, starting=starting)


def with_uris(message: str, uris: Mapping[Path, str]) -> str:
    """The message with the URIs of fetched files instead of their paths."""
    for path, uri in uris.items():
        message = message.replace(str(path), uri)
    return message
