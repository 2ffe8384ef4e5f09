"""Questions to persons: whether a slot of a flow runs again. `state` is JSON."""

from alembic import op
from sqlalchemy import BigInteger, Column, Text

revision = "dependencies_0004_questions"
down_revision = "dependencies_0003_copies"


def upgrade() -> None:
    """Create the table: the newest question of each slot of a flow."""
    op.create_table(
        "feed_assets_dependency_questions",
        Column("base", Text, primary_key=True),
        Column("dataset", Text, primary_key=True),
        Column("slot", Text, primary_key=True),
        Column("state", Text, nullable=False),
        Column("changed", BigInteger, nullable=False),
    )
