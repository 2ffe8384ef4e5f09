"""What partners sent: a row for each segment, partner and source.

Times are ISO 8601 in UTC; `rejected` and `quarantined` are JSON, counts by reason.
"""

from alembic import op
from sqlalchemy import BigInteger, Column, Text

revision = "receiving_0001_received"
down_revision = None
branch_labels = ("receiving",)


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "feed_assets_received",
        *(Column(name, Text, primary_key=True) for name in ("segment", "partner", "source")),
        *(Column(name, Text, nullable=False) for name in ("first", "last")),
        *(Column(name, BigInteger, nullable=False) for name in ("requests", "accepted")),
        Column("rejected", Text, nullable=False),
        Column("landed", Text),
        Column("quarantined", Text, nullable=False),
    )
    op.create_index("feed_assets_received_last", "feed_assets_received", ["last"])
