"""Ticks of schedules that came while their run went on."""

from alembic import op
from sqlalchemy import Column, Text

revision = "run_history_0002_remembered"
down_revision = "run_history_0001_executions"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "feed_assets_remembered_ticks",
        *(Column(name, Text, primary_key=True) for name in ("base", "schedule", "partition")),
        Column("wanted", Text, nullable=False),
    )
