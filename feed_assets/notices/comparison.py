"""Compare the updates of a day before and after a run: rows, declared figures, and the groups that moved most.

Here: finding both updates, and adding up their figures with DuckDB. Not here: row by row (`feed-assets feed diff`).
Python sees one row for each group that is shown, whatever the size of the day.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from feed_assets.blackboard.port import Blackboard, BlackboardError
from feed_assets.datasets.declaration import FeedDeclaration, Figures
from feed_assets.engine.duckdb_database import in_memory
from feed_assets.engine.duckdb_sql import quoted_name, require_columns, rows_of
from feed_assets.engine.queried_files import local_files
from feed_assets.file_feed.control import read_record, records
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.reading import latest
from feed_assets.file_feed.record import Record
from feed_assets.file_feed.wording import first_line

MOVERS = 10
"""Groups that a report names."""
LOOKED_AT = 20
"""The newest updates of a day among which the run's update is looked for."""
FLOATING = {"FLOAT", "DOUBLE"}
"""DuckDB's types with values that are no numbers."""


def compare(
    board: Blackboard,
    declaration: FeedDeclaration,
    day: str,
    before: str | None,
    runs: Collection[str],
    *,
    now: datetime,
) -> dict[str, Any]:
    """How the update that one of these runs made differs from the update `before`, as JSON.

    `after` is None if they published none; then `state` says what became of their newest attempt. `in_force` is the
    update that readers have now, which differs from `after` if the writer was overtaken. `rows` are pairs of before and
    after; `figures` as by `moved`, None if the feed declares none, or, with a `problem`, if files are gone.
    """
    feed = declaration.on(board)
    made = next((each for each in records(feed, day, newest=LOOKED_AT) if each.facts.run_id in runs), None)
    old = read_record(feed, day, before) if before else None
    published = made if made is not None and made.state == "published" else None
    in_force = latest(feed, day, now=now)
    found: dict[str, Any] = {
        "feed": declaration.location,
        "identity": list(declaration.identity),
        "before": before,
        "after": published.update if published else None,
        "in_force": in_force.name if in_force else None,
        "state": made.state if made else "not computed by this run",
        "rows": [_rows(old), _rows(published)],
        "figures": None,
    }
    if declaration.figures is not None and published is not None and old is not None:
        try:
            found["figures"] = moved(declaration.figures, _update(feed, old), _update(feed, published))
        except (FeedError, BlackboardError) as error:
            found["problem"] = str(error)
    return found


def moved(figures: Figures, before: Update, after: Update) -> dict[str, Any]:
    """The sums and ratios of both updates, in all and of the groups that moved most, as pairs of before and after.

    A group's movement is the sum of the shares of the totals by which its sums changed.
    """
    names = ["rows", *figures.sums]
    columns = [f"s{at}" for at in range(len(names))]
    by_side = [(column, side) for column in columns for side in (0, 1)]
    pairs = [f"{column}_{side}" for column, side in by_side]
    sums = ", ".join(f"sum({column}) FILTER (side = {side}) AS {column}_{side}" for column, side in by_side)
    with _relations(figures, before, after) as (database, sides):
        nothing = f"SELECT 0 AS side, NULL AS by_, {', '.join(f'NULL::HUGEINT AS {each}' for each in columns)} LIMIT 0"
        both = " UNION ALL ".join([f"({nothing})", *sides])
        database.execute(f"CREATE TEMP TABLE moved AS SELECT by_, {sums} FROM ({both}) GROUP BY by_")  # noqa: S608 - quoted names
        totals = ", ".join(f"sum({each})" for each in pairs)
        ((groups, *in_all),) = database.execute(f"SELECT count(*), {totals} FROM moved").fetchall()  # noqa: S608 - as above
        movement = " + ".join(
            f"abs(coalesce({column}_1, 0) - coalesce({column}_0, 0)) / {total}"
            for column, total in zip(columns[1:], map(_largest, in_all[2::2], in_all[3::2]), strict=True)
        )
        first = f"SELECT by_, {', '.join(pairs)} FROM moved ORDER BY {movement or '0'} DESC, by_ LIMIT {MOVERS}"  # noqa: S608 - as above
        movers = database.execute(first).fetchall()
    return {
        "by": figures.by,
        "ratios": [name for name, *_ in figures.ratios],
        "groups": groups,
        "totals": _paired(figures, names, in_all),
        "movers": [{"group": group, **_paired(figures, names, values)} for group, *values in movers],
    }


@contextmanager
def _relations(figures: Figures, *updates: Update) -> Iterator[tuple[duckdb.DuckDBPyConnection, list[str]]]:
    """A DuckDB, and a query for the values of each update that has rows: `side`, the group, 1, the values to add up.

    Raises FeedError: if the files of an update cannot be read, it names this update.
    """
    with ExitStack() as stack:
        spill = stack.enter_context(TemporaryDirectory())
        database = stack.enter_context(in_memory(temp_directory=spill))
        sides = []
        for side, update in enumerate(updates):
            files = [Path(each) for each in stack.enter_context(local_files(update))]
            if (relation := rows_of(files)) is not None:
                selected = _selected(database, figures, relation, files)
                sides.append(f"SELECT {side}, {selected} FROM {relation}")  # noqa: S608 - quoted names
        try:
            yield database, sides
        except duckdb.Error as error:
            raise FeedError(f"The figures cannot be added up: {first_line(error)}") from error


def _selected(database: duckdb.DuckDBPyConnection, figures: Figures, relation: str, files: Sequence[Path]) -> str:
    """The group, 1 for each row, and the values to add up, NULL where there is none. The case of names is ignored."""
    described = database.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()  # noqa: S608 - quoted paths
    require_columns(files, [name for name, *_ in described], [figures.by, *figures.sums])
    types = {name.lower(): type_ for name, type_, *_ in described}
    by = quoted_name(figures.by) if figures.by.lower() in types else "NULL"
    sums = (_summand(name, types.get(name.lower())) for name in figures.sums)
    return ", ".join([f"CAST({by} AS VARCHAR)", "1", *sums])


def _summand(name: str, type_: str | None) -> str:
    """The value of a column of this type as a number to add up; NULL without the column, for NaN and for infinity."""
    if type_ is None:
        return "NULL"
    number = f"CAST({quoted_name(name)} AS DECIMAL(38, 6))"
    return f"CASE WHEN isfinite({quoted_name(name)}) THEN {number} END" if type_ in FLOATING else number


def _largest(before: Any, after: Any) -> str:
    """The larger of two totals in SQL, by which a movement is divided: never 0."""
    return str(max(abs(before or 0), abs(after or 0)) or 1)


def _paired(figures: Figures, names: Sequence[str], values: Sequence[Any]) -> dict[str, list[float | None]]:
    """Sums and ratios by name, each before and after."""
    pairs = {name: [_number(each) for each in values[2 * at : 2 * at + 2]] for at, name in enumerate(names)}
    for name, part, whole in figures.ratios:
        pairs[name] = [
            round(one / other, 9) if one is not None and other else None
            for one, other in zip(pairs[part], pairs[whole], strict=True)
        ]
    return pairs


def _number(value: Any) -> float | None:
    """A sum as JSON; None if it has no known value."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return None if value is None else int(value)


def _update(feed: Feed, record: Record) -> Update:
    return Update(feed, record.partition, record.update, record.files)


def _rows(record: Record | None) -> int | None:
    rows = record.facts.rows if record else None
    return rows.published if rows else None
