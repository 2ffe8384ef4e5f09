"""The jobs do what their names say: a day is made, and derived anew."""

from __future__ import annotations

from feed_assets_tests.harness import ADS, CLICKS, DAY, EFFECTIVENESS, ads, click, messages


def test_the_jobs_make_a_day_and_derive_it_anew(shop):
    shop.land(ads(5))
    shop.land_clicks([click("k1", user="u3")])

    def run(name):
        job = shop.definitions.resolve_job_def(name)
        result = job.execute_in_process(instance=shop.instance, partition_key=DAY, raise_on_error=False)
        assert result.success, messages(result)

    run("process_day")
    first = {location: shop.latest(location) for location in (ADS, CLICKS, EFFECTIVENESS)}
    assert None not in first.values()

    run("effectiveness")
    assert shop.latest(EFFECTIVENESS) > first[EFFECTIVENESS]
    assert shop.latest(ADS) == first[ADS]
