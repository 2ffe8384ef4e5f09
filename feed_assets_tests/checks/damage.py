"""What a disk, a bug or a person may do to the rows of an update: each function damages a table in one way."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def column(table: pa.Table, name: str, values: object) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), values)


def first_again(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(0, 1)] * table.num_rows)


def a_null(table: pa.Table) -> pa.Table:
    return column(table, "ad_id", pa.array([None, *table["ad_id"].to_pylist()[1:]], pa.string()))


def a_day_later(table: pa.Table) -> pa.Table:
    moved = pc.add(table["event_time"], pa.scalar(86_400_000_000, pa.duration("us")))
    return column(table, "event_time", moved.cast(table.schema.field("event_time").type))


def text_for_cost(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index("cost")
    return table.set_column(at, "cost", table["cost"].cast(pa.string()))


def without_user(table: pa.Table) -> pa.Table:
    return table.drop_columns(["user_id"])


def nothing(table: pa.Table) -> pa.Table:
    return table.slice(0, 0)


def all_but_one(table: pa.Table) -> pa.Table:
    return table.slice(1)
