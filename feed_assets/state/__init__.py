"""Small transactional facts in SQLite or PostgreSQL, with an ordered event log.

Here: the machinery: transactions (`store`), migrations (`schema`), logs of events (`event_log`), views that follow a
log (`followed`), and leases (`leases`). Not here: facts, whose tables are in the room that owns their meaning
(`starts.tables`), data (`blackboard`), and databases of others (`warehouse`).

SQLite serves the processes of one machine, PostgreSQL the processes of several. If the database is lost, the sensors
request each run that is still due at most once more, and Dagster starts a run key once. Reports on late data that are
not kept yet are lost; data is not.
"""
