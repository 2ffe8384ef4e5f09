"""In which rows two updates differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st

from feed_assets.cli.row_diff import diff_rows

if TYPE_CHECKING:
    import subprocess

Run = Callable[..., Result]
Program = Callable[..., "subprocess.CompletedProcess[str]"]
Written = Callable[[str, str], Path]


def published(run: Run, feed: Path, *files: Path) -> None:
    run("feed", "publish", feed, *files)


def diff(run: Run, *arguments: object) -> dict[str, Any]:
    return json.loads(run("feed", "diff", *arguments, "--json").stdout)


def test_rows_are_compared_as_a_multiset(run: Run, written: Written, tmp_path: Path):
    published(run, tmp_path / "f", written("a.csv", "ad,n\n1,5\n1,5\n1,5\n2,6\n"))
    published(run, tmp_path / "f", written("b.csv", "ad,n\n1,5\n3,7\n"), written("c.csv", "ad,n\n2,6\n"))
    found = diff(run, tmp_path / "f")
    assert (found["from"], found["to"]) == ("20191201.120000", "20191201.120001")
    assert found["rows"] == {"from": 4, "to": 3}
    assert (found["added"], found["removed"], found["changed"]) == (1, 2, None)
    assert found["first_added"] == [{"ad": "3", "n": "7"}]
    assert found["first_removed"] == [{"ad": "1", "n": "5"}]


def test_a_changed_row_whose_key_looks_like_a_comment_has_changed(run: Run, written: Written, tmp_path: Path):
    others = "".join(f"{number},a;b\n" for number in range(100))
    published(run, tmp_path / "f", written("a.csv", f"ad,n\n#1,5\n{others}"))
    published(run, tmp_path / "f", written("a.csv", f"ad,n\n#1,6\n{others}"))
    found = diff(run, tmp_path / "f", "--key", "ad")
    assert (found["rows"], found["changed"]) == ({"from": 101, "to": 101}, 1)
    assert found["first_changed"] == [{"key": {"ad": "#1"}, "values": {"n": {"from": "5", "to": "6"}}}]


def test_the_name_of_a_column_is_text_whatever_a_terminal_would_make_of_it(run: Run, written: Written, tmp_path: Path):
    name = "\x1b]0;title\x07[red]"  # sets a terminal's title; not even click removes it where no terminal is
    for value in ("5", "6"):
        published(run, tmp_path / "f", written("a.csv", f"ad,{name}\n1,{value}\n"))
    shown = [
        run("feed", "diff", tmp_path / "f").output,
        run("feed", "diff", tmp_path / "f", "--key", "ad").output,
        run("feed", "diff", tmp_path / "f", "--key", "nothing", code=2).output,
        run("--debug", "feed", "diff", tmp_path / "f", "--key", "nothing", code=2).output,
    ]
    for output in shown:
        assert r"\x1b]0;title\x07[red]" in output
        assert "\x1b" not in output


def test_csv_that_is_not_in_the_dialect_is_named_where_it_is_published(run: Run, written: Written, tmp_path: Path):
    published(run, tmp_path / "f", written("a.csv", "ad,n\n1,5\n"))
    published(run, tmp_path / "f", written("a.csv", "ad,n\n1\n"))
    message = run("feed", "diff", tmp_path / "f", code=1).stderr
    assert f"{(tmp_path / 'f').as_uri()}/20191201.120001/a.csv cannot be read: 1 line is no record" in message


def test_with_a_key_a_row_can_have_changed(run: Run, written: Written, tmp_path: Path):
    published(run, tmp_path / "f", written("a.jsonl", '{"ad": 1, "n": 5}\n{"ad": 2, "n": 6}\n{"ad": 4, "n": null}\n'))
    published(run, tmp_path / "f", written("a.jsonl", '{"ad": 1, "n": 8}\n{"ad": 3, "n": 6}\n{"ad": 4, "n": null}\n'))
    found = diff(run, tmp_path / "f", "--key", "ad")
    assert (found["added"], found["removed"], found["changed"]) == (1, 1, 1)
    assert found["first_changed"] == [{"key": {"ad": "1"}, "values": {"n": {"from": "5", "to": "8"}}}]
    assert found["first_added"] == [{"ad": "3", "n": "6"}]
    assert found["first_removed"] == [{"ad": "2", "n": "6"}]
    shown = run("feed", "diff", tmp_path / "f", "--key", "ad").stdout
    assert '{"ad": "1"}' in shown
    unknown = run("feed", "diff", tmp_path / "f", "--key", "ads", code=2)
    assert "There is no key column ads" in unknown.stderr


def test_texts_of_json_that_look_like_times_and_ids_are_compared_as_they_were_sent(
    run: Run, written: Written, tmp_path: Path
):
    known = '{"at": "2019-11-24T10:00:00Z", "hour": "10:15", "id": "5A0E2C1E-0000-4000-8000-00000000000A"}\n'
    other = '{"at": "unknown", "hour": "none", "id": "none"}\n'
    published(run, tmp_path / "f", written("a.jsonl", known))
    published(run, tmp_path / "f", written("a.jsonl", known + other))
    found = diff(run, tmp_path / "f")
    assert (found["added"], found["removed"], found["columns"]["retyped"]) == (1, 0, {})

    published(run, tmp_path / "f", written("a.jsonl", known.replace("T10:00:00Z", " 10:00:00+00") + other))
    found = diff(run, tmp_path / "f")
    assert (found["added"], found["removed"]) == (1, 1)


def test_a_key_of_json_that_only_a_late_row_has_is_a_column(run: Run, written: Written, tmp_path: Path):
    rows = "".join(f'{{"ad": {number}}}\n' for number in range(30_000))
    published(run, tmp_path / "f", written("a.jsonl", rows + '{"ad": 30000, "note": "refunded"}\n'))
    published(run, tmp_path / "f", written("a.jsonl", rows + '{"ad": 30000, "note": "paid"}\n'))
    found = diff(run, tmp_path / "f", "--key", "ad")
    assert found["first_changed"] == [{"key": {"ad": "30000"}, "values": {"note": {"from": "refunded", "to": "paid"}}}]


def test_counts_have_thousands_separators_and_values_of_the_data_stand_as_they_are(run: Run, tmp_path: Path):
    for name, rows in ("a", 0), ("b", 1234):
        file = tmp_path / f"{name}.parquet"
        duckdb.sql(f"SELECT i + 10000 AS ad, true AS sold FROM range({rows}) t(i)").write_parquet(str(file))
        published(run, tmp_path / "f", file)

    assert run("feed", "diff", tmp_path / "f", "--limit", "1").stdout.splitlines()[2:] == [
        "added    1,234",
        "removed  0",
        "changed  - (give a --key)",
        "",
        "first added",
        "   ad  sold",
        "10000  True",
    ]


def test_a_value_that_is_no_number_before_and_after_has_not_changed(run: Run, tmp_path: Path):
    for number in (1, 2):
        file = tmp_path / f"{number}.parquet"
        values = f"1 AS ad, {number} AS n, 'NaN'::DOUBLE AS share, ['NaN'::DOUBLE] AS shares, NULL AS nothing"
        duckdb.sql(f"COPY (SELECT {values}) TO '{file}'")
        published(run, tmp_path / "f", file)

    found = diff(run, tmp_path / "f", "--key", "ad")

    assert found["first_changed"] == [{"key": {"ad": 1}, "values": {"n": {"from": 1, "to": 2}}}]


def test_columns_that_came_went_or_changed_their_type_are_told(run: Run, tmp_path: Path):
    local = tmp_path / "a.parquet"
    for select in ("1 AS ad, 5 AS n, 'x' AS gone", "1 AS ad, 5::BIGINT AS n, now() AS came"):
        duckdb.sql(f"COPY (SELECT {select}) TO '{local}'")
        published(run, tmp_path / "f", local)
        local.unlink()
    found = diff(run, tmp_path / "f", "--key", "ad")
    assert found["columns"] == {
        "added": ["came"],
        "removed": ["gone"],
        "retyped": {"n": {"from": "INTEGER", "to": "BIGINT"}},
    }
    assert (found["added"], found["removed"], found["changed"]) == (0, 0, 0)


def test_an_empty_update_differs_in_all_rows(run: Run, written: Written, tmp_path: Path):
    published(run, tmp_path / "f", written("a.csv", "ad\n1\n2\n"))
    empty = tmp_path / "f" / "20191201.120001"
    empty.mkdir()
    (empty / "_SUCCESS").write_text("0")
    assert (diff(run, tmp_path / "f")["removed"], diff(run, tmp_path / "f", "--key", "ad")["removed"]) == (2, 2)
    back = diff(run, tmp_path / "f", "--from", "20191201.120001", "--to", "20191201.120000")
    assert (back["added"], back["removed"], back["rows"]) == (2, 0, {"from": 0, "to": 2})
    nothing = diff(run, tmp_path / "f", "--from", "20191201.120001", "--key", "ad")
    assert (nothing["added"], nothing["removed"], nothing["changed"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("MAP {DATE '2019-11-24': 1, DATE '2019-11-25': 2}", {"2019-11-24": 1, "2019-11-25": 2}),
        ("MAP {{'a': 1}: 2}", {"key": [{"a": 1}], "value": [2]}),
        ("[1.5, 'NaN'::DOUBLE, NULL]", [1.5, "nan", None]),
        ("{'price': 'Infinity'::DOUBLE, 'at': [DATE '2019-11-24']}", {"price": "inf", "at": ["2019-11-24"]}),
        ("'-Infinity'::DOUBLE", "-inf"),
        ("'x'::BLOB", "b'x'"),
    ],
)
def test_nested_columns_are_printed_as_json_that_every_program_reads(
    run: Run, tmp_path: Path, column: str, expected: object
):
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    local = tmp_path / "a.parquet"
    for rows in ("1 AS n WHERE false", "1 AS n"):
        local.unlink(missing_ok=True)
        duckdb.sql(f"COPY (SELECT {column} AS nested, {rows}) TO '{local}'")
        published(run, tmp_path / "f", local)
    found = json.loads(run("feed", "diff", tmp_path / "f", "--json").stdout, parse_constant=refuse)
    assert found["first_added"] == [{"nested": expected, "n": 1}]
    keyed = json.loads(run("feed", "diff", tmp_path / "f", "--key", "n", "--json").stdout, parse_constant=refuse)
    assert keyed["added"] == 1
    run("feed", "diff", tmp_path / "f", "--key", "nested")


@pytest.mark.parametrize(
    ("zone", "before", "after"),
    [
        ("America/New_York", "2019-11-03 05:30:00", "2019-11-03 06:30:00"),  # both are 01:30 there
        ("UTC", "2019-11-24 00:00:00.100000", "2019-11-24 00:00:00.200000"),
        ("Europe/Berlin", "9999-12-31 23:59:59", "0001-01-01 00:00:00"),  # in Berlin, beyond the years of Python
    ],
)
def test_times_are_shown_in_utc_with_their_fraction_whatever_the_zone_of_the_machine(
    program: Program, run: Run, tmp_path: Path, zone: str, before: str, after: str
):
    local = tmp_path / "a.parquet"
    for moment in (before, after):
        local.unlink(missing_ok=True)
        duckdb.sql(f"COPY (SELECT 1 AS id, TIMESTAMPTZ '{moment}+00' AS zoned, TIMESTAMP '{moment}' t) TO '{local}'")
        published(run, tmp_path / "f", local)
    for key in ((), ("--key", "id")):
        shown = program("feed", "diff", tmp_path / "f", *key, environment={"TZ": zone})
        assert (shown.returncode, shown.stderr) == (0, "")
        assert (shown.stdout.count(before), shown.stdout.count(after)) == (2, 2)


def test_an_update_without_one_before_it_is_told_as_such(run: Run, written: Written, tmp_path: Path):
    published(run, tmp_path / "f", written("a.csv", "ad\n1\n"))
    refused = run("feed", "diff", tmp_path / "f", code=3).stderr
    assert "has no valid update before 20191201.120000 to compare it with" in refused


def test_an_update_that_is_not_valid_can_be_compared_by_its_name(run: Run, written: Written, tmp_path: Path):
    published(run, tmp_path / "f", written("a.csv", "ad\n1\n"))
    published(run, tmp_path / "f", written("a.csv", "ad\n2\n"))
    run("feed", "invalidate", tmp_path / "f", "--reason", "wrong")
    found = diff(run, tmp_path / "f", "--from", "20191201.120000", "--to", "20191201.120001")
    assert (found["added"], found["removed"]) == (1, 1)
    run("feed", "diff", tmp_path / "f", "--to", "20180101.000000", code=3)
    run("feed", "diff", tmp_path / "f", code=3)  # there is no valid one before


def test_names_that_mean_something_to_duckdb_are_only_names(run: Run, written: Written, tmp_path: Path):
    feed = tmp_path / "f*[a]'"
    published(run, feed, written("a[b]*.csv", 'c0,"surplus","a ""b"""\n1,2,3\n'))
    published(run, feed, written("a[b]*.csv", 'c0,"surplus","a ""b"""\n1,2,4\n'))
    found = diff(run, feed, "--key", "surplus,c0")
    assert found["first_changed"] == [
        {"key": {"surplus": "2", "c0": "1"}, "values": {'a "b"': {"from": "3", "to": "4"}}}
    ]


