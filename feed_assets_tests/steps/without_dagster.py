"""A program without Dagster: it lands ads, cleans them, audits them, counts them, and does it again with late ads.

Here: the whole way through the public interfaces, printed line by line. The test beside it says what has to come out.
Arguments: a directory to work in, and the description of the shop's ads.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from feed_assets.ads.cleaning import judge_ads
from feed_assets.ads.schemas import ADS, KINDS
from feed_assets.blackboard.location import open_blackboard
from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.engine.java import ensure_java
from feed_assets.engine.session import spark_config
from feed_assets.file_feed import Column
from feed_assets.quality.column_rules import in_range
from feed_assets.quality.row_rules import rows_accounted
from feed_assets.quality.subject import Tolerance
from feed_assets.sources.canonical import canonical
from feed_assets.sources.landing import land
from feed_assets.sources.loading import load_source
from feed_assets.steps.audit import audit_output
from feed_assets.steps.run import Output, Run
from feed_assets.steps.step import MissingUpdateError, Step

DAY = "2019-11-24"
START = datetime(2019, 11, 24, tzinfo=UTC)
WINDOW = START, START + timedelta(days=1)
HOURS = [f"{DAY}-{hour:02}:00" for hour in range(24)]
HEADER = "id,time,ad,campaign,user,place,cost\n"

base = Path(sys.argv[2])
source = load_source(Path(sys.argv[3]), KINDS)
board = open_blackboard(str(base / "blackboard"))
ensure_java()
spark = SparkSession.builder.config(map=spark_config("local[2]")).getOrCreate()

clean = FeedDeclaration("clean-ads/v1.0", ADS.schema, audited=True)
counts = FeedDeclaration("ad-count/v1.0", (Column(name="ads", type="bigint", nullable=False, description=""),))
CLEAN, COUNTS = Output(clean, DAY, WINDOW), Output(counts, DAY, WINDOW)


def run(run_id: str, hour: int) -> Run:
    """A run at an hour of the day after."""
    moment = WINDOW[1] + timedelta(hours=hour)
    return Run(run_id, run_id, board, lambda: spark, lambda: moment, logging.getLogger(__name__))


def receive(name: str, *lines: str) -> None:
    """Land what the shop sends."""
    file = base / name
    file.write_text(HEADER + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    land(spark, board, source, file, now=WINDOW[1])


def make_clean(made_by: Run) -> str:
    """Clean the day, and let its expectations decide; what the audit came to."""
    step = Step.begin(made_by, [CLEAN])
    records = step.read_raw(source, HOURS).frame()
    staged = step.stage(CLEAN.place, judge_ads(canonical(records, source), day=date.fromisoformat(DAY)))
    expectations = [rows_accounted(), in_range("cost", at_most=1)]
    tolerance = Tolerance(quarantined_share=0.5, usual_rows_factor=2, recent=7)
    audited = audit_output(made_by, CLEAN, expectations, before=[], tolerance=tolerance)
    rows = staged.record.facts.rows
    return f"read {rows.read}, published {rows.published}, quarantined {rows.quarantined}. {audited.done}"


def make_count(made_by: Run) -> str:
    """Count the clean ads, and publish without an audit; what readers see afterwards."""
    step = Step.begin(made_by, [COUNTS])
    ads = step.read_feed(clean, [DAY]).frame()
    step.publish(step.stage(COUNTS.place, ads.groupBy().agg({"*": "count"}).toDF("ads")))
    counted = Step.begin(made_by, []).read_feed(counts, [DAY]).frame()
    return f"readers count {counted.first()['ads']} ads"


try:
    make_count(run("too-early", hour=0))
except MissingUpdateError as error:
    print(str(error).partition(". ")[0])
NOON = f"{DAY} 12:00:00"
receive("first.csv", f"i1,{NOON},a1,c1,u1,top,0.5", f"i2,{NOON},a1,c1,u2,top,0.5", f"i3,{NOON},,c1,u3,top,0.5")
print(make_clean(run("first", hour=1)))
print(make_count(run("second", hour=2)))
receive("late.csv", f"i4,{NOON},a1,c1,u4,top,7.5")
print(make_clean(run("third", hour=3)))
print(make_count(run("fourth", hour=4)))
