"""Events as `canonical` gives them, written down briefly: a test says only what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from feed_assets.ads.schemas import CLEAN_ADS, CLEAN_CLICKS

DAY = date(2019, 11, 27)
MIDNIGHT = datetime(2019, 11, 27, tzinfo=UTC)
NOON = MIDNIGHT + timedelta(hours=12)
SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)
HOUR = timedelta(hours=1)
ONE_DAY = timedelta(days=1)
FEW = 100
"""How many rows a frame has at least that several tasks read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ad:
    """An impression; the fields after `source` say where it came from."""

    impression_id: str | None = "i"
    event_time: datetime | None = NOON
    ad_id: str | None = "a"
    campaign_id: str | None = "campaign"
    user_id: str | None = "u"
    placement_id: str | None = None
    cost: Decimal | None = None
    source: str = "partner"
    file: str | None = "log.csv"
    line: int | None = 1
    malformed: str | None = None
    raw: str | None = '{"field":"value"}'
    unparsable: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Click:
    """A click; the fields after `source` say where it came from."""

    click_id: str | None = "k"
    event_time: datetime | None = NOON
    impression_id: str | None = None
    ad_id: str | None = "a"
    user_id: str | None = "u"
    source: str = "partner"
    file: str | None = "log.csv"
    line: int | None = 1
    malformed: str | None = None
    raw: str | None = '{"field":"value"}'
    unparsable: tuple[str, ...] | None = None


PROVENANCE = {
    "file": StructField("_file", StringType()),
    "line": StructField("_line", LongType()),
    "malformed": StructField("_malformed", StringType()),
    "raw": StructField("_raw", StringType()),
    "unparsable": StructField("_unparsable", ArrayType(StringType())),
}


def frame(spark: SparkSession, values: Sequence[tuple[Any, ...]], schema: StructType) -> DataFrame:
    """A frame of these rows; few are read by one task, as a small day's are, so that nothing is shuffled."""
    whole = spark.createDataFrame(values, schema)
    return whole.coalesce(1) if len(values) < FEW else whole


def unjudged_ads(spark: SparkSession, ads: Iterable[Ad]) -> DataFrame:
    """The frame that `canonical` would give."""
    return _unjudged(spark, list(ads), CLEAN_ADS)


def unjudged_clicks(spark: SparkSession, clicks: Iterable[Click]) -> DataFrame:
    """The frame that `canonical` would give."""
    return _unjudged(spark, list(clicks), CLEAN_CLICKS)


def clean_ads(spark: SparkSession, ads: Iterable[Ad]) -> DataFrame:
    """The frame that `clean_ads` publishes."""
    return _clean(spark, list(ads), CLEAN_ADS)


def clean_clicks(spark: SparkSession, clicks: Iterable[Click]) -> DataFrame:
    """The frame that `clean_clicks` publishes."""
    return _clean(spark, list(clicks), CLEAN_CLICKS)


def described(schema: StructType) -> list[tuple[Any, ...]]:
    """Names, types and comments, in their order. Whether there is a NULL is not for Spark's types to say."""
    return [(field.name, field.dataType, field.metadata) for field in schema]


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows as dictionaries, times aware and in UTC whatever the machine's zone."""
    return [{name: _aware(value) for name, value in row.asDict().items()} for row in frame.collect()]


def _unjudged(spark: SparkSession, events: Sequence[Ad | Click], schema: StructType) -> DataFrame:
    nullable = [StructField(field.name, field.dataType) for field in schema]
    values = [tuple(asdict(event).values()) for event in events]
    return frame(spark, values, StructType([*nullable, *PROVENANCE.values()]))


def _clean(spark: SparkSession, events: Sequence[Ad | Click], schema: StructType) -> DataFrame:
    names = [field.name for field in fields(events[0]) if field.name in schema.names] if events else []
    return frame(spark, [tuple(getattr(event, name) for name in names) for event in events], schema)


def _aware(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
