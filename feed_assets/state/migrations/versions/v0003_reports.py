"""Reports on late data, and the messages about them. Times are ISO 8601 in UTC."""

from alembic import op
from sqlalchemy import JSON, Column, Integer, Text

revision = "0003_reports"
down_revision = "0002_receiver"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "feed_assets_reports",
        Column("id", Text, primary_key=True),
        *(Column(name, Text, nullable=False) for name in ("base", "day", "at")),
        Column("request", JSON, nullable=False),
        Column("result", JSON),
        Column("closed", Text),
    )
    op.create_index("feed_assets_reports_open", "feed_assets_reports", ["base", "closed"])
    op.create_table(
        "feed_assets_messages",
        *(Column(name, Text, primary_key=True) for name in ("report", "message", "channel")),
        Column("attempts", Integer, nullable=False),
        Column("leased_until", Text, nullable=False),
        Column("sent", Text),
    )
