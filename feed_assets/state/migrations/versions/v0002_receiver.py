"""The receiver's tokens, and its answers to requests that may be repeated. Times are ISO 8601 in UTC."""

from alembic import op
from sqlalchemy import JSON, Column, Text

revision = "0002_receiver"
down_revision = "0001"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "feed_assets_tokens",
        Column("id", Text, primary_key=True),
        *(Column(name, Text, nullable=False) for name in ("partner", "digest", "created")),
        Column("expires", Text),
        Column("sources", JSON, nullable=False),
    )
    op.create_table(
        "feed_assets_answers",
        Column("key", Text, primary_key=True),
        *(Column(name, Text, nullable=False) for name in ("at", "answer")),
    )
    op.create_index("feed_assets_answers_at", "feed_assets_answers", ["at"])
