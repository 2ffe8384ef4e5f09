"""The room `notices` keeps what people were told: a warning that lasts is told once more after the upgrade."""

from alembic import op

revision = "run_history_0003_told_elsewhere"
down_revision = "run_history_0002_remembered"


def upgrade() -> None:
    """Drop the table of warnings."""
    op.drop_table("feed_assets_health_warnings")
