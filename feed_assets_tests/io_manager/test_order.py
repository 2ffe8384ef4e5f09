"""Two runs of one partition at a time: the one that read newer inputs wins, whichever is written last."""

from datetime import timedelta

import dagster as dg
import pytest
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import LongType, StringType, StructField, StructType

from feed_assets.ads.schemas import KINDS
from feed_assets.assets.external import raw_logs
from feed_assets.blackboard.port import UnavailableError
from feed_assets.checks import audit, not_empty
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.file_feed import Policy, history, plan
from feed_assets.partitions.days import daily, hourly
from feed_assets.sources.loading import load_sources
from feed_assets_tests.harness import DAY, Interposed, ads, messages, using_board

IDS = "ids/v1.0"
SCHEMA = StructType([StructField("id", StringType()), StructField("n", LongType())])


def ids(shop, during, *, audited):
    """The ids of the day's ads; `during` is called while the first run computes, when it has its inputs."""
    source = next(source for source in load_sources(shop.settings.sources_directory, KINDS) if source.kind == "ads")
    raw = raw_logs(source, hourly(shop.settings))
    runs = []

    @dg.asset(
        ins={"records": dg.AssetIn(raw.key, input_manager_key="file_feed")},
        partitions_def=daily(shop.settings),
        io_manager_key="file_feed",
        metadata=feed_metadata(IDS, SCHEMA, audited=audited),
    )
    def ids(context: dg.AssetExecutionContext, records: DataFrame) -> DataFrame:
        runs.append(context.run_id)
        if len(runs) == 1:
            during()
        return records.select("id", functions.lit(len(runs)).cast("long").alias("n"))

    return shop.with_assets(raw, ids, checks=[audit(ids, [not_empty()])] if audited else [])


@pytest.mark.parametrize("audited", [False, True])
def test_a_run_that_began_on_older_inputs_does_not_overtake_one_that_began_on_newer_ones(shop, audited):
    shop.land(ads(2))
    whole = []

    def other_run():
        shop.land(ads(3, start=2), name="late")
        whole.append(installation.run("ids"))

    installation = ids(shop, other_run, audited=audited)

    slow = installation.run("ids")

    assert slow.success, messages(slow)
    assert whole[0].success, messages(whole[0])
    newer, older = history(shop.feed(IDS), DAY, now=shop.now)
    assert shop.latest(IDS) == newer.name > older.name
    assert (older.state, older.latest) == ("valid", False)
    assert [row["n"] for row in shop.rows(IDS)] == [2] * 5
    event = shop.instance.get_latest_materialization_event(dg.AssetKey("ids")).asset_materialization
    assert event.tags["dagster/data_version"] == newer.name
    if audited:
        assert event.metadata["update"].value == newer.name
    else:
        assert event.metadata["update"].value == older.name
        assert event.metadata["state"].value == f"history: {newer.name} is in force"


def test_a_step_that_fails_after_its_claim_claims_anew_when_it_is_tried_again(shop):
    shop.land(ads(2))
    failures = ["once"]

    def fail(operation, key):
        if operation == "create" and key.startswith(f"{IDS}/.feed/records/") and failures:
            failures.pop()
            message = "503 Slow Down"
            raise UnavailableError(message)

    installation = ids(using_board(shop, Interposed(shop.board, fail)), lambda: None, audited=False)

    result = installation.run("ids")

    assert result.success, messages(result)
    assert [event.event_type_value for event in result.all_events].count("STEP_UP_FOR_RETRY") == 1
    claims = sorted(path.name for path in (shop.base / IDS / ".feed/claims" / DAY).iterdir())
    assert len(claims) == 2
    assert shop.latest(IDS) == claims[-1]
    # What is left of the first attempt is for retention.
    long_ago = Policy(keep=1, younger_than=timedelta(), longest_write=timedelta(hours=6))
    (removal,) = plan(shop.feed(IDS), long_ago, now=shop.now + timedelta(days=1))
    assert removal.update == claims[0]
