"""The states of slots. Starts and clocks are integers. `changed` is the number of an event of the same transaction."""

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Index, Text

revision = "dependencies_0001_slots"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "feed_assets_dependency_datasets",
        Column("base", Text, primary_key=True),
        Column("dataset", Text, primary_key=True),
        Column("clock", BigInteger, nullable=False),
        Column("changed", BigInteger, nullable=False),
    )
    op.create_table(
        "feed_assets_dependency_slots",
        Column("base", Text, primary_key=True),
        Column("dataset", Text, primary_key=True),
        Column("member", Text, primary_key=True),
        Column("grain", Text, primary_key=True),
        Column("start", BigInteger, primary_key=True, autoincrement=False),
        Column("revision", BigInteger, nullable=False),
        Column("content", BigInteger, nullable=False),
        Column("complete", Boolean, nullable=False),
        Column("state", Text, nullable=False),
        Column("changed", BigInteger, nullable=False),
        Index("feed_assets_dependency_slots_changed", "base", "dataset", "changed"),
    )
