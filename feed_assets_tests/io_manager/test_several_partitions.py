"""One run over several partitions: each update accounts for the raw records of its own time, and for no others."""

from datetime import date

import dagster as dg
from pyspark.sql import DataFrame

from feed_assets import checks
from feed_assets.ads.cleaning import judge_ads
from feed_assets.ads.schemas import CLEAN_ADS, KINDS
from feed_assets.assets.external import raw_logs
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.sources.canonical import canonical
from feed_assets.sources.loading import load_sources
from feed_assets_tests.harness import (
    DAY,
    NEXT_DAY,
    SHOP_ADS,
    Installation,
    ad,
    ads,
    between,
    failed_checks,
    messages,
    settings_below,
    write_sources,
)

JUDGED = "judged/v1.0"
ALL_HOURS = dg.HourlyPartitionsDefinition("2019-11-10-00:00", end_date="2019-12-08-00:00")
HOURS = [f"{DAY}-{hour}:00" for hour in (12, 13, 14)]


def judged(shop, partitions, frames_of):
    """An audited asset of judged raw ads; `frames_of` takes the keys of a run, the judged frames and the session."""
    source = next(source for source in load_sources(shop.settings.sources_directory, KINDS) if source.kind == "ads")
    raw = raw_logs(source, ALL_HOURS)

    @dg.asset(
        name="judged",
        ins={"records": dg.AssetIn(raw.key, input_manager_key="file_feed")},
        partitions_def=partitions,
        io_manager_key="file_feed",
        metadata=feed_metadata(JUDGED, CLEAN_ADS, identity=["impression_id"], audited=True),
        backfill_policy=dg.BackfillPolicy.single_run() if partitions else None,
    )
    def asset(context: dg.AssetExecutionContext, records: dict[str, DataFrame]):
        frames = {
            key: judge_ads(canonical(frame, source), day=date.fromisoformat(key[:10])) for key, frame in records.items()
        }
        return frames_of(list(context.partition_keys) if partitions else [], frames)

    audit = checks.audit(
        asset, [checks.not_empty(unless_sent_so=True), checks.rows_accounted(), checks.quarantined_share(limit=1)]
    )
    return shop.with_assets(raw, asset, checks=[audit])


def accounts(installation, keys):
    """Read, published and quarantined of each of these partitions, as the newest record of each says."""
    rows = [installation.record(JUDGED, key).facts.rows for key in keys]
    return [(each.read, each.published, each.quarantined) for each in rows]


def at(hour, *names, cost="0.5"):
    return [ad(name, f"{DAY} {hour}:00:00", user=name, cost=cost) for name in names]


def by_partition(_, frames):
    return frames


def hourly_ads(shop):
    return judged(shop, ALL_HOURS, by_partition)


def test_several_hours_of_a_day_in_one_run_account_for_their_own_records(shop):
    shop.land([*at("12", "a", "b", "c"), *at("12", "bad", cost="?"), *at("13", "d", "e")])
    installation = hourly_ads(shop)

    result = installation.run("judged", day=None, tags=between(HOURS[0], HOURS[1]))

    assert result.success, messages(result)
    assert accounts(installation, HOURS[:2]) == [(4, 3, 1), (2, 2, 0)]
    assert len(installation.rows(JUDGED, HOURS[0])) == 3


def test_an_hour_in_a_run_of_its_own_accounts_for_its_own_records(shop):
    shop.land([*at("12", "a", "b"), *at("13", "c")])
    installation = hourly_ads(shop)

    result = installation.run("judged", day=HOURS[0])

    assert result.success, messages(result)
    assert accounts(installation, HOURS[:1]) == [(2, 2, 0)]


def test_hours_of_two_days_in_one_run_account_for_their_own_records(shop):
    hours = [f"{DAY}-22:00", f"{DAY}-23:00", f"{NEXT_DAY}-00:00"]
    shop.land([*at("22", "a"), *at("23", "b", "c"), ad("d", f"{NEXT_DAY} 00:00:00")])
    installation = hourly_ads(shop)

    result = installation.run("judged", day=None, tags=between(hours[0], hours[-1]))

    assert result.success, messages(result)
    assert accounts(installation, hours) == [(1, 1, 0), (2, 2, 0), (1, 1, 0)]


def test_an_hour_or_a_day_of_which_nothing_came_is_turned_away_beside_one_of_which_something_came(shop):
    shop.land(at("12", "a"))
    of_hours = hourly_ads(shop)

    result = of_hours.run("judged", day=None, tags=between(HOURS[0], HOURS[1]))

    assert failed_checks(result) == ["not_empty", "not_empty"]  # of the hour, and of the run
    assert [of_hours.record(JUDGED, hour).state for hour in HOURS[:2]] == ["published", "rejected"]


def test_a_source_that_may_be_empty_is_empty_in_the_hours_without_a_file(shop, tmp_path):
    sources = write_sources(tmp_path / "quiet", f"{SHOP_ADS}may_be_empty: true\n")
    quiet = Installation(settings_below(shop.base, sources), shop.instance)
    quiet.land(at("13", "a"))
    installation = hourly_ads(quiet)
    assert installation.run("judged", day=None, tags=between(HOURS[0], HOURS[1])).success

    result = installation.run("judged", day=HOURS[0])

    assert result.success, messages(result)
    assert list(installation.record(JUDGED, HOURS[0]).facts.details["empty_sources"]) == ["ads/shop_ads"]
    assert "empty_sources" not in installation.record(JUDGED, HOURS[1]).facts.details


def test_several_days_in_one_run_account_for_their_own_records(shop):
    shop.land([*at("12", "a"), *at("13", "b", cost="?"), *ads(3, NEXT_DAY)])
    installation = judged(shop, dg.DailyPartitionsDefinition("2019-11-20", end_date="2019-11-28"), by_partition)

    result = installation.run("judged", day=None, tags=between(DAY, NEXT_DAY))

    assert result.success, messages(result)
    assert accounts(installation, [DAY, NEXT_DAY]) == [(2, 1, 1), (3, 3, 0)]


def test_several_weeks_in_one_run_account_for_the_records_of_all_their_days(shop):
    weeks = dg.WeeklyPartitionsDefinition("2019-11-17", end_date="2019-12-01")
    shop.land([*ads(2), *ads(3, "2019-11-30")])
    shop.land([ad("before", "2019-11-20 12:00:00")])

    def by_week(keys, frames):
        return {
            key: _union([frame for day, frame in frames.items() if (day >= "2019-11-24") == (key == DAY)])
            for key in keys
        }

    installation = judged(shop, weeks, by_week)
    result = installation.run("judged", day=None, tags=between("2019-11-17", DAY))

    assert accounts(installation, ["2019-11-17", DAY]) == [(1, 1, 0), (5, 5, 0)], messages(result)


def test_an_asset_without_partitions_accounts_for_all_records(shop):
    shop.land([*at("12", "a"), *at("13", "bad", cost="?"), *ads(3, NEXT_DAY)])
    installation = judged(shop, None, lambda _, frames: _union([frames[DAY], frames[NEXT_DAY]]))

    result = installation.run("judged", day=None)

    assert result.success, messages(result)
    assert accounts(installation, [None]) == [(5, 4, 1)]


def _union(frames):
    together = frames[0]
    for frame in frames[1:]:
        together = together.unionByName(frame)
    return together
