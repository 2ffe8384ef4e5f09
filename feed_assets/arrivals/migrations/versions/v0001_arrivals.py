"""What arrived of each source by hour, its columns by day, and since when it is watched."""

from alembic import op
from sqlalchemy import JSON, BigInteger, Column, Text

revision = "arrivals_0001_arrivals"
down_revision = None
branch_labels = ("arrivals",)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "feed_assets_arrivals",
        *(Column(name, Text, primary_key=True) for name in ("base", "source", "hour")),
        *(Column(name, BigInteger, nullable=False) for name in ("landings", "records")),
    )
    op.create_table(
        "feed_assets_seen_columns",
        *(Column(name, Text, primary_key=True) for name in ("base", "source", "day")),
        Column("seen", JSON, nullable=False),
    )
    op.create_table(
        "feed_assets_arrival_looks",
        Column("base", Text, primary_key=True),
        *(Column(name, Text, nullable=False) for name in ("since", "looked")),
    )
