"""Attempts, and a random id of this database. Times are ISO 8601 in UTC, by the machines' clocks."""

from uuid import uuid4

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, Text

revision = "starts_0001_attempts"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "feed_assets_attempts",
        *(Column(name, Text, primary_key=True) for name in ("base", "flow", "slot")),
        Column("number", BigInteger, primary_key=True, autoincrement=False),
        Column("key", Text, nullable=False, unique=True),
        *(Column(name, Text, nullable=False) for name in ("digest", "read", "settled", "state", "forced", "reason")),
        *(Column(name, Text, nullable=False) for name in ("run", "root")),
        *(Column(name, Integer, nullable=False) for name in ("tries", "most")),
        Column("requested", Text, nullable=False),
        *(Column(name, Text) for name in ("started", "ended")),
    )
    op.create_index("feed_assets_attempts_state", "feed_assets_attempts", ["base", "state"])
    op.bulk_insert(
        op.create_table("feed_assets_store", Column("id", Text, primary_key=True)),
        [{"id": uuid4().hex}],
    )
