"""What of the tables is on the blackboard, too: up to which event; and when parts changed."""

from alembic import op
from sqlalchemy import BigInteger, Column, Text

revision = "dependencies_0003_copies"
down_revision = "dependencies_0002_declarations"


def upgrade() -> None:
    """Add the number of an event to parts, and the table of copies."""
    op.add_column("feed_assets_dependency_parts", Column("changed", BigInteger, nullable=False, server_default="0"))
    op.create_index(
        "feed_assets_dependency_parts_changed", "feed_assets_dependency_parts", ["base", "dataset", "changed"]
    )
    op.create_table(
        "feed_assets_dependency_copies",
        Column("base", Text, primary_key=True),
        Column("last", BigInteger, nullable=False),
    )
