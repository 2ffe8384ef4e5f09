"""Small transactional facts in SQLite or PostgreSQL, with an ordered event log.

Here: the database, its schema, and a module for each kind of fact. Not here: the meaning of a fact
(`starts.requests`), data (`blackboard`), and databases of others (`warehouse`).

SQLite serves the processes of one machine, PostgreSQL those of several. If the database is lost, the sensors request
each run that is still due at most once more, and Dagster starts a run key once. Reports on late data that are not kept
yet are lost; data is not.
"""

from feed_assets.state.address import StoreError
from feed_assets.state.store import Event, Store

__all__ = ["Event", "Store", "StoreError"]
