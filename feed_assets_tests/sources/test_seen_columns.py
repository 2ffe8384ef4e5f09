"""What is seen of the columns of a file while it is read: unknown names by records, and columns without values."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.receiving.rejections import marked, unmarked
from feed_assets.sources import seen_columns
from feed_assets.sources.loading import load_sources
from feed_assets.sources.partner_file import inspect
from feed_assets.sources.seen_columns import MOST_NAMES, SeenColumns
from feed_assets_tests.harness import SHOP_ADS, write_sources

CSV = "{type: csv, header: true, columns: [id, time, ad, campaign, user, place, cost]}"
FIELDS = {"id": "i1", "time": "2019-11-24 12:00:00", "ad": "a", "campaign": "c", "user": "u", "place": "p", "cost": "1"}


@pytest.fixture
def seen(tmp_path):
    """What is seen of a file with this content, of a source with this format."""

    def look(content, format_=CSV, *, name="x.csv"):
        (source,) = load_sources(write_sources(tmp_path / "sources", SHOP_ADS.replace(CSV, format_)), KINDS)
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return inspect(file, source, tmp_path).seen

    return look


def json_lines(*records):
    return "".join(f"{json.dumps(each)}\n" for each in records)


JSON = CSV.replace("csv, header: true", "jsonl")


def test_each_unknown_key_is_counted_and_each_known_one_without_a_value_named(seen):
    without = {**FIELDS, "cost": "", "place": None}
    lines = json_lines(without, {**without, "country": "DE"}, {**without, "country": None, "x": {"y": 1}}, [1], "text")

    assert seen(lines, JSON, name="x.jsonl") == SeenColumns(3, {"country": 2, "x": 1}, ("cost", "place"))


def test_a_packed_file_without_a_last_line_feed_is_counted_too(seen):
    content = gzip.compress(json_lines({**FIELDS, "new": 1}).rstrip().encode())
    assert seen(content, JSON, name="x.jsonl.gz") == SeenColumns(1, {"new": 1}, ())


@pytest.mark.parametrize("mark", ["segment 00-17", "resubmitted 00-17.jsonl:3"])
def test_the_mark_of_pushed_and_of_corrected_records_is_no_key_of_the_partner(seen, mark):
    line = marked(mark, json_lines(FIELDS).encode()).decode()
    assert seen(line, JSON, name="x.jsonl") == SeenColumns(1)
    assert unmarked(line) == json_lines(FIELDS)


def test_names_are_bounded_in_number_and_length(seen):
    many = {**FIELDS, **{f"{number:03}{'x' * 1000}": 1 for number in range(300)}}
    found = seen(json_lines(many, many), JSON, name="x.jsonl")
    assert len(found.unknown) == MOST_NAMES
    assert {len(name) for name in found.unknown} == {seen_columns.LONGEST_NAME}


def test_of_a_large_file_of_json_one_chunk_in_sixteen_is_looked_at(seen, monkeypatch):
    monkeypatch.setattr(seen_columns, "WHOLE_BYTES", 2**20)
    line = json_lines({**FIELDS, "new": "y" * 1000})
    records = 40 * 2**20 // len(line)
    found = seen(line * records, JSON, name="x.jsonl")
    assert 2 * 2**20 < found.looked * len(line) < 5 * 2**20
    assert found.unknown == {"new": found.looked}


def test_a_header_names_the_columns_and_the_records_their_values(seen):
    header = ",".join([*FIELDS, "country"])
    lines = ["i1,2019-11-24 12:00:00,a,,null,p,1,DE", "i2,2019-11-24 12:00:00,a,,,p,1,DE"]
    assert seen("\n".join([header, *lines, ""])) == SeenColumns(2, {"country": 2}, ("campaign", "user"))


def test_a_source_that_names_no_columns_knows_those_that_its_expressions_use(seen):
    header = ",".join([*FIELDS, "country"])
    content = f"{header}\ni1,2019-11-24 12:00:00,a,c,u,p,1,DE\n"
    assert seen(content, "{type: csv, header: true}") == SeenColumns(1, {"country": 1}, ())


def test_lines_without_a_header_have_the_columns_of_the_description(seen):
    lines = "i1,2019-11-24 12:00:00,a,c,u,p,\n"
    assert seen(lines, CSV.replace("header: true", "header: false")) == SeenColumns(1, {}, ("cost",))


def test_the_footer_of_parquet_says_both(seen, tmp_path):
    rows = {name: [value] * 3 for name, value in FIELDS.items()} | {
        "user": pa.nulls(3, pa.string()),
        "extra": [1, 2, 3],
    }
    pq.write_table(pa.table(rows), tmp_path / "made.parquet")
    format_ = "{type: parquet, columns: {" + ", ".join(f"{name}: string" for name in [*FIELDS]) + "}}"
    found = seen((tmp_path / "made.parquet").read_bytes(), format_, name="x.parquet")
    assert found == SeenColumns(3, {"extra": 3}, ("user",))
