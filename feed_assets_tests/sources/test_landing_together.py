"""Several files landed at once: they share Spark jobs, and nothing else."""

import gzip
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.sources.landing import TOGETHER, land, land_files
from feed_assets.sources.ledger import current_landings
from feed_assets.sources.loading import load_source
from feed_assets.sources.placing import NO_TIME
from feed_assets.sources.raw import raw_days, raw_frame
from feed_assets.sources.source_errors import LandingError
from feed_assets.sources.spec import Source

NOW = datetime(2019, 12, 1, tzinfo=UTC)
SOURCE = load_source(Path(__file__).parent / "partners" / "portal_ads.yaml", KINDS)
HEADER = "impression,time,ad,campaign,user,placement,cost\n"


@pytest.fixture
def blackboard(tmp_path):
    return LocalBlackboard(tmp_path / "blackboard")


@pytest.fixture
def sent(tmp_path):
    """A log of a partner with impressions of these names, at 05:00 on 24 November."""

    def write(name, *impressions, start=HEADER, end=""):
        rows = "".join(f"{each},2019-11-24 05:00:00,a,c,u,1,0.1\n" for each in impressions)
        content = (start + rows + end).encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


def jobs_of(spark, group, work):
    spark.sparkContext.setJobGroup(group, "landing several files")
    try:
        result = work()
    finally:
        spark.sparkContext.setJobGroup("", "")
    return result, len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


def places(spark, blackboard, source=SOURCE):
    """File, line and impression of each record."""
    found = raw_days(blackboard, [source.key], date.min, date.max)
    frames = (raw_frame(spark, blackboard, source, raw) for raw in found.values())
    return sorted((row["_file"], row["_line"], row["impression"]) for frame in frames for row in frame.collect())


def staged(blackboard):
    return [entry.key for entry in blackboard.page("raw/.staging/").entries]


def test_files_of_the_same_columns_share_the_spark_jobs_of_one_file(spark, blackboard, sent, tmp_path):
    alone = LocalBlackboard(tmp_path / "alone")
    bad = "x,never,a,c,u,1,0.1\n"
    files = [sent(f"{number}.csv", f"i{number}", end=bad * number) for number in range(5)]
    _, jobs_of_one = jobs_of(spark, "one", lambda: land(spark, alone, SOURCE, files[4], now=NOW))

    landings, jobs = jobs_of(spark, "five", lambda: list(land_files(spark, blackboard, SOURCE, files, now=NOW)))

    assert jobs == jobs_of_one
    assert [(each.file, each.read, each.landed, each.quarantined) for each in landings] == [
        (f"{number}.csv", 1 + number, 1, {NO_TIME: number} if number else {}) for number in range(5)
    ]
    assert places(spark, blackboard) == [(f"{number}.csv", 2, f"i{number}") for number in range(5)]
    for landing in landings[1:]:
        lines = blackboard.read(landing.quarantine_key).data.decode().splitlines()
        assert len(lines) == landing.quarantined[NO_TIME]
        assert all(f'"file":"{landing.file}"' in line for line in lines)
    assert staged(blackboard) == []


def test_each_file_keeps_its_own_lines_header_columns_and_packing(spark, blackboard, sent):
    wider = "cost,impression,time,ad,campaign,user,placement,note\n"
    files = [
        sent("plain.csv", "a", "b"),
        sent("packed.csv.gz", "c"),
        sent("blank lines.csv", "d", start=f"\n\n{HEADER}\n"),
        sent("wider.csv", start=wider, end="0.1,e,2019-11-24 05:00:00,a,c,u,1,hello\n"),
        sent("empty.csv"),
    ]

    landings = list(land_files(spark, blackboard, SOURCE, files, now=NOW))

    assert [(each.read, each.landed) for each in landings] == [(2, 2), (1, 1), (1, 1), (1, 1), (0, 0)]
    assert places(spark, blackboard) == [
        ("blank lines.csv", 5, "d"),
        ("packed.csv.gz", 2, "c"),
        ("plain.csv", 2, "a"),
        ("plain.csv", 3, "b"),
        ("wider.csv", 2, "e"),
    ]


