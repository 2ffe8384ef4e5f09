"""Loading a day into a warehouse beside a bare bulk insert of the same rows by the same driver.

Here: PostgreSQL, from files of Parquet, against COPY of a finished CSV file; and DuckDB, against its own INSERT. Not
here: Snowflake, which is not on this machine.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import duckdb
import psycopg

from feed_assets.blackboard.location import open_blackboard
from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.file_feed import Column, Feed, publish_files
from feed_assets.warehouse.address import open_warehouse
from feed_assets.warehouse.loading import load
from feed_assets.warehouse.port import Warehouse
from feed_assets_tests.benchmarks.results import Comparison, Report, Rounds, timed
from feed_assets_tests.state.server import new_database, postgresql

ROWS, QUICK_ROWS = 1_000_000, 20_000
TURNS = 7
FILES = 4
GOAL = 1.2
DAY = "2019-11-24"
COLUMNS = {
    "impression_id": ("string", "md5(i::VARCHAR)"),
    "event_time": ("timestamp", "to_timestamp(1574553600 + i * 86400.0 / {rows})"),
    "ad_id": ("string", "'ad ' || i % 997"),
    "campaign_id": ("string", "'campaign ' || i % 97"),
    "user_id": ("string", "'user ' || (i * 7919) % 50000"),
    "placement_id": ("string", "CASE WHEN i % 10 = 0 THEN NULL ELSE 'place ' || i % 7 END"),
    "cost": ("decimal(18,6)", "(i % 1000 / 1000)::DECIMAL(18,6)"),
    "source": ("string", "'shop_ads'"),
}
NEW, AGAIN = "load of a new day", "load of a newer update"
BARE = {"postgresql": "bare COPY of a CSV file", "duckdb": "bare INSERT from the files"}


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """Seconds of a load and of a bare bulk insert into a table with the same columns, in turns."""
    size, turns = (QUICK_ROWS, 1) if quick else (ROWS, TURNS)
    files = _files(scratch / "made", size)
    rows, comparisons = [], []
    with postgresql() as server:
        url = new_database(server)
        subjects: dict[str, tuple[str, Callable[[str], object]]] = {
            "postgresql": (url, lambda table: _copy(url, table, scratch / "made" / "rows.csv")),
            "duckdb": (
                f"duckdb:///{scratch}/warehouse.db",
                lambda table: _insert(scratch / "warehouse.db", table, files),
            ),
        }
        for kind, (address, bare) in subjects.items():
            rounds = _rounds(open_warehouse(address), Feed(open_blackboard(str(scratch / kind))), files, bare, turns)
            rows += rounds.rows(f"{size:,} rows, {kind}")
            ratio = rounds.median(NEW) / rounds.median(BARE[kind])
            goal = GOAL if kind == "postgresql" and not quick else None
            pairs = zip(rounds.seconds[NEW], rounds.seconds[BARE[kind]], strict=True)
            paired = median(ours / bare for ours, bare in pairs)
            comparisons += [
                Comparison.at_most(f"{kind}: {NEW} / {BARE[kind]}, medians", ratio, goal),
                Comparison(f"{kind}: {NEW} / {BARE[kind]}, median of pairs", paired),
            ]
    notes = [
        "A load reads Parquet, adds partition and update to each row, has an index of the partitions, and logs.",
        "A bare insert has a finished file, and goes into a new table with the same columns. PostgreSQL has fsync off.",
        f"'{AGAIN}' also deletes the day's rows.",
    ]
    return Report("warehouse", "load a day into a warehouse", rows, comparisons, notes)


def _files(folder: Path, size: int) -> list[Path]:
    """The rows as files of Parquet, and with partition and update as a file of CSV."""
    folder.mkdir()
    names = [folder / f"part-{number}.parquet" for number in range(FILES)]
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        made = ", ".join(f"{sql.format(rows=size)} AS {name}" for name, (_, sql) in COLUMNS.items())
        for number, path in enumerate(names):
            one = f"SELECT {made} FROM range({size}) t(i) WHERE i % {FILES} = {number}"
            database.execute(f"COPY ({one}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
        whole = f"SELECT *, '{DAY}', '20191201.160000' FROM read_parquet('{folder}/*.parquet')"
        database.execute(f"COPY ({whole}) TO '{folder}/rows.csv' (FORMAT csv, HEADER false)")
    return names


def _rounds(warehouse: Warehouse, feed: Feed, files: list[Path], bare: Callable[[str], object], turns: int) -> Rounds:
    columns = tuple(Column(name, type_) for name, (type_, _) in COLUMNS.items())
    declaration = FeedDeclaration("", columns, table="impressions")
    rounds = Rounds()

    def publish_and_load(day: str) -> float:
        publish_files(feed, day, files, now=datetime.now(UTC), owner="benchmark")
        return timed(lambda: load(warehouse, declaration, feed, day, now=lambda: datetime.now(UTC), author="benchmark"))

    publish_and_load("2019-10-31")  # makes the table
    days = [f"2019-11-{turn + 1:02}" for turn in range(turns)]
    subjects: dict[str, Callable[[str], float]] = {
        NEW: publish_and_load,
        BARE[warehouse.kind]: lambda day: timed(lambda: bare(f"bare_{day[-2:]}")),
    }
    for turn, day in enumerate(days):
        for name in sorted(subjects, reverse=bool(turn % 2)):
            rounds.add(name, subjects[name](day))
    for day in days:  # last, as what it deletes is cleaned up later
        rounds.add(AGAIN, publish_and_load(day))
    return rounds


def _copy(url: str, table: str, file: Path) -> None:
    """What `psql` does with `\\copy`, in the driver that the load uses."""
    with psycopg.connect(url) as connection, connection.cursor() as cursor, file.open("rb") as rows:
        cursor.execute(f"CREATE TABLE {table} (LIKE impressions)".encode())
        with cursor.copy(f"COPY {table} FROM STDIN (FORMAT csv)".encode()) as copy:
            while chunk := rows.read(256 * 1024):
                copy.write(chunk)


def _insert(path: Path, table: str, files: list[Path]) -> None:
    with duckdb.connect(path) as database:
        listed = ", ".join(f"'{file}'" for file in files)
        database.execute(f"CREATE TABLE {table} AS SELECT *, '{DAY}', '20191201.160000' FROM read_parquet([{listed}])")
