"""The port of a partner's place: what a poll asks of it, whichever protocol it speaks.

Here: a place's files, its methods and errors, and what all places check. Not here: single places (`places`,
`sftp_place`, `http_place`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Protocol

from feed_assets.errors import FeedAssetsError

SILENT_SECONDS = 60
"""How long a server may be silent."""


class PlaceError(FeedAssetsError):
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
        """The present state of each of these files; None if it is missing, and an error if its state is unknown.

        If the listing of a place has the state of its files, that is the answer.
        """
        return files

    def download(self, file: PartnersFile, target: Path) -> None:
        """Copy the file into a new local file. Raises ChangedError if its state has changed since it was listed."""
        ...

    def close(self) -> None:
        """End the connection, if there is one."""
        return


def require_same(file: PartnersFile, now: PartnersFile | None, target: Path) -> None:
    """Raise ChangedError if the file's state has changed since the listing, PlaceError if the copy is incomplete."""
    if now is None or not now.is_same(file):
        raise ChangedError("it changed since it was listed")
    if file.size is not None and (size := target.stat().st_size) != file.size:
        raise PlaceError(f"{size} bytes came, and the server shows {file.size}")


@contextmanager
def explained(errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Turn these errors into PlaceError."""
    try:
        yield
    except errors as error:
        raise PlaceError(str(error) or type(error).__name__) from error
