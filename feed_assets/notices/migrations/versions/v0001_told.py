"""The facts that people were told, by channel."""

from alembic import op
from sqlalchemy import Column, Text

revision = "notices_0001_told"
down_revision = None
branch_labels = ("notices",)


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "feed_assets_told",
        *(Column(name, Text, primary_key=True) for name in ("base", "fact", "channel")),
        *(Column(name, Text, nullable=False) for name in ("state", "since", "seen")),
    )
