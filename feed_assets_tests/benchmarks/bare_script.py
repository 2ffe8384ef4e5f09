"""What the pipelines are measured against: the same transforms in a plain Spark script, without feed or Dagster.

Here: reading raw files, calling the transforms, writing directories. Not here: anything that the project adds to that:
read sets, accounting, staging, manifests, records, checks, pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession

from feed_assets.ads.cleaning import judge_ads, judge_clicks
from feed_assets.ads.effectiveness import ads_with_shared_clicks
from feed_assets.ads.schemas import AD_CATALOG, AD_EFFECTIVENESS, CLEAN_ADS, CLEAN_CLICKS
from feed_assets.engine.judged_rows import (
    PLACES_QUARANTINED,
    places_quarantined,
    published_rows,
    quarantined_rows,
    with_places,
)
from feed_assets.sources.canonical import canonical
from feed_assets.sources.raw import RECORD_COLUMNS
from feed_assets.sources.records import with_nulls
from feed_assets.sources.spec import Source


def run(spark: SparkSession, base: Path, sources: tuple[Source, Source], day: date, output: Path) -> None:
    """Clean ads, clean clicks and effectiveness of a day, each in a directory of its own below `output`."""
    ads, clicks = sources
    _clean(spark, base, ads, day, judge_ads, output / "ads", output / "ads-quarantine")
    _clean(spark, base, clicks, day, judge_clicks, output / "clicks", output / "clicks-quarantine")
    result = ads_with_shared_clicks(
        spark.read.schema(CLEAN_ADS).parquet(str(output / "ads")),
        spark.read.schema(CLEAN_CLICKS).parquet(str(output / "clicks")),
        spark.createDataFrame([], AD_CATALOG),
        day=day,
    ).select(AD_EFFECTIVENESS.names)
    result.write.parquet(str(output / "effectiveness"))


def _clean(
    spark: SparkSession,
    base: Path,
    source: Source,
    day: date,
    judge: Callable[..., DataFrame],
    published: Path,
    quarantine: Path,
) -> None:
    columns = {**source.format.declared, **RECORD_COLUMNS}
    schema = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    files = sorted(map(str, (base / "raw" / source.key / str(day)).rglob("*.parquet")))
    records = with_nulls(spark.read.schema(schema).parquet(*files), source)
    judged = judge(canonical(records, source), day=day)
    places = Observation()
    published_rows(with_places(judged).observe(places, places_quarantined(spark))).write.parquet(str(published))
    quarantined_rows(judged, places.get[PLACES_QUARANTINED]).write.json(str(quarantine))
