"""Tables have the columns of their feed: every type without loss, any name, and no silent change."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from feed_assets.file_feed import Column
from feed_assets.warehouse.address import open_warehouse
from feed_assets.warehouse.port import SchemaMismatchError, Warehouse, WarehouseError
from feed_assets_tests.state.server import new_database
from feed_assets_tests.warehouse.feeds import DAY, NEXT_DAY, Source, counts, rows

pytestmark = pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result")

ODD = 'odd "name", 50 % ?'
VALUES: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "select": ("string", pa.string(), ["", 'a "b",\n\\N\\.', "\\.", "é\t'", None]),
    ODD: ("bigint", pa.int64(), [2**63 - 1, -(2**63), 0, 1, None]),
    "small": ("tinyint", pa.int8(), [127, -128, 0, 1, None]),
    "exact": ("decimal(38,6)", pa.decimal128(38, 6), [Decimal("99999999999999999999999999999999.999999")] * 4 + [None]),
    "ratio": ("double", pa.float64(), [0.1, 1e300, 5e-324, -0.0, None]),
    "single": ("float", pa.float32(), [0.5, 1.5, -2.25, 0.0, None]),
    "known": ("boolean", pa.bool_(), [True, False, True, False, None]),
    "on": ("date", pa.date32(), [date(1, 1, 1), date(9999, 12, 31), date(2019, 11, 24), date(1970, 1, 1), None]),
    "at": (
        "timestamp",
        pa.timestamp("us", "UTC"),
        [
            datetime(2019, 3, 31, 1, 30, 0, 1, UTC),
            datetime(1900, 1, 1, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
            datetime(1970, 1, 1, tzinfo=UTC),
            None,
        ],
    ),
    "local": ("timestamp_ntz", pa.timestamp("us"), [datetime.fromisoformat("2019-03-31T02:30:00.123456")] * 4 + [None]),
    "raw": ("binary", pa.binary(), [b"", b"\x00\xff", b"\\x41", b"'", None]),
}
NESTED = {
    "tags": ("array<string>", pa.list_(pa.string()), [["a", None], [], None]),
    "prices": (
        "struct<low:decimal(38,6),at:map<string,bigint>>",
        pa.struct([("low", pa.decimal128(38, 6)), ("at", pa.map_(pa.string(), pa.int64()))]),
        [{"low": Decimal("12345678901234567890123456.123456"), "at": [("x", 2**60)]}, None, None],
    ),
}


def made(values: dict[str, tuple[str, pa.DataType, list[Any]]]) -> tuple[tuple[Column, ...], pa.Table]:
    columns = tuple(Column(name, spark) for name, (spark, _, _) in values.items())
    return columns, pa.table({name: pa.array(each, type_) for name, (_, type_, each) in values.items()})


def test_every_type_and_every_name_keeps_its_values(warehouse: Warehouse) -> None:
    # The emulator reads no binary values and no empty text from CSV, and at most ten columns.
    left_out = {"raw", "small", "single", "select"} if warehouse.kind == "snowflake" else set()
    columns, table = made({name: each for name, each in VALUES.items() if name not in left_out})
    source = Source(columns=columns)
    source.publish(table)
    source.load(warehouse)

    names = ", ".join(warehouse.quoted(column.name) for column in columns)
    found = rows(warehouse, f"SELECT {names} FROM effect")
    expected = {tuple(map(plain, row)) for row in zip(*(VALUES[column.name][2] for column in columns), strict=True)}
    assert {tuple(map(plain, row)) for row in found} == expected


def test_texts_stay_as_they_are_in_a_database_with_an_encoding_of_its_own(server: str) -> None:
    url = new_database(server)
    maker = open_warehouse(url)
    with maker.open(writes=True) as connection:
        maker.execute(connection, "CREATE DATABASE western ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
    warehouse = open_warehouse(f"{server}/western")
    source = Source()
    kept = source.publish(pa.table({"ad": ["é"], "shown": [1]}))
    source.load(warehouse)
    assert rows(warehouse, "SELECT ad, length(ad) FROM effect") == [("é", 1)]

    source.publish(pa.table({"ad": ["日本"], "shown": [1]}))
    with pytest.raises(WarehouseError, match=r'no equivalent in encoding "LATIN1".*Nothing was loaded'):
        source.load(warehouse)
    assert counts(warehouse) == {kept: 1}


def plain(value: Any) -> Any:
    """The value as text, with the moment of a time."""
    if isinstance(value, datetime) and value.tzinfo:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return repr(bytes(value) if isinstance(value, memoryview | bytearray) else value)


@pytest.mark.parametrize("name", ["duckdb", "postgresql"])
def test_nested_values_become_json_with_every_digit(name: str, request: pytest.FixtureRequest) -> None:
    warehouse: Warehouse = request.getfixturevalue(name)
    columns, table = made(NESTED)
    source = Source(columns=columns)
    source.publish(table)
    source.load(warehouse)

    text = "tags #>> '{}', prices #>> '{}'" if name == "postgresql" else "tags, prices"
    found = rows(warehouse, f"SELECT {text} FROM effect")
    texts = {tuple(text and text.replace(" ", "") for text in row[:2]) for row in found}
    assert texts == {
        ('["a",null]', '{"at":{"x":1152921504606846976},"low":12345678901234567890123456.123456}')
        if name == "postgresql"
        else ('["a",null]', '{"low":12345678901234567890123456.123456,"at":{"x":1152921504606846976}}'),
        ("[]", None),
        (None, None),
    }


def test_a_column_that_the_feed_got_is_added_and_older_updates_leave_it_null(warehouse: Warehouse) -> None:
    source = Source()
    source.publish(2)
    source.load(warehouse)
    source.columns = (*source.columns, Column("cost", "decimal(18,6)"))
    other = source.publish(1, NEXT_DAY)
    source.load(warehouse, NEXT_DAY)

    assert counts(warehouse, [NEXT_DAY]) == {other: 1}
    assert sorted(rows(warehouse, "SELECT shown, cost FROM effect")) == [(0, None), (0, None), (1, None)]


def test_a_changed_or_removed_column_is_refused_and_says_what_to_do(warehouse: Warehouse) -> None:
    source = Source()
    kept = source.publish(2)
    source.load(warehouse)
    source.publish(3)
    for columns, fault in {
        (Column("ad", "string"), Column("shown", "string")): "shown is .* there, and .* in the feed",
        (Column("ad", "string"),): "(?i)shown is .* there, and no column in the feed",
    }.items():
        source.columns = columns
        with pytest.raises(SchemaMismatchError, match=f"(?i){fault.removeprefix('(?i)')}.*Name another table"):
            source.load(warehouse)
    assert counts(warehouse) == {kept: 2}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (Column("wait", "interval day to second"), "wait of the table effect is interval day to second, for which"),
        (Column("raw", "array<struct<a:binary>>"), r"raw of the table effect is array<struct<a:binary>>, for which"),
        (Column("_update", "string"), "_update of the table effect is there twice"),
        (Column("AD", "string"), "AD of the table effect is there twice"),
    ],
)
def test_a_column_that_a_table_cannot_have_is_named(duckdb: Warehouse, column: Column, message: str) -> None:
    source = Source(columns=(Column("ad", "string"), column))
    source.publish(1)
    with pytest.raises(SchemaMismatchError, match=message):
        source.load(duckdb)


def test_a_name_that_postgresql_would_cut_is_refused(postgresql: Warehouse) -> None:
    source = Source(columns=(Column("é" * 32, "string"),))
    source.publish(1)
    with pytest.raises(SchemaMismatchError, match="it has 64 bytes, and 63 are allowed"):
        source.load(postgresql)


@pytest.mark.parametrize("name", ["duckdb", "postgresql"])
def test_a_value_that_its_declared_type_cannot_keep_loads_nothing(name: str, request: pytest.FixtureRequest) -> None:
    warehouse: Warehouse = request.getfixturevalue(name)
    source = Source(columns=(Column("ad", "string"), Column("shown", "decimal(4,2)")))
    kept = source.publish(2)
    source.load(warehouse)
    source.publish(pa.table({"ad": ["a", "b"], "shown": [1.25, 1.255]}))

    with pytest.raises(WarehouseError, match=r"shown is DOUBLE in the files. As decimal\(4,2\) it would lose: 1.255"):
        source.load(warehouse)
    assert counts(warehouse) == {kept: 2}


def publish_texts(source: Source, values: list[str], day: str) -> None:
    """Publish values of the column `ad` as text."""
    update = f"{source.location}/{day}/20191201.000100"
    source.board.create(f"{update}/part-0.csv", "".join(f'"{value}"\n' for value in ("ad", *values)).encode())
    source.board.create(f"{update}/_SUCCESS", b"1")


@pytest.mark.parametrize(
    ("spark", "values"),
    [
        ("bigint", ["1.5", ".5", "5e-1", "1e-30", "0.99999999999999999999999999", "9223372036854775806.9"]),
        ("decimal(10,2)", ["12.345", "1.2345e1", "0.000000000000000000001"]),
        ("decimal(38,6)", ["1.1234567", "12345678901234567890123456789012.1234561"]),
        ("date", ["2024-01-01 10:30:00", "2024-01-01T00:00:01Z"]),
        ("timestamp_ntz", ["2024-01-01 10:30:00+02", "2024-01-01 10:30:00 -05:30", "2024-01-01 10:30:00.1234567"]),
        ("timestamp", ["2024-01-01 10:30:00.1234567+02"]),
        ("float", ["1e39"]),
        ("double", ["-1e400"]),
    ],
)
def test_a_text_that_says_more_than_its_declared_type_keeps_loads_nothing(duckdb, spark: str, values: list[str]):
    source = Source(columns=(Column("ad", spark),))
    for number, value in enumerate(values):
        publish_texts(source, ["", value], day := f"2019-11-{number + 10}")
        with pytest.raises(WarehouseError, match=r"ad is VARCHAR in the files.*it would lose") as error:
            source.load(duckdb, day)
        assert f"As {spark} it would lose: {value}" in str(error.value)
    assert rows(duckdb, "SELECT * FROM effect") == []


@pytest.mark.parametrize(
    ("spark", "texts"),
    [
        ("bigint", {"1e3": 1000, " 5 ": 5, "1.0": 1, "2.50e1": 25, "0x1e": 30, str(2**63 - 1): 2**63 - 1}),
        ("decimal(10,2)", {"12.340000000000": "12.34", "1.234e1": "12.34", "5": "5.00", "-.5": "-0.50"}),
        ("decimal(38,6)", {"9" * 32 + ".999999": "9" * 32 + ".999999", "1.234567890123456e10": "12345678901.234560"}),
        ("date", {" 2024-01-01 ": "2024-01-01", "2024-01-02 00:00:00": "2024-01-02", "9999-12-31": "9999-12-31"}),
        ("timestamp_ntz", {"2024-01-01": "2024-01-01 00:00:00", "2024-01-01T10:30:00.1Z": "2024-01-01 10:30:00.1"}),
        ("timestamp", {"2024-01-01 10:30:00.123456000+02": "2024-01-01 08:30:00.123456+00"}),
        ("double", {"0.1": 0.1, "-Infinity": "-inf", "1e-400": 0.0}),
    ],
)
def test_a_text_in_another_notation_keeps_its_value(duckdb: Warehouse, spark: str, texts: dict[str, Any]) -> None:
    source = Source(columns=(Column("ad", spark),))
    publish_texts(source, list(texts), DAY)
    source.load(duckdb)
    found = [text for (text,) in rows(duckdb, "SELECT CAST(ad AS VARCHAR) FROM effect")]
    assert sorted(found) == sorted(map(str, texts.values()))


def test_a_text_that_postgresql_cannot_keep_loads_nothing_and_names_the_column(postgresql: Warehouse) -> None:
    source = Source()
    kept = source.publish(2)
    source.load(postgresql)
    source.publish(pa.table({"ad": ["a\0b"], "shown": [1]}))

    with pytest.raises(WarehouseError, match=r"(?s)invalid byte sequence.*0x00.*effect, line 1.*Nothing was loaded"):
        source.load(postgresql)
    assert counts(postgresql) == {kept: 2}


@pytest.mark.parametrize(
    ("columns", "value", "message"), [(400, "x" * 20, "row is too big"), (1600, "x", "tables can have at most 1600")]
)
def test_a_row_beyond_postgresqls_limits_is_no_fault_that_passes(postgresql, columns: int, value: str, message: str):
    names = [f"c{number}" for number in range(columns)]
    source = Source(columns=tuple(Column(name, "string") for name in names))
    source.publish(pa.table({name: [value] for name in names}))

    with pytest.raises(WarehouseError, match=f"{message}.*Nothing was loaded") as error:
        source.load(postgresql)
    assert not error.value.transient


def test_a_damaged_file_and_other_formats(duckdb: Warehouse) -> None:
    source = Source()
    source.publish(1)
    broken = f"{source.location}/{NEXT_DAY}/20191201.000100"
    source.board.create(f"{broken}/part-0.parquet", b"PAR1 and nothing more")
    source.board.create(f"{broken}/_SUCCESS", b"1")
    with pytest.raises(WarehouseError, match=r"files cannot be loaded: .*Correct the data"):
        source.load(duckdb, NEXT_DAY)

    lines = f"{source.location}/2019-11-26/20191201.000100"
    source.board.create(f"{lines}/part-0.csv", b'shown,ad\n7,""\n,x\n')
    source.board.create(f"{lines}/_SUCCESS", b"1")
    source.load(duckdb, "2019-11-26")
    assert sorted(rows(duckdb, "SELECT ad, shown FROM effect"), key=str) == [("x", None), (None, 7)]
    assert source.load(duckdb, DAY)[1]


def test_a_text_that_a_file_does_not_mark_as_text_stays_as_it_is(duckdb: Warehouse) -> None:
    source = Source()
    kept = source.publish(pa.table({"ad": ["é\n'".encode()], "shown": [1]}))
    source.load(duckdb)
    assert rows(duckdb, "SELECT ad FROM effect") == [("é\n'",)]

    source.publish(pa.table({"ad": [b"\xff"], "shown": [1]}))
    with pytest.raises(WarehouseError, match="invalid UTF8"):
        source.load(duckdb)
    assert counts(duckdb) == {kept: 1}


def test_values_of_json_keep_their_text_their_digits_and_their_late_columns(duckdb: Warehouse) -> None:
    source = Source(columns=(Column("ad", "string"), Column("shown", "bigint"), Column("cost", "float")))
    texts = ["2019-11-24T10:00:00Z", "10:15", "5A0E2C1E-0000-4000-8000-00000000000A"]
    for number, text in enumerate(texts):
        publish_json(source, f"2019-11-2{number}", f'{{"ad": "{text}"}}')
    publish_json(source, "2019-11-23", '{"ad": 12345678901234567890123}')
    publish_json(source, "2019-11-24", '{"shown": 1}\n' * 30_000 + '{"shown": 2, "ad": "late", "cost": 0.1}')
    for day in range(5):
        source.load(duckdb, f"2019-11-2{day}")
    found = rows(duckdb, "SELECT ad, CAST(cost AS VARCHAR) FROM effect WHERE ad IS NOT NULL ORDER BY _partition")
    assert found == [*((text, None) for text in texts), ("12345678901234567890123", None), ("late", "0.1")]


def publish_json(source: Source, day: str, text: str) -> None:
    update = f"{source.location}/{day}/20191201.000100"
    source.board.create(f"{update}/part-0.json", text.encode())
    source.board.create(f"{update}/_SUCCESS", b"1")


def publish_csv(source: Source, day: str, text: str) -> str:
    update = f"{source.location}/{day}/20191201.000100"
    source.board.create(f"{update}/part-0.csv", text.encode())
    source.board.create(f"{update}/_SUCCESS", b"1")
    return update


def test_no_value_of_csv_is_taken_for_a_comment_a_separator_or_a_quote(duckdb: Warehouse) -> None:
    source = Source()
    ids = ["#1", "a;b", "a|b", "a\tb", "'a'", "// a", *(f"ad {number}" for number in range(100))]
    publish_csv(source, DAY, "ad,shown\n" + "".join(f"{each},1\n" for each in ids))

    loaded, _ = source.load(duckdb)

    assert loaded.rows == len(ids)
    assert sorted(rows(duckdb, "SELECT ad FROM effect")) == sorted((each,) for each in ids)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ad;shown\na;1\n", "it has one column, 'ad;shown'"),
        ("ad,shown\na\n", "1 line is no record of 2 columns, such as 'a'"),
        ('ad,shown\n"a,1\n', "1 line is no record of 2 columns"),
    ],
)
def test_csv_with_another_separator_or_broken_lines_loads_nothing_and_is_named(duckdb, text: str, message: str):
    source = Source()
    update = publish_csv(source, DAY, text)

    with pytest.raises(WarehouseError) as caught:
        source.load(duckdb)

    assert f"{source.board.uri(update)}/part-0.csv cannot be read: {message}" in str(caught.value)
    assert counts(duckdb) == {}