def test_a_limit_of_sparks_partitions_mixes_no_lines_of_two_files(spark, blackboard, sent, monkeypatch):
    make = SparkSession.newSession

    def with_defaults(session):
        """A session as with this line in `spark-defaults.conf`."""
        made = make(session)
        made.conf.set("spark.sql.files.maxPartitionNum", "1")
        return made

    monkeypatch.setattr(SparkSession, "newSession", with_defaults)

    landings = list(land_files(spark, blackboard, SOURCE, [sent("1.csv", "a", "b"), sent("2.csv", "c")], now=NOW))

    assert [(each.read, each.quarantined) for each in landings] == [(2, {}), (1, {})]
    assert places(spark, blackboard) == [("1.csv", 2, "a"), ("1.csv", 3, "b"), ("2.csv", 2, "c")]


def test_a_file_that_cannot_land_holds_up_no_other(spark, blackboard, sent, tmp_path):
    files = [
        sent("first.csv", "a"),
        tmp_path / "missing.csv",
        sent("header.csv", start="impression,ad\n"),
        sent("same.csv", start=HEADER, end="a,2019-11-24 05:00:00,a,c,u,1,0.1\n"),
        sent("last.csv", "b"),
    ]

    first, missing, header, same, last = land_files(spark, blackboard, SOURCE, files, now=NOW)

    assert (first.landed, last.landed) == (1, 1)
    assert (same.file, same.already_landed) == ("first.csv", True)
    assert isinstance(missing, LandingError)
    assert isinstance(header, LandingError)
    assert "header.csv:1: the header lacks time, campaign" in str(header)
    assert sorted(each.file for each in current_landings(blackboard, SOURCE.key)) == ["first.csv", "last.csv"]
    assert staged(blackboard) == []


def test_parquet_that_breaks_within_the_job_of_several_is_the_only_one_refused(spark, blackboard, tmp_path):
    names = HEADER.strip().split(",")
    columns = dict.fromkeys(names, "string")
    source = Source.of({**SOURCE.model_dump(), "format": {"type": "parquet", "columns": columns}}, KINDS)
    files = []
    for number in range(3):
        columns = {name: ["x"] for name in names} | {"impression": [f"i{number}"], "time": ["2019-11-24 05:00:00"]}
        files.append(tmp_path / f"{number}.parquet")
        pq.write_table(pa.table(columns), files[-1], compression="NONE", use_dictionary=False)
    content = bytearray(files[1].read_bytes())
    content[4:40] = b"\xff" * 36
    files[1].write_bytes(content)

    first, broken, last = land_files(spark, blackboard, source, files, now=NOW)

    assert (first.landed, last.landed) == (1, 1)
    assert isinstance(broken, Exception)
    assert [(file, impression) for file, _, impression in places(spark, blackboard, source)] == [
        ("0.parquet", "i0"),
        ("2.parquet", "i2"),
    ]
    assert staged(blackboard) == []


def test_more_files_than_share_a_job_land_in_order_and_land_again_from_what_was_kept(spark, blackboard, sent):
    files = [sent(f"{number:02}.csv", f"i{number}") for number in range(TOGETHER + 2)]
    changed = SOURCE.model_copy(update={"null_tokens": ("none",)})
    begun = []

    landings, jobs = jobs_of(
        spark,
        "many",
        lambda: list(
            land_files(
                spark, blackboard, SOURCE, files, now=NOW, begin=lambda step, these: begun.append((step, len(these)))
            )
        ),
    )
    again = list(land_files(spark, blackboard, changed, landings, now=NOW))

    assert jobs <= 2 * 2
    assert [each.file for each in landings] == [file.name for file in files]
    steps = [("reading", 1), ("placing the records of", TOGETHER), ("copying the records of", 1)]
    steps_of_two = [("reading", 1), ("placing the records of", 2), ("copying the records of", 1)]
    assert list(dict.fromkeys(begun)) == list(dict.fromkeys([*steps, *steps_of_two]))
    assert [step for step, _ in begun].count("reading") == len(files)
    assert {(each.file, each.generation, each.description) for each in again} == {
        (file.name, 2, changed.landing_digest) for file in files
    }
    assert len(places(spark, blackboard)) == len(files)
