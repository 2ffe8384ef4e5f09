"""Writing a quarantine: few files of many tasks, and an error if records would be lost."""

from __future__ import annotations

import pytest

from feed_assets.ads.cleaning import judge_ads
from feed_assets.file_feed import Facts, claim
from feed_assets.steps.quarantining import QuarantineMismatchError, Refused, write_quarantine
from feed_assets_tests.ads.events import DAY, Ad, unjudged_ads
from feed_assets_tests.harness import ADS


@pytest.mark.parametrize("counted", [1, 3])
def test_a_quarantine_of_another_number_of_records_than_was_refused_is_an_error(shop, spark, counted):
    refused = [Ad(impression_id=f"i{number}", ad_id=None, line=number) for number in range(2)]
    judged = judge_ads(unjudged_ads(spark, refused), day=DAY)
    claimed = claim(shop.feed(ADS), str(DAY), now=shop.now, owner="test")

    with pytest.raises(QuarantineMismatchError, match=f"{counted} records were refused.* found 2"):
        write_quarantine(claimed, judged, Refused(counted, few=(), places=None), Facts(run_id="test"))


def test_the_records_of_many_tasks_are_in_one_file(shop, spark):
    refused = [Ad(impression_id=f"i{number}", ad_id=None, line=number) for number in range(10)]
    judged = judge_ads(unjudged_ads(spark, refused).repartition(5, "_line"), day=DAY)
    claimed = claim(shop.feed(ADS), str(DAY), now=shop.now, owner="test")

    written, _ = write_quarantine(claimed, judged, Refused(10, few=(), places=None), Facts(run_id="test"))

    assert (written.files, written.facts.rows.published) == (1, 10)
