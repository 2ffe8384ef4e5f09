"""A real run for late data: what Spark computed before and after is in the mail and in the UI."""

from __future__ import annotations

import pytest

from feed_assets.resources.notifier import MailResource
from feed_assets_tests.harness import ALL, DAY, Installation, ads, click, messages
from feed_assets_tests.notices.post_office import PostOffice


@pytest.fixture
def mailing(shop: Installation, office: PostOffice) -> Installation:
    mail = MailResource(url=f"smtp://127.0.0.1:{office.port}", sender="late@example.com", recipients=["a@example.com"])
    return shop.using(mail=mail)


def test_the_mail_of_a_real_run_has_the_figures_that_spark_computed(mailing: Installation, office: PostOffice) -> None:
    mailing.land(ads(20))
    mailing.land(ads(20, start=100, campaign="c2", ad="a2"), name="y")
    mailing.land_clicks([click("k1", impression="i1"), click("k2", impression="i2", user="u2")])
    assert mailing.run(*ALL).success
    mailing.tick("new_manifests")
    mailing.land(ads(10, start=200, campaign="c2", ad="a2"), name="late")

    (result,) = mailing.execute(mailing.tick("late_growth"))
    assert result.success, messages(result)
    event = mailing.tick("late_reports").events[0]

    text = " ".join(office.mails[-1][1].get_body(("plain",)).get_content().split())
    assert "impressions 40 50 +25.0 %" in text
    assert "cost 20 25 +25.0 %" in text
    assert "CTR 5.000 % 4.000 % -1.000 points" in text
    assert text.index("c2 20 -> 30 (+50.0 %)") < text.index("c1 20 -> 20")
    assert event.partition == DAY
    assert event.metadata["runs: success"].value == 1
    assert event.metadata["change of impressions, ad-effectiveness/v1.0"].value == 10
    # Nobody tells it again.
    assert "late_data_reports" not in {name for name, *_ in mailing.tick("new_manifests").reported}
