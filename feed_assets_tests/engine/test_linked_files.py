"""Readers refuse a file that a symbolic link leads out of the base: Spark and DuckDB themselves would follow it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.port import InvalidKeyError, NotFoundError
from feed_assets.engine.fetched_files import fetch_update
from feed_assets.engine.queried_files import local_files
from feed_assets.engine.update_files import count_update, parquet_schema, read_updates
from feed_assets.file_feed import Feed, publish_files, read_file, require_latest
from feed_assets.sources.loading import load_source
from feed_assets.sources.raw import raw_frame, read_set, record_count
from feed_assets_tests.harness import SHOP_ADS, write_sources

NOW = datetime(2019, 12, 1, 12, tzinfo=UTC)
SCHEMA = StructType([StructField("id", LongType())])


def written(spark, folder: Path) -> Path:
    spark.range(1).coalesce(1).write.parquet(folder.as_uri())
    (file,) = folder.glob("*.parquet")
    return file


@pytest.mark.parametrize("linked", ["the only file", "one of many", "over another link", "a folder above"])
def test_no_reader_of_an_update_follows_a_link_out_of_the_base(spark, tmp_path, linked):
    feed = Feed(LocalBlackboard(tmp_path / "base"), "made/v1.0")
    secret = written(spark, tmp_path / "theirs")
    files = [secret.rename(tmp_path / f"theirs/{number}.parquet") for number, secret in enumerate([secret])]
    if linked == "one of many":
        files += [written(spark, tmp_path / f"more{each}").rename(tmp_path / f"m{each}.parquet") for each in range(5)]
    made = publish_files(feed, None, files, now=NOW, owner="me")
    folder = tmp_path / "base/made/v1.0" / made.name
    if linked == "a folder above":
        folder.rename(tmp_path / "moved")
        folder.symlink_to(tmp_path / "moved")
        update = made
    else:
        (folder / "0.parquet").unlink()
        target = files[0]
        if linked == "over another link":
            (tmp_path / "between").symlink_to(target)
            target = tmp_path / "between"
        (folder / "0.parquet").symlink_to(target)
        update = require_latest(feed, now=NOW)  # by the plain rule it is valid

    for read in (
        lambda: read_updates(spark, [update], SCHEMA).collect(),
        lambda: read_updates(spark, [update], SCHEMA, made_elsewhere=True).collect(),
        lambda: count_update(spark, update),
        lambda: parquet_schema(spark, update),
        lambda: fetch_update(update, tmp_path / "fetched"),
        lambda: local_files(update).__enter__(),
        update.uris,
    ):
        with pytest.raises(InvalidKeyError, match=r"is reached over a symbolic link, to .*, and is not read"):
            read()
    with pytest.raises((InvalidKeyError, NotFoundError)):
        read_file(update, update.files[0])


def test_a_link_inside_the_base_is_read_as_before(spark, tmp_path):
    feed = Feed(LocalBlackboard(tmp_path / "base"), "made/v1.0")
    made = publish_files(feed, None, [written(spark, tmp_path / "one")], now=NOW, owner="me")
    (file,) = (tmp_path / "base/made/v1.0" / made.name).glob("*.parquet")
    (tmp_path / "base/kept").mkdir()
    file.rename(tmp_path / "base/kept" / file.name)
    file.symlink_to(tmp_path / "base/kept" / file.name)

    update = require_latest(feed, now=NOW)

    assert [tuple(row) for row in read_updates(spark, [update], SCHEMA).collect()] == [(0,)]
    with local_files(update) as files:
        assert len(files) == 1


def test_raw_files_of_other_receivers_are_not_read_over_a_link_out_of_the_base(spark, tmp_path):
    board = LocalBlackboard(tmp_path / "base")
    (described,) = write_sources(tmp_path / "sources", SHOP_ADS).iterdir()
    source = load_source(described, KINDS)
    hour = tmp_path / "base/raw/ads/shop_ads/2019-11-24/12"
    hour.mkdir(parents=True)
    (hour / "x.parquet").symlink_to(written(spark, tmp_path / "theirs"))
    read = read_set(board, source.key, date(2019, 11, 24))
    assert len(read.files) == 1

    for attempt in (
        lambda: raw_frame(spark, board, source, read).collect(),
        lambda: record_count(spark, board, [read]),
    ):
        with pytest.raises(InvalidKeyError, match=r"12/x\.parquet is reached over a symbolic link"):
            attempt()
