"""Several logs of events, each with a counter; leases. The events of the only log so far become the log `main`."""

from alembic import op
from sqlalchemy import JSON, BigInteger, Column, Text

revision = "0004_logs"
down_revision = "0003_reports"


def upgrade() -> None:
    """Create the tables, and move the events."""
    op.create_table(
        "feed_assets_log",
        Column("log", Text, primary_key=True),
        Column("sequence", BigInteger, primary_key=True, autoincrement=False),
        *(Column(name, Text, nullable=False) for name in ("at", "kind")),
        Column("details", JSON, nullable=False),
    )
    op.create_table(
        "feed_assets_log_counters",
        Column("log", Text, primary_key=True),
        Column("last", BigInteger, nullable=False),
    )
    op.create_table(
        "feed_assets_leases",
        Column("name", Text, primary_key=True),
        Column("number", BigInteger, nullable=False),
        *(Column(name, Text, nullable=False) for name in ("holder", "until")),
    )
    op.execute(
        "INSERT INTO feed_assets_log (log, sequence, at, kind, details) "
        "SELECT 'main', sequence, at, kind, details FROM feed_assets_events"
    )
    op.execute("INSERT INTO feed_assets_log_counters (log, last) SELECT 'main', last FROM feed_assets_event_counter")
    op.drop_table("feed_assets_events")
    op.drop_table("feed_assets_event_counter")