def test_files_that_are_no_rows_are_told_as_such(run: Run, written: Written, tmp_path: Path):
    for content in ("one", "other"):
        published(run, tmp_path / "f", written("a.txt", content))
        published(run, tmp_path / "g", written("a.parquet", content))
    text = run("feed", "diff", tmp_path / "f", code=1).stderr
    assert "cannot be compared: " in text
    assert "Formats are parquet" in text
    text = run("feed", "diff", tmp_path / "g", code=1).stderr
    assert "cannot be compared" in text
    assert "CREATE TEMP VIEW" not in text


def test_what_cannot_be_compared_is_named_as_it_was_published(run: Run, written: Written, tmp_path: Path):
    for name in ("a.064430", "a.parquet"):
        feed = tmp_path / name
        for content in ("one", "other"):
            published(run, feed, written(name, content))
        message = run("feed", "diff", feed, code=1).stderr
        assert str(feed / "20191201.120000" / name) in message
        assert "feed-diff-" not in message
        assert "000000" not in message.replace("20191201.120000", "")


_rows = st.lists(st.tuples(st.integers(0, 3) | st.none(), st.sampled_from(["x", "y", None])), max_size=8)


@settings(max_examples=40)
@given(before=_rows, after=_rows)
def test_counts_agree_with_comparing_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, before: list[tuple[Any, Any]], after: list[tuple[Any, Any]]
):
    folder = tmp_path_factory.mktemp("diff")
    for name, rows in (("before", before), ("after", after)):
        values = ", ".join(f"({key or 'NULL' if key != 0 else 0}, {value!r})" for key, value in rows)
        source = f"(VALUES {values}) t(k, v)" if rows else "(SELECT 1, 'x') t(k, v) WHERE false"
        query = f"SELECT k::INTEGER AS k, v::VARCHAR AS v FROM {source}".replace("None", "NULL")
        duckdb.sql(f"COPY ({query}) TO '{folder / name}.parquet'")
    sides = [folder / "before.parquet"], [folder / "after.parquet"]

    left = list(before)
    came = [row for row in after if row not in left or left.remove(row)]
    found = diff_rows(*sides, spill=folder / "spill")
    assert (found.added, found.removed) == (len(came), len(left))

    keyed = diff_rows(*sides, key=["k"], limit=100, spill=folder / "spill")
    changed = {key for key, _ in came} & {key for key, _ in left}
    assert keyed.changed == len(changed) == len(keyed.first_changed)
    assert keyed.added == sum(key not in changed for key, _ in came)
    assert keyed.removed == sum(key not in changed for key, _ in left)
    assert {row.key["k"] for row in keyed.first_changed} == changed
