"""The tables of slots, parts, streams, waivers, quality and questions. Not here: what rows mean (`rows`).

`changed` is the number of an event that was written in the same transaction: a reader that knows the log up to a number
reads the rows after it. The key of a dataset is the URI of its base, and its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import TextClause, bindparam, text
from sqlalchemy.engine import Connection

DatasetKey = tuple[str, str]
IDS_OF_A_QUERY: Final = 500


class SlotRow(NamedTuple):
    """The state of a slot; `state` is JSON."""

    member: str
    grain: str
    start: int
    revision: int
    content: int
    complete: bool
    state: str


class StreamRow(NamedTuple):
    """The state of a stream, as JSON."""

    member: str
    stream: str
    state: str


class WaiverRow(NamedTuple):
    """A waiver, as JSON."""

    id: str
    state: str


class PartRow(NamedTuple):
    """A part; `content` is JSON, `until` an instant, `retracted` the ids that replaced it."""

    member: str
    part: str
    digest: str
    content: str
    until: int
    retracted: str


class QualityRow(NamedTuple):
    """A fact about quality, as JSON. `digest` is that of its key: keys may be longer than a key of a table."""

    kind: str
    digest: str
    content: str


class QuestionRow(NamedTuple):
    """The newest question about a slot of a flow, as JSON."""

    slot: str
    state: str


class ClockRow(NamedTuple):
    """The time up to which a dataset's states are known, and the declaration by which they are counted, as JSON."""

    clock: int
    declaration: str


