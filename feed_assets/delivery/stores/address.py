"""The store at a URL. Not here: the stores; each is loaded with its driver when used."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

from feed_assets.delivery.errors import StoreUnusableError
from feed_assets.delivery.stores.port import Store

EMBEDDED: Final = "sqlite"
"""The store in a file of the installation."""
FILE: Final = "stores.db"
KEEP_SECONDS: Final = 2 * 86_400.0
"""How long tombstones stay: a day longer than the retention of Kinesis, unless a stream has its own."""

StoreKind = Literal["sqlite", "redis"]

_NO_CODE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def store_kind(url: str) -> StoreKind:
    """The kind of the store at a URL. Raises StoreUnusableError, without the URL: it may contain a password."""
    if url == EMBEDDED:
        return "sqlite"
    with suppress(ValueError):  # of a wrong port
        parts = urlsplit(url)
        match parts.scheme:
            case "sqlite" if parts.path.strip("/") and not (parts.netloc or parts.query or parts.fragment):
                return "sqlite"
            case "redis" | "rediss":
                # A slash, ? or # of the password has ended the host; the driver would show the rest.
                number = re.fullmatch(r"/?|/[0-9]{1,4}", parts.path) and not (parts.query or parts.fragment)
                readable = parts.netloc.count("@") <= 1 and not _NO_CODE.search(url)
                if number and readable and parts.hostname and parts.port != 0:
                    return "redis"
    raise StoreUnusableError(
        "A store must be sqlite, sqlite:////directory/stores.db, redis://:password@host:6379/0 or, with TLS, "
        "rediss://:password@host:6379/0 (in a password %40 for @, %25 for %, %23 for #, %2F for /, %3F for ?). The "
        "present URL is not shown, because it may contain a password."
    )


def open_store(url: str, folder: Path, *, keep_seconds: float = KEEP_SECONDS) -> Store:
    """The store at a URL; `sqlite` is the file `stores.db` in the folder. Use it in a `with` block.

    `keep_seconds`: how long a server that sweeps by itself keeps tombstones: the stream's retention and a day. A server
    is first asked when the store is used. Raises StoreUnusableError.
    """
    if store_kind(url) == "sqlite":
        from feed_assets.delivery.stores.sqlite import SqliteStore  # noqa: PLC0415 - loads its driver

        # As in the URLs of SQLAlchemy: the path begins after three slashes.
        return SqliteStore(folder / FILE if url == EMBEDDED else Path(unquote(urlsplit(url).path[1:])).absolute())
    parts = urlsplit(url)
    title = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{parts.path.strip('/') or 0}"
    try:
        from feed_assets.delivery.stores.redis import RedisStore  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        message = f"{title} needs the package {error.name}: pip install 'feed_assets[delivery]'."
        raise StoreUnusableError(message) from None
    return RedisStore(url, title, keep_seconds=keep_seconds)
