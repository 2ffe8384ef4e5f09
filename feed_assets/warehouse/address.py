"""FEED_ASSETS_WAREHOUSE: the warehouse at a URL. Not here: the warehouses; each is loaded with its driver when used."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pydantic import Field, field_validator

from feed_assets.environment import Section
from feed_assets.warehouse.port import Warehouse, WarehouseError

VARIABLE = "FEED_ASSETS_WAREHOUSE"
"""The environment variable with the URL of the warehouse, which can hold a password."""
DUCKDB, POSTGRESQL, SNOWFLAKE = "duckdb", "postgresql", "snowflake"

_NO_CODE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class WarehouseSettings(Section):
    """The warehouse of this installation."""

    warehouse: str = Field("", validation_alias=VARIABLE, repr=False)
    """The [warehouse](../warehouse.md): `duckdb:////directory/warehouse.db`, `postgresql://...` or `snowflake://...`; a
    secret where it has a password.

    Default: none.
    """

    @field_validator("warehouse")
    @classmethod
    def _is_warehouse(cls, url: str) -> str:
        warehouse_kind(url)
        return url


def warehouse_kind(url: str) -> str:
    """The kind of the warehouse at a URL: `duckdb`, `postgresql` or `snowflake`. Raises WarehouseError."""
    with suppress(ValueError):  # of a wrong port
        parts = urlsplit(url)
        path = parts.path.strip("/")
        # An @ behind the path: a ? or # of the password has ended the host.
        complete = parts.port != 0 and "@" not in f"{parts.query}{parts.fragment}"
        # A slash of the password has ended the host, and messages would show the rest.
        complete &= "@" not in path
        # The driver would show the password in which a % is no code, or the rest of it behind an @.
        shown = parts.netloc.count("@") > 1 or _NO_CODE.search(url)
        match parts.scheme:
            case "duckdb" if path and not (parts.netloc or parts.query or parts.fragment or path.startswith(":")):
                return DUCKDB
            case "postgres" | "postgresql" if complete and not shown:
                return POSTGRESQL
            case "snowflake" if complete and parts.hostname and path.count("/") == 1:
                return SNOWFLAKE
    raise WarehouseError(
        f"{VARIABLE} must be duckdb:////directory/warehouse.db, postgresql://user:password@host:5432/database or "
        "snowflake://user@account/database/schema?warehouse=NAME (in a password %40 for @, %25 for %, %23 for #, %3F "
        "for ?). The present URL is not shown, because it may contain a password."
    )


def open_warehouse(url: str) -> Warehouse:
    """The warehouse at a URL; nothing is opened yet. Raises WarehouseError if it cannot be used."""
    kind, parts = warehouse_kind(url), urlsplit(url)
    user = f"{parts.username}@" if parts.username else ""
    port = f":{parts.port}" if parts.port else ""
    title = f"{kind}://{user}{parts.hostname or ''}{port}{parts.path}"
    try:
        if kind == DUCKDB:
            from feed_assets.warehouse.duckdb_file import DuckdbWarehouse  # noqa: PLC0415 - loads its driver

            # As in the URLs of SQLAlchemy: the path begins after three slashes.
            return DuckdbWarehouse(Path(unquote(parts.path[1:])).absolute())
        if kind == POSTGRESQL:
            from feed_assets.warehouse.postgresql import PostgresqlWarehouse  # noqa: PLC0415 - as above

            return PostgresqlWarehouse(f"postgresql{url[len(parts.scheme) :]}", title)
        from feed_assets.warehouse.snowflake import SnowflakeWarehouse  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        extra = {POSTGRESQL: "postgres"}.get(kind, kind)
        message = f"{title} needs the package {error.name}: pip install 'feed_assets[{extra}]'."
        raise WarehouseError(message) from None
    return SnowflakeWarehouse.at(parts, title)