class CopiedRow(NamedTuple):
    """A row of one of these tables, by which it is copied: `values` are its columns without base and dataset.

    `dataset` is empty for facts about quality, which may concern several.
    """

    table: str
    dataset: str
    changed: int
    values: tuple[Any, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """What a later row of the same thing has, too."""
        return (self.table, self.dataset, *self.values[: _COPIED[self.table].key])


def read_changed(connection: Connection, base: str, after: int) -> list[CopiedRow]:
    """The rows of all tables of a base that changed after this number."""
    found: list[CopiedRow] = []
    datasets = [name for (name,) in connection.execute(_DATASETS, {"base": base})]
    for table, copied in _COPIED.items():
        for dataset in datasets if copied.of_datasets else [""]:
            for changed, *values in _rows(connection, copied.read, (base, dataset), after):
                if table == "slots":
                    values[5] = bool(values[5])  # SQLite has no booleans
                found.append(CopiedRow(table, dataset, changed, tuple(values)))
    return found


def insert_copied(connection: Connection, base: str, rows: Iterable[CopiedRow], changed: int) -> None:
    """Insert copied rows, as of this number."""
    by_table: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        values = dict(zip(_COPIED[row.table].columns, row.values, strict=True))
        values |= {"base": base, "dataset": row.dataset, "changed": changed}
        by_table.setdefault(row.table, []).append(values)
    for table, some in by_table.items():
        connection.execute(_COPIED[table].save, some)


def has_rows(connection: Connection, base: str) -> bool:
    """Whether anything is known of a base."""
    return connection.execute(_DATASETS, {"base": base}).first() is not None


def read_copied(connection: Connection, base: str) -> int | None:
    """The number of the event up to which the rows of a base are copied; None if they never were."""
    found: int | None = connection.execute(_COPIED_UNTIL, {"base": base}).scalar()
    return found


def save_copied(connection: Connection, base: str, last: int) -> None:
    """Note that the rows of a base are copied up to an event."""
    connection.execute(_COPY_NOTED, {"base": base, "last": last})


def read_clock(connection: Connection, key: DatasetKey) -> ClockRow | None:
    """The time up to which a dataset's states are known; None without any."""
    return next((ClockRow(*row) for row in _rows(connection, _CLOCKS.read, key, -1)), None)


def read_slots(connection: Connection, key: DatasetKey, after: int = -1) -> list[SlotRow]:
    """The slots of a dataset that changed after this number."""
    return [SlotRow(*row) for row in _rows(connection, _SLOTS.read, key, after)]


def read_streams(connection: Connection, key: DatasetKey, after: int = -1) -> list[StreamRow]:
    """The streams of a dataset that changed after this number."""
    return [StreamRow(*row) for row in _rows(connection, _STREAMS.read, key, after)]


def read_waivers(connection: Connection, key: DatasetKey, after: int = -1) -> list[WaiverRow]:
    """The waivers of a dataset that changed after this number."""
    return [WaiverRow(*row) for row in _rows(connection, _WAIVERS.read, key, after)]


def read_parts(connection: Connection, key: DatasetKey, ids: Sequence[str]) -> list[PartRow]:
    """The kept parts of a dataset with these ids, of any member."""
    found: list[PartRow] = []
    for first in range(0, len(ids), IDS_OF_A_QUERY):
        values = {"base": key[0], "dataset": key[1], "ids": ids[first : first + IDS_OF_A_QUERY]}
        found += [PartRow(*row) for row in connection.execute(_PARTS_BY_ID, values)]
    return found


def read_parts_of(connection: Connection, key: DatasetKey, member: str) -> list[PartRow]:
    """All kept parts of a member that still count."""
    values = {"base": key[0], "dataset": key[1], "member": member}
    return [PartRow(*row) for row in connection.execute(_PARTS_OF_MEMBER, values)]


def read_quality(connection: Connection, base: str, after: int = -1) -> list[QualityRow]:
    """The facts about quality of all datasets of a base that changed after this number."""
    return [QualityRow(*row) for row in connection.execute(_QUALITY_READ, {"base": base, "after": after})]


def save_quality(connection: Connection, base: str, rows: Iterable[QualityRow], changed: int) -> None:
    """Save facts about quality, each in place of the one with its kind and digest."""
    if values := [row._asdict() | {"base": base, "changed": changed} for row in rows]:
        connection.execute(_QUALITY_SAVE, values)


def read_question(connection: Connection, key: DatasetKey, slot: str) -> str | None:
    """The newest question about a slot of a flow, as JSON."""
    found = connection.execute(_QUESTION, {"base": key[0], "dataset": key[1], "slot": slot}).scalar()
    return None if found is None else str(found)


def read_questions(connection: Connection, base: str) -> list[str]:
    """The newest question of each slot of a base that has one, as JSON."""
    return [str(state) for (state,) in connection.execute(_QUESTIONS_READ, {"base": base})]


def save_question(connection: Connection, key: DatasetKey, row: QuestionRow, changed: int) -> None:
    """Save the newest question of a slot."""
    _save(connection, _QUESTIONS, key, [row], changed)


def delete_quality(connection: Connection, base: str, rows: Iterable[tuple[str, str]]) -> None:
    """Delete facts about quality: kind, digest."""
    if values := [{"base": base, "kind": kind, "digest": digest} for kind, digest in rows]:
        connection.execute(_QUALITY_DELETE, values)


def save_clock(connection: Connection, key: DatasetKey, row: ClockRow, changed: int) -> None:
    """Save the time up to which a dataset's states are known."""
    _save(connection, _CLOCKS, key, [row], changed)


def save_slots(connection: Connection, key: DatasetKey, rows: Iterable[SlotRow], changed: int) -> None:
    """Save slots of a dataset."""
    _save(connection, _SLOTS, key, rows, changed)


def save_streams(connection: Connection, key: DatasetKey, rows: Iterable[StreamRow], changed: int) -> None:
    """Save streams of a dataset."""
    _save(connection, _STREAMS, key, rows, changed)


def save_waivers(connection: Connection, key: DatasetKey, rows: Iterable[WaiverRow], changed: int) -> None:
    """Save waivers of a dataset."""
    _save(connection, _WAIVERS, key, rows, changed)


def save_parts(connection: Connection, key: DatasetKey, rows: Iterable[PartRow], changed: int) -> None:
    """Save parts of a dataset."""
    _save(connection, _PARTS, key, rows, changed)


def delete_slots(connection: Connection, key: DatasetKey, rows: Iterable[tuple[str, str, int]]) -> None:
    """Delete slots of a dataset: member, grain, start."""
    base, dataset = key
    values = [
        {"base": base, "dataset": dataset, "member": member, "grain": grain, "start": start}
        for member, grain, start in rows
    ]
    if values:
        connection.execute(_DELETE_SLOT, values)


def delete_parts(connection: Connection, key: DatasetKey, clock: int) -> None:
    """Delete the parts of a dataset that are no longer kept at this time."""
    connection.execute(_DELETE_PARTS, {"base": key[0], "dataset": key[1], "clock": clock})


class _Table(NamedTuple):
    """The statements of a table: rows after a number, and a row that is new or changed."""

    read: TextClause
    save: TextClause


class _Copied(NamedTuple):
    """How the rows of a table are copied. The first `key` of its columns are its key, within base and dataset."""

    columns: tuple[str, ...]
    key: int
    read: TextClause
    save: TextClause
    of_datasets: bool = True


def _table(name: str, row: type, key: tuple[str, ...]) -> _Table:
    columns: tuple[str, ...] = row._fields  # type: ignore[attr-defined] # of a NamedTuple
    table, listed = f"feed_assets_dependency_{name}", ", ".join(columns)
    all_columns = ("base", "dataset", *columns, "changed")
    values = ", ".join(f":{each}" for each in all_columns)
    changes = ", ".join(f"{each} = excluded.{each}" for each in all_columns[2:] if each not in key)
    # No part of these texts comes from outside.
    return _Table(
        text(f"SELECT {listed} FROM {table} WHERE base = :base AND dataset = :dataset AND changed > :after"),  # noqa: S608
        text(
            f"INSERT INTO {table} ({', '.join(all_columns)}) VALUES ({values}) "  # noqa: S608
            f"ON CONFLICT ({', '.join(('base', 'dataset', *key))}) DO UPDATE SET {changes}"
        ),
    )


_CLOCKS: Final = _table("datasets", ClockRow, ())
_SLOTS: Final = _table("slots", SlotRow, ("member", "grain", "start"))
_STREAMS: Final = _table("streams", StreamRow, ("member", "stream"))
_WAIVERS: Final = _table("waivers", WaiverRow, ("id",))
_QUESTIONS: Final = _table("questions", QuestionRow, ("slot",))
_QUESTION: Final = text(
    "SELECT state FROM feed_assets_dependency_questions WHERE base = :base AND dataset = :dataset AND slot = :slot"
)
_QUESTIONS_READ: Final = text("SELECT state FROM feed_assets_dependency_questions WHERE base = :base")
_PARTS: Final = _table("parts", PartRow, ("member", "part"))
_OF_PARTS: Final = _PARTS.read.text.removesuffix(" AND changed > :after")
_PARTS_BY_ID: Final = text(f"{_OF_PARTS} AND part IN :ids").bindparams(bindparam("ids", expanding=True))
_PARTS_OF_MEMBER: Final = text(f"{_OF_PARTS} AND member = :member AND retracted = ''")
_DELETE_SLOT: Final = text(
    "DELETE FROM feed_assets_dependency_slots WHERE base = :base AND dataset = :dataset AND member = :member "
    "AND grain = :grain AND start = :start"
)
_DELETE_PARTS: Final = text(
    "DELETE FROM feed_assets_dependency_parts WHERE base = :base AND dataset = :dataset AND until < :clock"
)
_QUALITY_READ: Final = text(
    "SELECT kind, digest, content FROM feed_assets_dependency_quality WHERE base = :base AND changed > :after"
)
_QUALITY_DELETE: Final = text(
    "DELETE FROM feed_assets_dependency_quality WHERE base = :base AND kind = :kind AND digest = :digest"
)
_QUALITY_SAVE: Final = text(
    "INSERT INTO feed_assets_dependency_quality (base, kind, digest, content, changed) VALUES (:base, :kind, :digest, "
    ":content, :changed) ON CONFLICT (base, kind, digest) DO UPDATE SET content = excluded.content, "
    "changed = excluded.changed"
)


def _copied(table: _Table, row: type, key: int, *, of_datasets: bool = True) -> _Copied:
    columns: tuple[str, ...] = row._fields  # type: ignore[attr-defined] # of a NamedTuple
    read = text(table.read.text.replace("SELECT ", "SELECT changed, ", 1))
    return _Copied(columns, key, read, table.save, of_datasets)


_COPIED: Final = {
    "datasets": _copied(_CLOCKS, ClockRow, 0),
    "slots": _copied(_SLOTS, SlotRow, 3),
    "streams": _copied(_STREAMS, StreamRow, 2),
    "waivers": _copied(_WAIVERS, WaiverRow, 1),
    "parts": _copied(_PARTS, PartRow, 2),
    "questions": _copied(_QUESTIONS, QuestionRow, 1),
    "quality": _copied(_Table(_QUALITY_READ, _QUALITY_SAVE), QualityRow, 2, of_datasets=False),
}
"""Tables whose rows are on the blackboard, too."""
_DATASETS: Final = text("SELECT dataset FROM feed_assets_dependency_datasets WHERE base = :base ORDER BY dataset")
_COPIED_UNTIL: Final = text("SELECT last FROM feed_assets_dependency_copies WHERE base = :base")
_COPY_NOTED: Final = text(
    "INSERT INTO feed_assets_dependency_copies (base, last) VALUES (:base, :last) ON CONFLICT (base) DO UPDATE SET "
    "last = CASE WHEN excluded.last > feed_assets_dependency_copies.last THEN excluded.last "
    "ELSE feed_assets_dependency_copies.last END"
)


def _rows(connection: Connection, query: TextClause, key: DatasetKey, after: int) -> Iterator[Any]:
    return iter(connection.execute(query, {"base": key[0], "dataset": key[1], "after": after}))


def _save(connection: Connection, table: _Table, key: DatasetKey, rows: Iterable[Any], changed: int) -> None:
    more = {"base": key[0], "dataset": key[1], "changed": changed}
    if values := [row._asdict() | more for row in rows]:
        connection.execute(table.save, values)
