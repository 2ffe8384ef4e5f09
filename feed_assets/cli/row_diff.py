"""Compare the rows of two sets of files with DuckDB. Data larger than memory goes to the disk.

Here: reading parquet, CSV and JSON files, and comparing their rows. Not here: whose files they are (`feed_diff`).
Rows are compared as a multiset, on the columns that both sides have: a row with three copies before and one copy after
counts as two removed rows. With a key, a removed and an added row of the same key count as one changed row. Columns
whose types differ are compared as text. CSV is in the dialect of feeds (`engine.csv_dialect`). All values of CSV and
JSON are text. Times are in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feed_assets.engine.csv_dialect import MalformedCsvError
from feed_assets.engine.duckdb_sql import UnknownFormatError, quoted_name, rows_of
from feed_assets.file_feed.errors import FeedError

if TYPE_CHECKING:
    import duckdb


class RowDiffError(FeedError):
    """The files cannot be compared."""


class UnknownColumnError(RowDiffError):
    """The files have no such key column."""


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A row that changed: the values of its key, and for each changed column the values before and after."""

    key: Mapping[str, Any]
    values: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class RowDiff:
    """How the rows after differ from the rows before: counts, and the first rows of each kind in the order of values.

    `changed` counts keys; None without a key. `columns` are the compared columns: all columns of the other side if one
    side is empty.
    """

    columns: tuple[str, ...]
    columns_added: tuple[str, ...]
    columns_removed: tuple[str, ...]
    columns_retyped: Mapping[str, tuple[str, str]]
    rows_before: int
    rows_after: int
    added: int
    removed: int
    changed: int | None
    first_added: tuple[Mapping[str, Any], ...]
    first_removed: tuple[Mapping[str, Any], ...]
    first_changed: tuple[ChangedRow, ...]


@dataclass(frozen=True, slots=True)
class _Side:
    """One side as a view in the database; without columns if it has no files."""

    view: str
    types: Mapping[str, str]


def diff_rows(
    before: Sequence[Path], after: Sequence[Path], *, key: Sequence[str] = (), limit: int = 10, spill: Path
) -> RowDiff:
    """Compare the rows of these files; `spill` is a directory for rows that DuckDB's memory does not hold.

    Raises UnknownColumnError, and RowDiffError if files are unreadable or not of one known format.
    """
    import duckdb  # noqa: PLC0415 - only this command needs it

    from feed_assets.engine.duckdb_database import in_memory  # noqa: PLC0415 - as above

    try:
        with in_memory(temp_directory=str(spill)) as database:
            sides = _side(database, "before", before), _side(database, "after", after)
            return _Comparison(database, *sides).result(key, limit)
    except duckdb.Error as error:
        reason = str(error).partition("\n\nLINE ")[0]  # below it, DuckDB shows the statement
        raise RowDiffError(f"The files cannot be compared: {reason}") from error


