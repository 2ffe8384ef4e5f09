"""Files as partners send them, landed by Spark: odd headers, damaged records, finer times, and too many hours."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.sources.landing import land, land_files
from feed_assets.sources.loading import load_source
from feed_assets.sources.placing import MALFORMED
from feed_assets.sources.raw import raw_days, raw_frame
from feed_assets.sources.source_errors import LandingError
from feed_assets_tests.blackboard.shown import keys
from feed_assets_tests.sources.described import simple

NOW = datetime(2019, 12, 1, tzinfo=UTC)


@pytest.fixture
def board(tmp_path):
    return LocalBlackboard(tmp_path / "base")


@pytest.fixture
def described(tmp_path):
    def load(text="type: csv, header: true, columns: [id, time, ad]", more=""):
        path = tmp_path / "partner.yaml"
        path.write_text(simple(text, more), encoding="utf-8")
        return load_source(path, KINDS)

    return load


@pytest.fixture
def sent(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def rows(spark, board, source):
    raw = raw_days(board, [source.key], date.min, date.max).values()
    return sorted(raw_frame(spark, board, source, *raw).collect(), key=lambda row: row._line)


AT = "2019-11-24 05:00:00"


def test_empty_columns_at_the_end_of_a_header_are_ignored_whether_or_not_lines_have_them(spark, board, described, sent):
    """Excel writes the separators of empty columns into the first lines only."""
    lines = [
        f"1,{AT},a,,",
        f"2,{AT},b",
        f"3,{AT},",
        f"4,{AT},,,",
        f'5,{AT},"c,,",,',
        f'6,{AT},"d","",""',
        f"7,{AT},e,,,,,",
        f"8,{AT}",
        f"9,{AT},f,,note",
        f'10,{AT},"g,""h"",",,',
    ]
    source = described()

    landing = land(spark, board, source, sent("a.csv", "id,time,ad,,\n" + "\n".join(lines)), now=NOW)

    found = rows(spark, board, source)
    sound = {row.id: row.ad for row in found if row._malformed is None}
    assert sound == {"1": "a", "2": "b", "3": None, "4": None, "5": "c,,", "6": "d", "7": "e", "10": 'g,"h",'}
    assert {row._malformed for row in found} - {None} == {lines[7], lines[8]}
    assert (landing.landed, landing.malformed) == (10, 2)


@pytest.mark.parametrize("more", ["", ", quote: ''", ", escape: '\\'"])
def test_a_nul_byte_makes_its_record_malformed_and_no_other(spark, board, described, sent, more):
    source = described(f"type: csv, header: true, columns: [id, time, ad]{more}")
    lines = [f"1,{AT},a", f"2,{AT},\0", f"\x003,{AT},b", f"4,{AT},c\0d", "\0" * 9, f"6,{AT},e"]

    landing = land(spark, board, source, sent("a.csv", "id,time,ad\n" + "\n".join(lines)), now=NOW)

    found = rows(spark, board, source)
    assert [row.id for row in found if row._malformed is None] == ["1", "6"]
    assert [row._malformed for row in found if row._malformed] == [lines[1], lines[2], lines[3]]
    assert landing.quarantined == {MALFORMED: 1}
    assert landing.read == 6


def test_times_in_nanoseconds_are_read_and_cut_off_to_microseconds(spark, board, described, tmp_path):
    columns = "id: string, time: timestamp, ad: string, local: timestamp_ntz, number: bigint"
    source = described(f"type: parquet, columns: {{{columns}}}")
    nanos = 1_574_571_600_123_456_789
    table = pa.table(
        {
            "id": ["1", "2", "3"],
            "time": pa.array([nanos, None, nanos + 1], pa.timestamp("ns", "UTC")),
            "ad": ["a", "b", "c"],
            "local": pa.array([-1, nanos, None], pa.timestamp("ns")),
            "number": pa.array([nanos, 1, None], pa.int64()),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")

    landing = land(spark, board, source, tmp_path / "a.parquet", now=NOW)

    first, third = rows(spark, board, source)
    assert first.time == datetime(2019, 11, 24, 5, 0, 0, 123456)  # noqa: DTZ001 - as Spark shows it in UTC
    assert (first.local, first.number, third.local) == (datetime(1969, 12, 31, 23, 59, 59, 999999), nanos, None)  # noqa: DTZ001
    assert landing.quarantined == {"no usable time": 1}
    assert [hint.partition(";")[0] for hint in landing.hints] == ["time has nanoseconds", "local has nanoseconds"]


def test_a_text_that_is_not_utf_8_lands_with_a_hint_and_as_it_was_meant_once_it_is_described(
    spark, board, described, sent
):
    file = sent("a.csv", f"id,time,ad\n1,{AT},é\n2,{AT},e\n".encode("cp1252"))
    first = land(spark, board, described(), file, now=NOW)
    (hint,) = first.hints
    assert (first.landed, first.malformed) == (2, 1)
    assert "encoding: cp1252" in hint

    source = described("type: csv, header: true, columns: [id, time, ad], encoding: cp1252")
    again = land(spark, board, source, file, now=NOW, again=True)

    assert (again.malformed, again.hints, [row.ad for row in rows(spark, board, source)]) == (0, (), ["é", "e"])


def hourly(count, *, each=1):
    start = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
    times = (datetime.fromtimestamp(start + 3600 * hour, UTC) for hour in range(count) for _ in range(each))
    return "id,time,ad\n" + "".join(f"{number},{time:%F %T},a\n" for number, time in enumerate(times))


def test_a_file_of_more_hours_than_its_source_takes_is_held_back_before_an_hour_is_written_and_others_land(
    spark, board, described, sent
):
    source = described(more="most_hours: 48")
    files = [sent("wrong.csv", hourly(300)), sent("right.csv", f"id,time,ad\n1,{AT},a\n"), sent("two.csv", hourly(48))]

    wrong, right, two = land_files(spark, board, source, files, now=NOW)

    assert isinstance(wrong, LandingError)
    message = str(wrong)
    assert "wrong.csv has records in at least " in message
    assert "from 2000-01-01/0" in message
    assert "takes 48 of one file. Is `event_time` in a wrong unit, such as milliseconds, or another column" in message
    assert f"`feed-assets land --any-hours {source.key} FILE` lands the file" in message
    assert (right.landed, two.landed, len(two.partitions)) == (1, 48, 48)
    assert sum("/landed-" in key for key in keys(board)) == 1 + 48
    assert not any(key.startswith("raw/.staging/") for key in keys(board))


def test_hours_that_no_sample_shows_are_counted_once_they_are_written_and_leave_nothing(
    spark, board, described, sent, tmp_path
):
    source = described(more="most_hours: 24")
    few = hourly(24, each=300) + hourly(30).removeprefix("id,time,ad\n")

    with pytest.raises(LandingError, match="has records in 30 hours, from 2000-01-01/00 to 2000-01-02/05"):
        land(spark, board, source, sent("a.csv", few), now=NOW)

    assert [path for path in (tmp_path / "base").rglob("*") if path.is_file()] == []


def test_a_file_that_a_person_let_land_may_land_again_with_as_many_hours(spark, board, described, sent):
    source = described(more="most_hours: 24")
    file = sent("a.csv", hourly(60))

    landed = land(spark, board, source, file, now=NOW, any_hours=True)
    corrected = described("type: csv, header: true, columns: [id, time, ad]", more="most_hours: 24\ntime_zone: UTC")
    again = land(spark, board, corrected.model_copy(update={"null_tokens": ("none",)}), landed, now=NOW, again=True)

    assert (landed.landed, again.landed, again.generation) == (60, 60, 2)
    assert Counter(len(each.partitions) for each in (landed, again)) == {60: 2}
