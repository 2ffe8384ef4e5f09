"""The schema of the state database, and its migrations.

Here: which schema a database has, and bringing it to the newest. Not here: connections (`store`). The machinery's own
tables are in `migrations/` here. A room with tables has a `migrations/` folder of its own, a branch that starts from
nothing: so two systems change their tables without knowing each other.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from feed_assets.errors import FeedAssetsError

ENVIRONMENT: Final = Path(__file__).parent / "migrations"
VERSION_TABLE: Final = "feed_assets_version"

_VERSION: Final = f"SELECT version_num FROM {VERSION_TABLE}"  # noqa: S608 - no part of it comes from outside
_ONE_MIGRATION: Final = threading.Lock()
"""Alembic keeps its context in global variables."""


class UnknownSchemaError(FeedAssetsError):
    """The database has a schema that this program does not know: a newer program made it."""


def branches() -> dict[str, Path]:
    """Room -> its folder of migrations. Each migration is a module, `v0001_what`; the names sort by age."""
    package = Path(__file__).parents[1]
    return {each.parents[1].name: each for each in sorted(package.glob("*/migrations/versions"))}


@cache
def newest() -> frozenset[str]:
    """The newest migration of each branch: `0003_reports` for `v0003_reports` here, `room_0001_what` elsewhere."""
    found = {room: max((each.stem for each in folder.glob("v*.py")), default="") for room, folder in branches().items()}
    return frozenset(
        ("" if room == ENVIRONMENT.parent.name else f"{room}_") + name.removeprefix("v")
        for room, name in found.items()
        if name
    )


def is_newest(connection: Connection) -> bool:
    """Whether the schema is the newest, by one query. The caller's transaction may be broken after False."""
    with suppress(DBAPIError):  # an empty database has no such table
        return frozenset(connection.exec_driver_sql(_VERSION).scalars()) == newest()
    return False


def migrate(connection: Connection) -> None:
    """Bring the schema to the newest, in the caller's transaction. Raises UnknownSchemaError."""
    from alembic import command  # noqa: PLC0415 - slow to load, and rarely needed
    from alembic.config import Config  # noqa: PLC0415 - as above
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415 - as above
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - as above

    config = Config()
    config.set_main_option("script_location", str(ENVIRONMENT).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    folders = "\n".join(str(folder) for folder in branches().values())
    config.set_main_option("version_locations", folders.replace("%", "%%"))
    with _ONE_MIGRATION:
        found = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_heads()
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        if unknown := sorted(set(found) - known):
            raise UnknownSchemaError(", ".join(unknown))
        if frozenset(found) != newest():
            config.attributes["connection"] = connection
            command.upgrade(config, "heads")
