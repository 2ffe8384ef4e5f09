"""What a dataset's states were counted by: the bases of its members, as JSON."""

from alembic import op
from sqlalchemy import Column, Text

revision = "dependencies_0002_declarations"
down_revision = "dependencies_0001_slots"


def upgrade() -> None:
    """Add the column. Without an entry, states are counted anew when they are loaded."""
    op.add_column("feed_assets_dependency_datasets", Column("declaration", Text, nullable=False, server_default=""))
