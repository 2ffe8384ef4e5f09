"""The jobs do what their names say: a day is made, audited again, and derived anew."""

from __future__ import annotations

from feed_assets_tests.harness import ADS, CLICKS, DAY, EFFECTIVENESS, ads, click, messages


def test_the_jobs_make_a_day_audit_it_and_derive_it_anew(shop):
    shop.land(ads(5))
    shop.land_clicks([click("k1", user="u3")])

    def run(name):
        job = shop.definitions.resolve_job_def(name)
        result = job.execute_in_process(instance=shop.instance, partition_key=DAY, raise_on_error=False)
        assert result.success, messages(result)
        return result

    run("process_day")
    first = {location: shop.latest(location) for location in (ADS, CLICKS, EFFECTIVENESS)}
    assert None not in first.values()

    audited = run("audit")
    assert {each.asset_key.to_user_string() for each in audited.get_asset_check_evaluations()} == {
        "clean_ads",
        "clean_clicks",
        "ad_effectiveness",
    }
    assert {location: shop.latest(location) for location in first} == first
    # What is in force and stays so is no news.
    assert not [event for event in audited.all_events if event.is_step_materialization]

    run("effectiveness")
    assert shop.latest(EFFECTIVENESS) > first[EFFECTIVENESS]
    assert shop.latest(ADS) == first[ADS]
