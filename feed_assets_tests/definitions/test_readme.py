"""What the README shows works as it is shown."""

import re
import subprocess
import sys
from pathlib import Path

import dagster as dg
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import LongType, StringType, StructField, StructType

from feed_assets import checks
from feed_assets.ads import KINDS
from feed_assets.io_manager import feed_metadata
from feed_assets.partitions import daily
from feed_assets.sources import load_source
from feed_assets.sources.expressions import check_expressions, event_time
from feed_assets_tests.harness import ads, failed_checks, messages

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _block(language: str, containing: str) -> str:
    blocks = re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)
    (block,) = [each for each in blocks if containing in each]
    return block


def test_the_source_it_shows_is_one_that_loads_and_that_spark_takes(spark, tmp_path):
    path = tmp_path / "exchange_ads.yaml"
    path.write_text(_block("yaml", "name: exchange_ads"), encoding="utf-8")

    source = load_source(path, KINDS)
    check_expressions(spark, source)
    records = spark.createDataFrame([("20131021192300738",)], "ts string")
    (read,) = records.select(event_time(records, source).cast("string")).first()

    assert source.key == "ads/exchange_ads"
    assert read == "2013-10-21 17:23:00.738"


def test_the_asset_and_the_audit_it_shows_run(shop):
    shop.land(ads(3))
    assert shop.run("clean_ads").success
    schema = StructType([StructField("user_id", StringType()), StructField("ads", LongType())])
    names = {
        "dg": dg,
        "checks": checks,
        "DataFrame": DataFrame,
        "feed_metadata": feed_metadata,
        "days": daily(shop.settings),
        "SCHEMA": schema,
        "count_ads_by_user": lambda shown: shown.groupBy("user_id").agg(functions.count("*").alias("ads")),
    }
    exec(_block("python", "def ads_by_user"), names)
    exec(_block("python", "ads_by_user_audit"), names)
    mine = shop.with_assets(*shop.definitions.assets, names["ads_by_user"], checks=[names["ads_by_user_audit"]])

    result = mine.run("ads_by_user")

    assert result.success, messages(result)
    assert failed_checks(result) == []
    assert len(mine.rows("ads-by-user/v1.0")) == 3


def test_every_make_target_it_names_exists():
    named = set(re.findall(r"make (\w+)", README))
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert named <= {line.split("\t")[0] for line in listed.splitlines()}


def test_every_picture_and_page_it_links_to_is_there():
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target).exists(), target


def test_imports_point_down_the_rooms():
    linter = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([linter], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
