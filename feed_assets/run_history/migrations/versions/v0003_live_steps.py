"""Steps that run, and those that ended without success: how far they are."""

from alembic import op
from sqlalchemy import BigInteger, Column, Text

revision = "run_history_0003_live_steps"
down_revision = "run_history_0002_remembered"


def upgrade() -> None:
    """Create the table."""
    numbers = (
        "stages_done",
        "stages",
        "tasks_done",
        "tasks",
        "rows_read",
        "bytes_read",
        "rows_written",
        "bytes_written",
    )
    op.create_table(
        "feed_assets_live_steps",
        *(Column(name, Text, primary_key=True) for name in ("base", "run", "step")),
        Column("feeds", Text, nullable=False),
        *(Column(name, Text) for name in ("first", "last")),
        Column("partitions", BigInteger, nullable=False),
        *(Column(name, Text, nullable=False) for name in ("process", "started", "seen", "changed")),
        Column("ended", Text),
        *(Column(name, BigInteger) for name in numbers),
    )
    op.create_index("feed_assets_live_steps_seen", "feed_assets_live_steps", ["base", "seen"])
