"""Slots, parts, streams, waivers and quality. Starts and clocks are integers, `state` and the like are JSON.

`changed` is the number of an event that was written in the same transaction.
"""

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
    op.create_table(
        "feed_assets_dependency_parts",
        Column("base", Text, primary_key=True),
        Column("dataset", Text, primary_key=True),
        Column("member", Text, primary_key=True),
        Column("part", Text, primary_key=True),
        Column("digest", Text, nullable=False),
        Column("content", Text, nullable=False),
        Column("until", BigInteger, nullable=False),
        Column("retracted", Text, nullable=False),
    )
    for name, key in (("streams", ("member", "stream")), ("waivers", ("id",))):
        op.create_table(
            f"feed_assets_dependency_{name}",
            Column("base", Text, primary_key=True),
            Column("dataset", Text, primary_key=True),
            *(Column(each, Text, primary_key=True) for each in key),
            Column("state", Text, nullable=False),
            Column("changed", BigInteger, nullable=False),
        )
    op.create_table(
        "feed_assets_dependency_quality",
        Column("base", Text, primary_key=True),
        Column("kind", Text, primary_key=True),
        Column("digest", Text, primary_key=True),
        Column("content", Text, nullable=False),
        Column("changed", BigInteger, nullable=False),
        Index("feed_assets_dependency_quality_changed", "base", "changed"),
    )
