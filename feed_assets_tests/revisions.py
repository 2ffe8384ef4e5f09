"""Alembic's scripts of the databases of Dagster and of the project, read once in each process.

Alembic loads all scripts of a database, 54 modules for Dagster's, each time that one is opened. A test opens a new one,
and each of its runs on disk another: that took half of the time of a run without Spark.
"""

from __future__ import annotations

from alembic.config import Config
from alembic.script import ScriptDirectory

_read: dict[tuple[str | None, str | None], ScriptDirectory] = {}


def read_once() -> None:
    """Let this process keep each directory of scripts that it reads."""
    from_config = ScriptDirectory.from_config

    def kept(config: Config) -> ScriptDirectory:
        place = (config.get_main_option("script_location"), config.get_main_option("version_locations"))
        if place not in _read:
            _read[place] = from_config(config)
        return _read[place]

    ScriptDirectory.from_config = kept  # type: ignore[method-assign, assignment] # a class method, here without its class
