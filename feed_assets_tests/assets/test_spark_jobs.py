"""What Spark does for a small day besides its rows, which cost the least: jobs, and compiling generated code."""

from __future__ import annotations

from uuid import uuid4

from feed_assets_tests.harness import ALL, ad, ads, click, messages

LENIENT = {"resources": {"limits": {"config": {"quarantined_share": 1.0}}}}


def jobs_of(spark, work):
    """What a function returns, and the number of Spark jobs it takes."""
    context, group = spark.sparkContext, uuid4().hex
    context.setJobGroup(group, group)
    try:
        return work(), len(context.statusTracker().getJobIdsForGroup(group))
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)


def test_a_small_dirty_day_takes_eight_jobs(shop, spark):
    shop.land([*ads(20), *ads(3), ad("no-ad", ad=None)])
    shop.land_clicks(
        [*(click(f"k{n}", impression=f"i{n}") for n in range(5)), click("u", user="u7"), click("no", ad="")]
    )

    jobs = {}
    for asset in ALL:
        result, jobs[asset] = jobs_of(spark, lambda asset=asset: shop.run(asset, config=LENIENT))
        assert result.success, messages(result)

    # Clean: the raw records are counted; rows are written, while few quarantined ones come with the counts; the audit
    # counts in one query.
    # Effectiveness: its rows are written, and summed up meanwhile; the audit counts.
    assert jobs == {"clean_ads": 3, "clean_clicks": 3, "ad_effectiveness": 2}


def test_every_day_runs_the_code_that_spark_generated_for_the_first(shop, spark):
    machine = spark._jvm
    compiled = machine.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()

    def compiled_for(day):
        time = f"{day} 12:30:00"
        shop.land([*ads(20, day), *ads(3, day), ad("no-ad", time, ad=None)])
        shop.land_clicks([click("k", time, impression="i1"), click("u", time, user="u7"), click("no", time, ad="")])
        before = compiled.getCount()
        for asset in ALL:
            assert shop.run(asset, day=day, config=LENIENT).success
        return compiled.getCount() - before

    compiled_for("2019-11-24")
    assert compiled_for("2019-11-28") == 0
