"""The figures of ad effectiveness in Dagster's metadata."""

from types import SimpleNamespace

from feed_assets.ads.assets.figures import effectiveness_figures

COUNTS = {"impressions": 2, "clicks": 0, "ctr": 0.0, "ctr_low": 0.0, "ctr_high": 0.6, "cost": None}


def shown(**names: str | None) -> tuple[object, ...]:
    ad = SimpleNamespace(asDict=lambda: {**names, **COUNTS})
    (row,) = effectiveness_figures({"ads": 1, "impressions": 2, "top": [ad]})["top ads"].records
    return row.data["ad_id"], row.data["campaign_id"]


def test_a_very_long_name_does_not_make_the_table_wider_than_the_page():
    assert shown(ad_id="x" * 1000, campaign_id="y" * 37) == (f"{'x' * 36}...", f"{'y' * 36}...")


def test_a_name_as_long_as_a_uuid_is_whole_and_an_unknown_campaign_stays_unknown():
    assert shown(ad_id="f" * 36, campaign_id=None) == ("f" * 36, None)
