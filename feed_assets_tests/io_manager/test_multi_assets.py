"""Several feeds of one step: each with the lineage, its own claim, and its own audit."""

import dagster as dg
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import LongType, StringType, StructField, StructType

from feed_assets import checks
from feed_assets.ads.schemas import KINDS
from feed_assets.assets.external import raw_logs
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.partitions.days import daily, hourly
from feed_assets.sources.loading import load_sources
from feed_assets_tests.harness import DAY, ads, failed_checks, messages

SCHEMA = StructType([StructField("id", StringType()), StructField("n", LongType())])


def split(shop):
    """Two audited feeds, `even` and `odd`, of one source in one step; an id that is 3 is odd."""
    source = next(source for source in load_sources(shop.settings.sources_directory, KINDS) if source.kind == "ads")
    raw = raw_logs(source, hourly(shop.settings))

    @dg.multi_asset(
        ins={"records": dg.AssetIn(raw.key, input_manager_key="file_feed")},
        outs={
            name: dg.AssetOut(
                io_manager_key="file_feed",
                is_required=False,
                metadata=feed_metadata(f"{name}/v1.0", SCHEMA, audited=True),
            )
            for name in ("even", "odd")
        },
        partitions_def=daily(shop.settings),
        can_subset=True,
    )
    def halves(context: dg.AssetExecutionContext, records: DataFrame):
        numbered = records.select("id", functions.expr("int(substr(id, 2))").cast("long").alias("n"))
        for rest, name in enumerate(("even", "odd")):
            if name in context.op_execution_context.selected_output_names:
                yield dg.Output(numbered.where(f"n % 2 = {rest}"), output_name=name)

    audits = [
        checks.audit(halves, [checks.not_empty()], key="even"),
        checks.audit(halves, [checks.not_empty(), checks.in_range("n", at_most=1)], key="odd"),
    ]
    return shop.with_assets(raw, halves, checks=audits)


def test_every_output_has_the_lineage_and_its_own_audit(shop):
    shop.land(ads(4))
    halves = split(shop)

    result = halves.run("even", "odd")

    assert failed_checks(result) == ["in_range_n"]
    even, odd = halves.record("even/v1.0"), halves.record("odd/v1.0")
    assert (even.state, odd.state) == ("published", "rejected")
    assert even.facts.inputs == odd.facts.inputs
    assert len(even.facts.inputs[0].files) == 1
    (description,) = [each.description for each in result.get_asset_check_evaluations() if not each.passed]
    assert description == "1 of 2 rows have n not at most 1 (for example 3), limit 0."


def test_an_output_that_was_not_selected_is_not_touched(shop):
    shop.land(ads(2))
    halves = split(shop)

    result = halves.run("odd")

    assert result.success, messages(result)
    assert len(halves.record("odd/v1.0").facts.inputs) == 1
    assert not (halves.base / "even/v1.0").exists()
    assert halves.latest("odd/v1.0", DAY) is not None
