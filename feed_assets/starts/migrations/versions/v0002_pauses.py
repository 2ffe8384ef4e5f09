"""The last pause of each flow. What runs have read stands in the records of updates alone."""

from alembic import op
from sqlalchemy import Column, Text

revision = "starts_0002_pauses"
down_revision = "starts_0001_attempts"


def upgrade() -> None:
    """Create the table, and drop the column."""
    op.drop_column("feed_assets_attempts", "read")
    op.create_table(
        "feed_assets_pauses",
        *(Column(name, Text, primary_key=True) for name in ("base", "flow")),
        *(Column(name, Text, nullable=False) for name in ("since", "by", "reason")),
        Column("until", Text),
    )
