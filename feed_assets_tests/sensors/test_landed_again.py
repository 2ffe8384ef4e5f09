"""A file that was landed by a wrong description and then by the right one: the sensors repair the days of both."""

from dataclasses import replace

from feed_assets.ads.schemas import KINDS
from feed_assets.sources.landing import land
from feed_assets.sources.loading import load_sources
from feed_assets_tests.harness import ADS, DAY, NEXT_DAY, SHOP_ADS, SHOP_CLICKS, write_sources

LOG = f"id,time,ad,campaign,user,place,cost\n1,{DAY} 12:00:00,a,c,u,p,1\n2,{DAY} 13:00:00,a,c,u,p,1\n"


def test_days_that_lost_or_got_records_by_landing_again_are_made_again(shop, spark, tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(LOG)
    a_day_later = SHOP_ADS.replace("to_timestamp(time)", "to_timestamp(time) + INTERVAL 1 DAY")
    corrected = write_sources(tmp_path / "corrected", a_day_later, SHOP_CLICKS)

    def land_as_described(installation):
        ads, _ = load_sources(installation.settings.sources_directory, KINDS)
        return land(spark, installation.board, ads, file, now=installation.now, again=True)

    land_as_described(shop)
    shop.execute(shop.tick("late_growth"))
    assert [len(shop.rows(ADS, day)) for day in (DAY,)] == [2]

    right = replace(shop, settings=replace(shop.settings, sources_directory=corrected), _definitions=None)
    assert land_as_described(right).withdrawn == (f"{DAY}/12",)
    tick = right.tick("late_growth")
    right.execute(tick)

    assert sorted(request.partition_key for request in tick.requests) == [DAY, NEXT_DAY]
    assert [len(right.rows(ADS, day)) for day in (DAY, NEXT_DAY)] == [0, 2]
    assert right.record(ADS, DAY).state == right.record(ADS, NEXT_DAY).state == "published"
    assert right.tick("late_growth").requests == ()
