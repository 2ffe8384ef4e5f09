"""Rows become JSON that says each value exactly; what cannot be said is refused, and named."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feed_assets.delivery.encoding import Encoder, Place, key_text
from feed_assets.delivery.errors import BadRowsError, DestinationError
from feed_assets.delivery.records import PUT, Prefix, details_of
from feed_assets.delivery.versions import Version

"""For machines that do other things, too."""


def encoded(values: list[Any], type_: pa.DataType) -> list[Any]:
    """What JSON says of values of a column."""
    table = pa.table({"key": [str(each) for each in range(len(values))], "value": pa.array(values, type_)})
    encoder = Encoder(("key", "value"), ("key",), ("key",))
    encoder.require_types(table.schema)
    batch = encoder.encode(table.to_batches()[0], Place("here", 0))
    return [json.loads(body)["value"] for body in batch.column("body").to_pylist()]


@pytest.mark.parametrize(
    ("value", "type_", "said"),
    [
        (2**53 + 1, pa.int64(), 2**53 + 1),
        (-(2**63), pa.int64(), -(2**63)),
        (True, pa.bool_(), True),
        (0.1, pa.float64(), 0.1),
        ("tea ☕ \"'\n", pa.string(), "tea ☕ \"'\n"),
        (Decimal("1.50"), pa.decimal128(10, 2), "1.50"),
        (Decimal("0.00000001"), pa.decimal128(20, 8), "0.00000001"),
        (Decimal("12345678901234567890.12"), pa.decimal128(30, 2), "12345678901234567890.12"),
        (date(2024, 2, 29), pa.date32(), "2024-02-29"),
        (datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), pa.timestamp("us", "UTC"), "2024-01-02T03:04:05.000000Z"),
        (
            datetime(2024, 1, 2, 3, 4, 5, 678, tzinfo=timezone(timedelta(hours=2))),
            pa.timestamp("us", "+02:00"),
            "2024-01-02T01:04:05.000678Z",
        ),
        (
            datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC).replace(tzinfo=None),
            pa.timestamp("us"),
            "2024-01-02T03:04:05.000000",
        ),
        (b"\x00\xff", pa.binary(), "AP8="),
        (
            {"a": Decimal("1.0"), "b": None},
            pa.struct({"a": pa.decimal128(3, 1), "b": pa.int32()}),
            {"a": "1.0", "b": None},
        ),
        ([("x", date(2024, 1, 1))], pa.map_(pa.string(), pa.date32()), {"x": "2024-01-01"}),
        ([b"a", None], pa.list_(pa.binary()), ["YQ==", None]),
    ],
)
def test_a_value_is_said_exactly(value: Any, type_: pa.DataType, said: Any) -> None:
    assert encoded([value, None], type_) == [said, None]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("is_nested", [False, True])
def test_a_number_that_json_cannot_say_is_refused_and_its_row_is_named(value: float, is_nested: bool) -> None:
    values: list[Any] = [[1.0], [value]] if is_nested else [1.0, value]

    with pytest.raises(BadRowsError, match=r"value of row 1 of here .* is NaN or infinite"):
        encoded(values, pa.list_(pa.float64()) if is_nested else pa.float64())


@pytest.mark.parametrize("type_", [pa.duration("s"), pa.time64("us"), pa.map_(pa.int32(), pa.string())])
def test_a_type_that_cannot_be_sent_is_refused_by_name(type_: pa.DataType) -> None:
    with pytest.raises(DestinationError, match=r"The column value is .*, which cannot be sent"):
        encoded([None], type_)


@pytest.mark.parametrize(
    ("key", "what"), [(None, "is NULL or empty"), ("", "is NULL or empty"), ("x" * 257, "longer than 256 characters")]
)
def test_a_key_that_a_stream_does_not_take_is_refused(key: str | None, what: str) -> None:
    rows = pa.table({"key": pa.array(["good", key], pa.string())}).to_batches()[0]

    with pytest.raises(BadRowsError, match=rf"row 1 of here .* (is )?{what}"):
        Encoder(("key",), ("key",), ("key",)).encode(rows, Place("here", 0))


def test_columns_that_the_feed_lacks_are_named_with_those_that_it_has() -> None:
    with pytest.raises(DestinationError, match=r"has no price; it has key, cost"):
        Encoder(("key", "price"), ("key",), ("key",)).require_types(pa.schema({"key": pa.string(), "cost": pa.int64()}))


@given(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20),
    st.text(st.sampled_from('a]"\\é'), max_size=8),
    st.integers(0, 2**40),
    st.integers(0, 2**32 - 1),
)
def test_a_record_says_which_row_of_which_delivery_it_is(name: str, partition: str, edition: int, ordinal: int) -> None:
    data = Prefix.of(name, partition, edition).record(ordinal, PUT, b'{"key":"a"}')

    details = details_of(data)
    assert details is not None
    assert (details.destination, details.version, details.op) == (name, Version(partition, edition, ordinal), PUT)
    assert json.loads(data)["key"] == "a"


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[1]", b'{"_d":1}', b'{"_d":[2,"d","p",1,1,"put"]}', b"\xff\xfe", b'{"_d":']
)
def test_records_of_others_are_told_apart(data: bytes) -> None:
    assert details_of(data) is None


versions = st.builds(
    Version, st.text(st.sampled_from("-0129abÿ~"), max_size=6), st.integers(0, 2**63 - 1), st.integers(0, 2**32)
)


@given(versions, versions)
def test_versions_compare_as_their_bytes_do(one: Version, other: Version) -> None:
    ordered = (one.partition.encode(), *one[1:]) < (other.partition.encode(), *other[1:])

    assert (one.packed() < other.packed()) == ordered
    assert Version.unpacked(one.packed()) == one


@given(st.lists(st.lists(st.text(max_size=4), min_size=2, max_size=2), max_size=8, unique_by=tuple))
def test_keys_of_several_columns_are_different_if_the_rows_are(rows: list[list[str]]) -> None:
    assert len({key_text(row) for row in rows}) == len(rows)
