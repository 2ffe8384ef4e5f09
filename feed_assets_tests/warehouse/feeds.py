"""Feeds to load: updates of small Parquet files, made without Spark; and what a warehouse holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.file_feed import Column, Facts, Feed, Rows, Staged, claim, invalidate, publish, stage, staged_files
from feed_assets.warehouse.loading import load
from feed_assets.warehouse.port import Loaded, Warehouse

DAY, NEXT_DAY = "2019-11-24", "2019-11-25"
COLUMNS = (Column("ad", "string", nullable=False), Column("shown", "bigint"))
SCHEMA = pa.schema([("ad", pa.string()), ("shown", pa.int64())])


@dataclass(slots=True)
class Source:
    """A feed that is loaded into the table `effect`."""

    board: Blackboard = field(default_factory=MemoryBlackboard)
    columns: tuple[Column, ...] = COLUMNS
    table: str = "effect"
    location: str = "effect/v1.0"
    time: datetime = datetime(2019, 12, 1, tzinfo=UTC)

    @property
    def feed(self) -> Feed:
        return Feed(self.board, self.location)

    @property
    def declaration(self) -> FeedDeclaration:
        return FeedDeclaration(self.location, self.columns, table=self.table)

    def now(self) -> datetime:
        return self.time

    def publish(self, rows: int | pa.Table, day: str | None = DAY, *, files: int = 1, stated: int | None = None) -> str:
        """A new update of so many rows, or of a table, in so many files; its record may state other rows."""
        staged = self.stage(rows, day, files=files, stated=stated)
        publish(staged, now=self.time)
        return staged.claim.name

    def stage(
        self,
        rows: int | pa.Table,
        day: str | None = DAY,
        *,
        files: int = 1,
        stated: int | None = None,
        run_id: str = "",
    ) -> Staged:
        """As `publish`, by a run whose audit is to come."""
        table = numbered(rows) if isinstance(rows, int) else rows
        self.time += timedelta(seconds=10)
        claimed = claim(self.feed, day, now=self.time, owner="test")
        for number in range(files):
            part = table.slice(number * table.num_rows // files, table.num_rows // files)
            self.board.create(f"{claimed.prefix}part-{number}.parquet", packed(part))
        facts = Facts(rows=Rows(table.num_rows, table.num_rows if stated is None else stated, 0, 0), run_id=run_id)
        return stage(claimed, staged_files(claimed, files), facts, now=self.time)

    def invalidate(self, update: str, day: str | None = DAY) -> None:
        self.time += timedelta(seconds=10)
        invalidate(self.feed, day, update, reason="wrong", author="test", now=self.time)

    def load(self, warehouse: Warehouse, day: str | None = DAY) -> tuple[Loaded, bool]:
        return load(warehouse, self.declaration, self.feed, day, now=self.now, author="test")


def numbered(rows: int) -> pa.Table:
    return pa.table({"ad": [f"ad {each}" for each in range(rows)], "shown": list(range(rows))}, schema=SCHEMA)


def packed(table: pa.Table) -> bytes:
    buffer = BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def rows(warehouse: Warehouse, select: str) -> list[tuple[Any, ...]]:
    """What a reader of its own gets."""
    with warehouse.open(writes=False) as connection:
        return warehouse.execute(connection, select)


def counts(warehouse: Warehouse, days: Iterable[str | None] = (DAY,), table: str = "effect") -> Mapping[str, int]:
    """The rows of these days, by update."""
    return {name: count for day in days for name, count in warehouse.count(table, day or "").items()}