class _Comparison:
    """Two views, and the table `differing` of the rows whose number of copies differs.

    In SQL the columns are c0, c1, ..., so that no name of the data can clash. `surplus` is the number of copies of a
    row after minus before.
    """

    def __init__(self, database: duckdb.DuckDBPyConnection, before: _Side, after: _Side) -> None:
        self._database = database
        self._before, self._after = before, after
        shared = [name for name in after.types if name in before.types]
        self.columns = shared if before.types and after.types else [*after.types, *before.types]
        if (before.types or after.types) and not self.columns:
            raise RowDiffError("The updates have no column in common, so no row can be compared.")

    def result(self, key: Sequence[str], limit: int) -> RowDiff:
        """Compare, by the key if it is given."""
        old, new = self._before.types, self._after.types
        unknown = [name for name in key if name not in self.columns]
        if unknown and self.columns:
            raise UnknownColumnError(
                f"There is no key column {', '.join(unknown)}. Columns are: {', '.join(self.columns)}."
            )
        keyed = [self.columns.index(name) for name in key] if self.columns else []
        both = bool(old and new)
        counted = self._compare(keyed) if self.columns else (0, 0, 0)
        return RowDiff(
            columns=tuple(self.columns),
            columns_added=tuple(name for name in new if both and name not in old),
            columns_removed=tuple(name for name in old if both and name not in new),
            columns_retyped={name: (old[name], new[name]) for name in self._retyped()},
            rows_before=self._count(self._before),
            rows_after=self._count(self._after),
            added=counted[0],
            removed=counted[1],
            changed=counted[2] if key else None,
            first_added=self._first("surplus > 0", keyed, limit),
            first_removed=self._first("surplus < 0", keyed, limit),
            first_changed=self._first_changed(keyed, limit),
        )

    def _compare(self, keyed: Sequence[int]) -> tuple[int, int, int]:
        columns = _listed(range(len(self.columns)))
        sides = " UNION ALL ".join(
            f"SELECT {self._selected(side)}, {sign} AS side FROM {side.view}"  # noqa: S608 - quoted names
            for side, sign in ((self._before, -1), (self._after, 1))
            if side.types
        )
        self._database.execute(
            f"CREATE TEMP TABLE differing AS SELECT {columns}, sum(side)::BIGINT AS surplus FROM ({sides}) "  # noqa: S608
            "GROUP BY ALL HAVING surplus <> 0"
        )
        by = f"{_listed(keyed)}, " if keyed else ""
        grouped = (
            f"SELECT {by}coalesce(sum(surplus) FILTER (surplus > 0), 0)::BIGINT AS came, "  # noqa: S608
            "coalesce(-sum(surplus) FILTER (surplus < 0), 0)::BIGINT AS went FROM differing"
            + (" GROUP BY ALL" if keyed else "")
        )
        if not keyed:
            came, went = self._database.execute(grouped).fetchall()[0]
            return came, went, 0
        self._database.execute(f"CREATE TEMP TABLE of_key AS {grouped}")
        row = self._database.execute(
            "SELECT coalesce(sum(came) FILTER (went = 0), 0)::BIGINT, coalesce(sum(went) FILTER (came = 0), 0)::BIGINT,"
            " count(*) FILTER (came > 0 AND went > 0) FROM of_key"
        ).fetchall()[0]
        return row[0], row[1], row[2]

    def _first(self, which: str, keyed: Sequence[int], limit: int) -> tuple[Mapping[str, Any], ...]:
        if not self.columns:
            return ()
        columns = _listed(range(len(self.columns)), "differing.")
        not_changed = (
            f"ANTI JOIN (FROM of_key WHERE came > 0 AND went > 0) changed ON {_same(keyed, 'differing', 'changed')}"
            if keyed
            else ""
        )
        rows = self._database.execute(
            f"SELECT {columns} FROM differing {not_changed} WHERE {which} ORDER BY ALL LIMIT ?",  # noqa: S608
            [limit],
        ).fetchall()
        return tuple(dict(zip(self.columns, row, strict=True)) for row in rows)

    def _first_changed(self, keyed: Sequence[int], limit: int) -> tuple[ChangedRow, ...]:
        if not keyed:
            return ()
        everything = range(count := len(self.columns))
        old, new = _listed(everything, "old."), _listed(everything, "new.")
        # Not in Python, where NaN differs from itself.
        differs = ", ".join(f"old.c{number} IS DISTINCT FROM new.c{number}" for number in everything)
        first = f"SELECT {_listed(keyed)} FROM of_key WHERE came > 0 AND went > 0 ORDER BY ALL LIMIT ?"  # noqa: S608
        rows = self._database.execute(
            f"SELECT {old}, {new}, {differs} FROM ({first}) first "  # noqa: S608
            f"JOIN differing old ON {_same(keyed, 'first', 'old')} AND old.surplus < 0 "
            f"JOIN differing new ON {_same(keyed, 'first', 'new')} AND new.surplus > 0 "
            f"QUALIFY row_number() OVER (PARTITION BY {_listed(keyed, 'first.')} ORDER BY {old}, {new}) = 1 "
            f"ORDER BY {_listed(keyed, 'first.')}",
            [limit],
        ).fetchall()
        changed = []
        for row in rows:
            was, now, unlike = row[:count], row[count : 2 * count], row[2 * count :]
            key = {self.columns[number]: was[number] for number in keyed}
            values = zip(self.columns, was, now, unlike, strict=True)
            changed.append(ChangedRow(key, {name: (one, other) for name, one, other, differ in values if differ}))
        return tuple(changed)

    def _selected(self, side: _Side) -> str:
        retyped = self._retyped()
        return ", ".join(
            f"{quoted_name(name)}{'::VARCHAR' if name in retyped else ''} AS c{number}"
            for number, name in enumerate(self.columns)
            if name in side.types
        )

    def _retyped(self) -> list[str]:
        old, new = self._before.types, self._after.types
        return [name for name in new if name in old and old[name] != new[name]]

    def _count(self, side: _Side) -> int:
        if not side.types:
            return 0
        count: int = self._database.execute(f"SELECT count(*) FROM {side.view}").fetchall()[0][0]  # noqa: S608
        return count


def _side(database: duckdb.DuckDBPyConnection, view: str, files: Sequence[Path]) -> _Side:
    try:
        relation = rows_of(files)
    except (MalformedCsvError, UnknownFormatError) as error:
        raise RowDiffError(f"The rows cannot be compared: {error}") from error
    if relation is None:
        return _Side(view, {})
    database.execute(f"CREATE TEMP VIEW {view} AS SELECT * FROM {relation}")  # noqa: S608 - quoted paths
    described = database.execute(f"DESCRIBE {view}").fetchall()
    return _Side(view, {name: kind for name, kind, *_ in described})


def _listed(numbers: Sequence[int], of: str = "") -> str:
    return ", ".join(f"{of}c{number}" for number in numbers)


def _same(numbers: Sequence[int], one: str, other: str) -> str:
    return " AND ".join(f"{one}.c{number} IS NOT DISTINCT FROM {other}.c{number}" for number in numbers)
