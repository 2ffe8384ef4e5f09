"""The store at a URL, and its credentials. Not here: the stores; each is loaded with its driver when used."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from feed_assets.delivery.errors import StoreUnusableError
from feed_assets.delivery.stores.port import Store

EMBEDDED: Final = "sqlite"
"""The store in a file of the installation."""
FILE: Final = "stores.db"
KEEP_SECONDS: Final = 2 * 86_400.0
"""How long tombstones stay: a day longer than the retention of Kinesis, unless a stream has its own."""

StoreKind = Literal["sqlite", "redis"]
Options = Mapping[str, str]
"""Credentials for a store: names and values of the driver's arguments."""

_NOT_IN_NAMES: Final = re.compile(r"\W", re.ASCII)
"""What a shell does not take in the name of a variable."""
_NONE: Final[Options] = MappingProxyType({})
_LOGIN: Final = frozenset({"username", "password"})
_TLS: Final = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})


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
                number = re.fullmatch(r"/?|/[0-9]{1,4}", parts.path) and not (parts.query or parts.fragment)
                if number and "@" not in parts.netloc and parts.hostname and parts.port != 0:
                    return "redis"
    raise StoreUnusableError(
        "A store must be sqlite, sqlite:////directory/stores.db, redis://host:6379/0 or, with TLS, "
        "rediss://host:6379/0; user and password are in the variable FEED_ASSETS_STORE_<DESTINATION>. The present "
        "URL is not shown, because it may contain a password."
    )


def options_variable(destination: str) -> str:
    """The environment variable with the credentials for the store of a destination."""
    return f"FEED_ASSETS_STORE_{_NOT_IN_NAMES.sub('_', destination).upper()}"


def options_of(destination: str, environment: Mapping[str, str] = os.environ) -> Options:
    """The credentials that the environment has for the store of a destination. Raises StoreUnusableError."""
    variable = options_variable(destination)
    try:
        return msgspec.json.decode(environment.get(variable) or "{}", type=dict[str, str])
    except msgspec.DecodeError:
        message = f'{variable} is no JSON object of texts, such as {{"username": "...", "password": "..."}}.'
        raise StoreUnusableError(message) from None


def open_store(url: str, folder: Path, *, options: Options = _NONE, keep_seconds: float = KEEP_SECONDS) -> Store:
    """The store at a URL; `sqlite` is the file `stores.db` in the folder. Use it in a `with` block.

    `options` is for a server: `username`, `password` and, with TLS, `ssl_ca_certs`, `ssl_certfile` and `ssl_keyfile`,
    which are paths. `keep_seconds`: how long a server that sweeps by itself keeps tombstones: the stream's retention
    and a day. A server is first asked when the store is used. Raises StoreUnusableError.
    """
    if store_kind(url) == "sqlite":
        from feed_assets.delivery.stores.sqlite import SqliteStore  # noqa: PLC0415 - loads its driver

        # As in the URLs of SQLAlchemy: the path begins after three slashes.
        return SqliteStore(folder / FILE if url == EMBEDDED else Path(unquote(urlsplit(url).path[1:])).absolute())
    parts = urlsplit(url)
    title = f"{parts.scheme}://{parts.netloc}/{parts.path.strip('/') or 0}"
    known = _LOGIN | _TLS if parts.scheme == "rediss" else _LOGIN
    if unknown := options.keys() - known:
        found, names = ", ".join(sorted(unknown)), ", ".join(sorted(known))
        raise StoreUnusableError(f"{title} has no option {found}; there are {names}.")
    try:
        from feed_assets.delivery.stores.redis import RedisStore  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        message = f"{title} needs the package {error.name}: pip install 'feed_assets[delivery]'."
        raise StoreUnusableError(message) from None
    return RedisStore(url, title, options=options, keep_seconds=keep_seconds)
