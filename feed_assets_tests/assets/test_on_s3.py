"""The main job in a bucket of a real server: the same program, with another base."""

import os
import re

import pytest
from dagster import serialize_value

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.listing import list_all
from feed_assets.engine.update_files import count_update, write_files
from feed_assets.file_feed import Facts, Feed, claim, publish, require_latest, stage, staged_files
from feed_assets.sources.landing import land
from feed_assets.sources.loading import load_sources
from feed_assets_tests.harness import (
    ADS,
    ALL,
    DAY,
    EFFECTIVENESS,
    ad,
    ads,
    click,
    messages,
)
from feed_assets_tests.listening import family


@pytest.fixture(autouse=True)
def the_secret_is_shown_nowhere(shop_in_a_bucket, session, versitygw, dagster_instance, tmp_path, capfd, caplog):
    """After each test: it looks into everything that the test has left, for the key that it used."""
    caplog.set_level("INFO")
    yield
    context = session.sparkContext._jsc.sc()
    environment = context.statusStore().environmentInfo()  # all that Spark's UI and its REST service know, unredacted
    processes = [" ".join(each.cmdline()) for each in family(os.getpid())]
    logged = [entry for run in dagster_instance.get_runs() for entry in dagster_instance.all_logs(run.run_id)]
    shown = {
        "standard output and error": "".join(capfd.readouterr()),
        "logs": caplog.text,
        "process lists": "\n".join(processes),
        "Spark's UI": "".join(
            each.mkString()
            for each in (environment.sparkProperties(), environment.hadoopProperties(), environment.systemProperties())
        ),
        "Spark's settings": str(session.conf.getAll) + context.hadoopConfiguration().toString(),
        "Dagster's storage": "".join(map(serialize_value, [*dagster_instance.get_runs(), *logged])),
        "records and objects": "".join(
            shop_in_a_bucket.board.read(key).data.decode("latin-1")
            for key in keys(shop_in_a_bucket, "")
            if not key.endswith("/")
        ),
        "the state database": "".join(each.read_bytes().decode("latin-1") for each in tmp_path.glob("state.db*")),
    }
    assert any("java" in each for each in processes)
    assert "fs.s3a.endpoint" in shown["Spark's settings"]
    assert [place for place, text in shown.items() if versitygw.secret_key in text] == []


def keys(shop, prefix):
    return [entry.key for entry in list_all(shop.board, prefix)]


def test_a_day_is_landed_processed_repaired_and_audited_in_a_bucket_and_nothing_else_is_left_there(
    shop_in_a_bucket, deliver, versitygw
):
    shop = shop_in_a_bucket
    deliver("ads", ads(20))
    deliver("clicks", [click("c1", impression="i3")])

    first = shop.run(*ALL)
    assert first.success, messages(first)
    deliver("ads", [ad("late ä%20", f"{DAY} 23:59:59", user="someone else")], "late.csv")
    tick = shop.tick("late_growth")
    assert tick.asked == {DAY: ("ad_effectiveness", "clean_ads")}
    (repaired,) = shop.execute(tick)
    assert repaired.success, messages(repaired)
    deliver("ads", [ad(f"bad{number}", ad=None) for number in range(40)], "bad.csv")
    (spoiled,) = shop.execute(shop.tick("late_growth"))
    assert not spoiled.success

    record = shop.record(EFFECTIVENESS)
    assert (record.state, record.facts.rows.published) == ("published", 1)
    newest = shop.record(ADS)
    assert newest.state == "rejected"
    assert shop.latest(ADS) < newest.update
    for location in (ADS, EFFECTIVENESS):
        named = rf"{location}/{DAY}/\d{{8}}\.\d{{6}}/(_SUCCESS|part-[\w-]+-c000\.\w+\.parquet)"
        assert [key for key in keys(shop, f"{location}/{DAY}/") if not re.fullmatch(named, key)] == []
    name = shop.settings.base.split("/")[2]
    assert versitygw.client().list_multipart_uploads(Bucket=name).get("Uploads", []) == []


def test_what_was_sent_is_kept_in_the_bucket_and_lands_again(shop_in_a_bucket, deliver, session):
    shop = shop_in_a_bucket
    landing = deliver("ads", ads(3))
    shop.board.delete(*keys(shop, "raw/ads/"))

    (source,) = (each for each in load_sources(shop.settings.sources_directory, KINDS) if each.kind == "ads")
    again = land(session, shop.board, source, landing, now=shop.now)

    assert (again.generation, again.landed) == (2, 3)
    assert shop.run("clean_ads").success
    assert shop.record(ADS).facts.rows.published == 3


def test_a_write_that_failed_leaves_neither_files_nor_parts_of_uploads(shop_in_a_bucket, session, versitygw):
    rows = session.range(100_000).repartition(2)
    broken = rows.selectExpr("id", "if(id = 99999, raise_error('no'), id) AS checked")
    uri = f"{shop_in_a_bucket.settings.base}/{ADS}/{DAY}/20191201.000000"

    with pytest.raises(Exception, match="no"):
        write_files(broken, uri)

    name = shop_in_a_bucket.settings.base.split("/")[2]
    assert versitygw.client().list_multipart_uploads(Bucket=name).get("Uploads", []) == []
    assert [key for key in keys(shop_in_a_bucket, f"{ADS}/") if not key.endswith("/")] == []


def test_spark_writes_and_reads_partitions_whose_names_must_be_encoded(shop_in_a_bucket, session):
    feed = Feed(shop_in_a_bucket.board, "by-campaign/v1.0")
    for partition in ("spring|a+b %20é", "k=v&x [1]*{2}", "u\u0308 12:00;,'#~"):
        claimed = claim(feed, partition, now=shop_in_a_bucket.now, owner="test")
        written = write_files(session.range(3).coalesce(1), claimed.uri)
        staged = stage(claimed, staged_files(claimed, written.files), Facts(), now=shop_in_a_bucket.now)
        publish(staged, now=shop_in_a_bucket.now)
        assert count_update(session, require_latest(feed, partition, now=shop_in_a_bucket.now)) == 3
