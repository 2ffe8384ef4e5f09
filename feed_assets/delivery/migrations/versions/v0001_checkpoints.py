"""How far each shard of a stream was consumed."""

from alembic import op
from sqlalchemy import Boolean, Column, Text

revision = "delivery_0001_checkpoints"
down_revision = None
branch_labels = ("delivery",)


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "feed_assets_checkpoints",
        *(Column(name, Text, primary_key=True) for name in ("consumer", "shard")),
        Column("sequence", Text, nullable=False),
        Column("is_over", Boolean, nullable=False),
        Column("until", Text, nullable=False),
    )
