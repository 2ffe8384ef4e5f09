"""A DuckDB in memory for the files of updates. Not here: its SQL (`duckdb_sql`), and the databases of users."""

from __future__ import annotations

from typing import Final

import duckdb

MEMORY: Final = "1GB"


def in_memory(**settings: str | int) -> duckdb.DuckDBPyConnection:
    """An empty database with these settings. It holds at most MEMORY, takes rows in any order, and shows times in UTC.

    It loads no extension from the disk or the network.
    """
    database = duckdb.connect(
        config={
            "memory_limit": MEMORY,
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            **settings,
        }
    )
    database.execute("SET TimeZone = 'UTC'")
    return database
