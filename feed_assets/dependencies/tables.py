"""The tables of slots, as rows of plain values. Not here: what the states mean (`slot_states`, `rows`).

`changed` is the number of an event that was written in the same transaction: a reader that knows the log up to a number
reads the rows after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import text
from sqlalchemy.engine import Connection

_SLOT_COLUMNS: Final = "member, grain, start, revision, content, complete, state"
_SAVE_SLOT: Final = text(
    f"INSERT INTO feed_assets_dependency_slots (base, dataset, {_SLOT_COLUMNS}, changed) VALUES "  # noqa: S608
    "(:base, :dataset, :member, :grain, :start, :revision, :content, :complete, :state, :changed) "
    "ON CONFLICT (base, dataset, member, grain, start) DO UPDATE SET revision = excluded.revision, "
    "content = excluded.content, complete = excluded.complete, state = excluded.state, changed = excluded.changed"
)
_SLOTS: Final = text(
    f"SELECT {_SLOT_COLUMNS} FROM feed_assets_dependency_slots "  # noqa: S608 - no part comes from outside
    "WHERE base = :base AND dataset = :dataset AND changed > :after"
)
_SAVE_CLOCK: Final = text(
    "INSERT INTO feed_assets_dependency_datasets (base, dataset, clock, changed) VALUES "
    "(:base, :dataset, :clock, :changed) "
    "ON CONFLICT (base, dataset) DO UPDATE SET clock = excluded.clock, changed = excluded.changed"
)
_CLOCK: Final = text("SELECT clock FROM feed_assets_dependency_datasets WHERE base = :base AND dataset = :dataset")


class SlotRow(NamedTuple):
    """The state of a slot; `state` is JSON."""

    member: str
    grain: str
    start: int
    revision: int
    content: int
    complete: bool
    state: str


def read_clock(connection: Connection, base: str, dataset: str) -> int | None:
    """The time up to which a dataset's states are known; None without any."""
    found = connection.execute(_CLOCK, {"base": base, "dataset": dataset}).scalar()
    return None if found is None else int(found)


def read_slots(connection: Connection, base: str, dataset: str, after: int = -1) -> list[SlotRow]:
    """The rows of a dataset that changed after this number."""
    rows = connection.execute(_SLOTS, {"base": base, "dataset": dataset, "after": after})
    return [SlotRow(*row) for row in rows]


def save_dataset(
    connection: Connection, base: str, dataset: str, *, clock: int, slots: Iterable[SlotRow], changed: int
) -> None:
    """Save the clock and changed rows of a dataset."""
    key = {"base": base, "dataset": dataset, "changed": changed}
    connection.execute(_SAVE_CLOCK, {**key, "clock": clock})
    rows: Sequence[dict[str, object]] = [{**key, **slot._asdict()} for slot in slots]
    if rows:
        connection.execute(_SAVE_SLOT, rows)
