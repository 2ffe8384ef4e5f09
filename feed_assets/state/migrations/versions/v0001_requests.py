"""The event log and the last requests. Times are ISO 8601. Other programs may have tables in the same database."""

from alembic import op
from sqlalchemy import JSON, BigInteger, Column, Integer, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "feed_assets_events",
        Column("sequence", BigInteger, primary_key=True, autoincrement=False),
        *(Column(name, Text, nullable=False) for name in ("at", "kind")),
        Column("details", JSON, nullable=False),
    )
    op.bulk_insert(
        op.create_table("feed_assets_event_counter", Column("last", BigInteger, nullable=False)), [{"last": 0}]
    )
    op.create_table(
        "feed_assets_requests",
        *(Column(name, Text, primary_key=True) for name in ("feed", "partition")),
        *(Column(name, Text, nullable=False) for name in ("state", "at")),
        Column("times", Integer, nullable=False),
    )
