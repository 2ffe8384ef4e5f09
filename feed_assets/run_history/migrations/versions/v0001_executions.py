"""The executions of each series."""

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Text

revision = "run_history_0001_executions"
down_revision = None
branch_labels = ("run_history",)


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "feed_assets_executions",
        *(Column(name, Text, primary_key=True) for name in ("base", "series", "run")),
        Column("partition", Text),
        *(Column(name, Text, nullable=False) for name in ("wanted", "started", "ended")),
        Column("succeeded", Boolean, nullable=False),
        *(Column(name, BigInteger) for name in ("rows", "bytes")),
    )
    op.create_index("feed_assets_executions_wanted", "feed_assets_executions", ["base", "series", "wanted"])
