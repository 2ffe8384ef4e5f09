"""Small transactional facts in SQLite or PostgreSQL, with an ordered log of what changed.

Here: the database, its schema, and a module for each kind of fact. Not here: what a fact means for anybody (what may
be requested again is `dependencies.requests`), and data (`blackboard`). No other room knows SQL.

SQLite serves the processes of a machine, PostgreSQL those of several. Losing the database is harmless: the sensors
request a run of each partition that is still due once more at most, and Dagster starts a run key once.
"""

from feed_assets.state.address import StoreError
from feed_assets.state.asked import Asked, asked_in, last_asked, record_asked
from feed_assets.state.store import Event, Store

__all__ = ["Asked", "Event", "Store", "StoreError", "asked_in", "last_asked", "record_asked"]
