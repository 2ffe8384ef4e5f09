"""The URL of the state database, and its errors as messages without a password; `store` uses the database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from feed_assets.errors import FeedAssetsError

VARIABLE = "FEED_ASSETS_STATE"
POSTGRESQL = {"postgres", "postgresql", "postgresql+psycopg"}
LOCAL_FILE_SYSTEMS = {"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"}


class StoreError(FeedAssetsError):
    """The database failed; the message says what, where and what to do."""


def state_url(text: str) -> URL:
    """The URL of a database, with an absolute path, or with a timeout and UTF-8 for connections.

    Raises StoreError for other URLs.
    """
    try:
        text.encode()  # fails if a byte of the environment is no UTF-8
        url = make_url(text)
    except (ArgumentError, ValueError):
        url = URL.create("none")
    if url.drivername in POSTGRESQL and "@" not in (url.host or ""):
        query = {"connect_timeout": "10", **url.query, "client_encoding": "utf8"}  # in SQL_ASCII, texts would be bytes
        return url.set(drivername="postgresql+psycopg", query=query)
    if url.drivername == "sqlite" and url.database and not (url.host or url.query or url.database.startswith(":")):
        return url.set(database=str(Path(url.database).absolute()))
    message = (
        f"{VARIABLE} must be sqlite:////directory/state.db or postgresql://user:password@host:5432/database (%40 for "
        "an @ in the password). The present URL is not shown, because it may contain a password."
    )
    raise StoreError(message)


def sqlite_url(path: Path) -> str:
    """The URL of an SQLite file."""
    return URL.create("sqlite", database=str(path.absolute())).render_as_string()


def shown(url: URL) -> str:
    """The database for messages: its file, or the server's URL without password and options, which may have one."""
    if url.drivername == "sqlite":
        return str(url.database)
    return URL.create("postgresql", url.username, None, url.host, url.port, url.database).render_as_string()


@contextmanager
def explained(url: URL) -> Iterator[None]:
    """Turn the database's errors into StoreError, without their cause: its trace may show a password."""
    try:
        yield
    except ModuleNotFoundError as error:
        message = f"{shown(url)} needs the package {error.name}: pip install 'feed_assets[postgres]'."
        raise StoreError(message) from None
    except (SQLAlchemyError, OSError) as error:
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        server = "that the server answers and has this user and database"
        file = "that this user may write file and directory, that the disk has room, and no program locks the file"
        message = (
            f"The state database {shown(url)} cannot be used: {' '.join(str(cause).split()).rstrip('.?')}. "
            f"Check {VARIABLE}, and {file if url.drivername == 'sqlite' else server}."
        )
        raise StoreError(message) from None


def on_local_disk(path: Path) -> bool:
    """Whether the path is on a file system of this machine; False if /proc/mounts does not say so."""
    table = Path("/proc/mounts")
    mounts = [line.split() for line in table.read_text(encoding="utf-8").splitlines()] if table.exists() else []
    # The table has \040 for a space.
    names = [(name.replace("\\040", " "), kind) for _, name, kind, *_ in mounts]
    _, kind = max(((len(name), kind) for name, kind in names if path.is_relative_to(name)), default=(0, ""))
    return kind in LOCAL_FILE_SYSTEMS
