"""CSV of feeds in Spark and in DuckDB: both have the same rows of each file, those that were written, or refuse it."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.engine.csv_dialect import MalformedCsvError
from feed_assets.engine.duckdb_sql import require_columns, rows_of
from feed_assets.engine.update_files import read_updates
from feed_assets.file_feed import Feed, File, Update

Rows = list[tuple[str | None, ...]]
Read = Callable[..., Rows | None]
"""Reads the bytes of files with both engines: the rows in order of their text, or None if both refuse the files."""

VALUES = [
    *(None, "a", "1", " x", "x ", "  ", "\t", "#1", "# no comment", "--", "//", "a,b", "a;b", "a|b", "a\tb", "sep=;"),
    *("'q'", "'", '"', '"q"', '5"', ' "x"', 'x "y" z', '""', "a\nb", "a\r\nb", "\n", "\\", "\\\n", '\\"', "C:\\new"),
    *("\\N", "NULL", "é日本", "\ufeffz", "\u2028", "\u0085", "\x1e", "\x7f", "2019-11-24", "1e3", "true", "a" * 300),
]
NAMES = ["id", "#id", "a b", "'n'", 'q"q', "é", "x;y", "1", "2019-11-24", "true", "l\nb", " s", "a|b"]
PIECES = [*"ab1,;|\"'#\\ \n\r\t", '""', '\\"', "\r\n", "\ufeff", "é"]
SLOW = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def read(spark: SparkSession, tmp_path: Path) -> Read:
    numbers = count()

    def both(names: Sequence[str], *contents: bytes, suffix: str = ".csv") -> Rows | None:
        folder = tmp_path / f"feed{next(numbers)}" / "20191124.000000"
        folder.mkdir(parents=True)
        files = [folder / f"part-{number}{suffix}" for number in range(len(contents))]
        for file, content in zip(files, contents, strict=True):
            file.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
        found = [by_spark(spark, tmp_path, names, files), by_duckdb(names, files)]
        assert found[0] == found[1]
        return found[0]

    return both


def by_spark(spark: SparkSession, base: Path, names: Sequence[str], files: Sequence[Path]) -> Rows | None:
    listed = tuple(File(file.name, file.stat().st_size, "") for file in files)
    update = Update(Feed(LocalBlackboard(base), files[0].parent.parent.name), None, files[0].parent.name, listed)
    schema = StructType([StructField(name, StringType()) for name in names])
    try:
        return in_order(tuple(row) for row in read_updates(spark, [update], schema).collect())
    except MalformedCsvError:
        return None


def by_duckdb(names: Sequence[str], files: Sequence[Path]) -> Rows | None:
    try:
        if (relation := rows_of(files)) is None:
            return []
        with duckdb.connect() as database:
            found = database.execute(f"FROM {relation}")
            columns = [name.lower() for name, *_ in found.description]
            require_columns(files, columns, names)  # as all who know the columns do
            rows = found.fetchall()
    except MalformedCsvError:
        return None
    places = [columns.index(name.lower()) if name.lower() in columns else None for name in names]
    return in_order(tuple(None if at is None else row[at] for at in places) for row in rows)


def in_order(rows) -> Rows:
    return sorted(rows, key=repr)


def written(table: Sequence[Sequence[str | None]], separator: str = ",", **how) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=separator, **how).writerows(table)
    return text.getvalue().encode()


@st.composite
def tables(draw, values):
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    row = st.lists(st.sampled_from(values), min_size=len(names), max_size=len(names))
    return names, draw(st.lists(row, max_size=12))


@SLOW
@given(
    table=tables(VALUES),
    line_end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
    suffix=st.sampled_from([".csv", ".tsv", ".csv.gz"]),
)
@example(table=(["id"], [["#1"], [None], ["  "], ["a;b"]]), line_end="\n", quoting=0, mark=b"", suffix=".csv")
@example(table=(["l\nb", "n"], [["a\r\nb", '"']]), line_end="\r\n", quoting=0, mark=b"\xef\xbb\xbf", suffix=".csv")
def test_a_table_that_a_standard_writer_wrote_has_the_same_rows_in_both_engines(
    read: Read, table, line_end, quoting, mark, suffix
):
    names, rows = table
    separator = "\t" if suffix == ".tsv" else ","
    content = mark + written([names, *rows], separator, lineterminator=line_end, quoting=quoting)

    assert read(names, content, suffix=suffix) == in_order(map(tuple, rows))


@SLOW
@given(header=st.sampled_from(["a,b", "a", "a,b,c", '"a",b', " a,b", ""]), rest=st.lists(st.sampled_from(PIECES)))
@example("a,b", ["\n", "1", ",", "2", ",", "\n"])
@example("a,b", ["\n", "1", "\n"])
@example("a,b", ["\n", "1", ",", '"', "b", "\n", "a", ",", "b", "\n"])
@example("a,b", ["\n", " ", '"', "1", '"', ",", "2"])
@example("a,b", ["\r\n", "a", ",", "b", "\r", "a", ",", "1", "\n"])
@example("a", ["\n", " ", "\r\n", "1"])
@example("", ["\n", "\r\n", "a", ",", "b", "\n", "1", ",", "2"])
def test_any_text_has_the_same_rows_in_both_engines_or_is_refused_by_both(read: Read, header, rest):
    read(["a", "b", "c"], "".join([header, *rest]).encode())


@SLOW
@given(table=tables([None, "a", '5"', '"', "C:\\x", "x\\", "a\nb", "a\r\nb", ",", '\\"', "\\n"]))
@example(table=(["id", "size"], [["a1", '5"'], ["a2", '6"'], ["C:\\", "C:\\x"]]))
def test_backslashes_before_quotes_as_spark_writes_them_are_read_alike(read: Read, table):
    rows = table[1]
    names = [f"c{number}" for number in range(len(table[0]))]
    clearly = ['x"y'] * len(names)  # with doubled quotes, this is no record

    def spelled(value: str | None) -> str:
        if value is None:
            return '""'
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"' if any(each in value for each in '",\n\r') else value

    lines = [",".join(map(spelled, row)) for row in [names, clearly, *rows]]

    assert read(names, ("\n".join(lines) + "\n").encode()) == in_order(map(tuple, [clearly, *rows]))


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"", []),
        (b"\n\n", []),
        (b"a,b", []),
        (b"\na,b", []),
        (b"\xef\xbb\xbfa,b\r\n", []),
        (b"a,b\n1,2\r\n3,4\n", [("1", "2"), ("3", "4")]),
        (b"a,b\r1,2\r3,4", [("1", "2"), ("3", "4")]),
        (b'a,b\n,""\n', [(None, None)]),
        (b'a,b\n"1" ,2\n', [("1", "2")]),
        (b'b,a\n5" x,7"\n', [('7"', '5" x')]),
        (b",A,b\n0,1,2\n", [("1", "2")]),
        (b'a,b\n"' + b"x" * 3_000_000 + b'",2\n', [("x" * 3_000_000, "2")]),
    ],
    ids=["zero bytes", "empty lines", "a header", "a header behind a line", "a header with a mark", "two line ends",
         "CR", "empty values", "spaces behind quotes", "inches", "a column without a name", "3 MB"],
)  # fmt: skip
def test_an_unusual_file_has_these_rows_in_both_engines(read: Read, content: bytes, rows: Rows):
    assert read(["a", "b"], content) == rows


@pytest.mark.parametrize(
    "content",
    [
        *(b"a,b\n1\n", b"a,b\n1,2,\n", b"a,b\n1,2,3\n", b'a,b\n1,"2\n3,4\n', b'a,b\n"1"2,3\n', b'a,b\n "1",2\n'),
        *(b"a,b\n\xe9,2\n", "a,b\n1,2\n".encode("utf-16"), b"a,b\n1,\0\n", b'a,b\n"1\n",2\r\n', b"a,A\n1,2\n"),
        *(b"a;b\n1;2\n", b'"a,b\n1,2\n', b"a,b\n  \n1,2\n"),
    ],
)
def test_a_file_that_is_not_in_the_dialect_is_refused_by_both_engines(read: Read, content: bytes):
    assert read(["a", "b"], content) is None


def test_files_with_other_columns_and_line_ends_are_one_table(read: Read):
    contents = [b"a,b\n1,2\n", b'B,c\r\n3,"x\ny"\r\n', b"", b'a\n"5\\""\n"q\\"q"\n']

    found = read(["a", "b", "c"], *contents)

    assert found == in_order([("1", "2", None), (None, "3", "x\ny"), ('5"', None, None), ('q"q', None, None)])


def test_a_refused_file_is_named_with_an_example_and_what_to_do(tmp_path: Path):
    file = tmp_path / "part-0.csv"
    file.write_bytes(b'a,b\n1,2\n1,"2\n')

    with pytest.raises(MalformedCsvError) as caught:
        rows_of([file])

    assert f"""{file} cannot be read: 1 line is no record of 2 columns, such as '1,"2'. CSV in a feed""" in str(
        caught.value
    )
