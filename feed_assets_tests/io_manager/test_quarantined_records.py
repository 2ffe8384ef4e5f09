"""The quarantine: in force exactly while its update is, and there to look at when it was turned away."""

import json

import pytest

from feed_assets.engine import judged_rows
from feed_assets.file_feed import invalidate_both
from feed_assets.steps import writing
from feed_assets_tests.harness import ADS, DAY, Interposed, ad, ads, failed_checks, messages, using_board

QUARANTINE = f"quarantine/{ADS}"
LENIENT = {"resources": {"limits": {"config": {"quarantined_share": 1.0}}}}


def bad(count: int):
    """Records that cannot be used."""
    return [ad(f"bad{number}", cost="?") for number in range(count)]


def kept(shop, name):
    """The quarantined records below an update's name."""
    files = (shop.base / QUARANTINE / DAY / name).glob("part-*.json")
    return [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_quarantine_of_a_rejected_update_is_kept_and_is_not_the_latest(shop):
    shop.land([*ads(40), *bad(1)])
    first = shop.run("clean_ads")
    assert first.success, messages(first)
    published = shop.latest(ADS)
    assert shop.latest(QUARANTINE) == published
    shop.land(bad(5), name="corrupt")

    assert failed_checks(shop.run("clean_ads")) == ["quarantined_share"]

    rejected = shop.record(ADS).update
    assert rejected > published
    assert (shop.latest(ADS), shop.latest(QUARANTINE)) == (published, published)
    record = shop.record(QUARANTINE)
    assert (record.update, record.state) == (rejected, "rejected")
    assert record.history[-1].reason.startswith(f"its update {rejected} was rejected: quarantined_share")
    # The same lines came twice under one id: five of the six have other ids.
    assert {row["reason"] for row in kept(shop, rejected)} == {"unparsable cost"}
    assert len(kept(shop, rejected)) == 6


@pytest.mark.parametrize(
    ("module", "limit", "value"),
    [(judged_rows, "FEW", 2), (judged_rows, "SHORT", 100), (writing, "fits_one_task", lambda _: False)],
)
def test_many_or_long_records_of_small_or_large_days_are_quarantined_alike(shop, monkeypatch, module, limit, value):
    shop.land([*ads(40), *bad(3), ad("no-ad", ad=None), ad("umlaut", cost="?\u00fc")])
    accounts, records = [], []

    for ways in ("found by the pass that publishes", "found by a pass of their own"):
        assert shop.run("clean_ads", config=LENIENT).success, ways
        accounts.append(shop.record(ADS).facts.rows)
        records.append(sorted(map(json.dumps, kept(shop, shop.latest(QUARANTINE)))))
        monkeypatch.setattr(module, limit, value)

    assert records[0] == records[1]
    assert accounts[0] == accounts[1]
    assert accounts[0].reasons == {"quarantined: unparsable cost": 4, "quarantined: missing ad_id": 1}


def test_a_staged_update_has_its_quarantine_staged_and_both_are_taken_out_of_force_together(shop):
    shop.land([*ads(40), *bad(1)])
    assert shop.run("clean_ads", checks=False).success
    assert shop.record(QUARANTINE).state == "staged"
    assert shop.latest(QUARANTINE) is None

    assert shop.check("clean_ads").success
    assert shop.latest(QUARANTINE) == shop.latest(ADS) is not None

    shop.rewrite(ADS, lambda table: table.slice(1))
    assert not shop.check("clean_ads").success
    assert (shop.latest(QUARANTINE), shop.latest(ADS)) == (None, None)


def test_a_day_whose_bad_records_were_repaired_has_an_empty_quarantine(shop):
    shop.land([*ads(40), *bad(1)])
    assert shop.run("clean_ads").success
    shop.land(ads(40))

    result = shop.run("clean_ads")

    assert result.success, messages(result)
    assert shop.latest(QUARANTINE) == shop.latest(ADS)
    assert kept(shop, shop.latest(QUARANTINE)) == []


def test_an_update_that_is_overtaken_leaves_the_quarantine_of_the_one_in_force_the_latest(shop):
    shop.land([*ads(40), *bad(1)])
    newer = []

    def repaired_meanwhile(operation, key):
        if operation == "create" and key.startswith(f"{ADS}/.feed/records/") and not newer:
            newer.append("begun")
            shop.land(ads(40))
            newer.append(shop.run("clean_ads"))

    older = using_board(shop, Interposed(shop.board, repaired_meanwhile)).run("clean_ads")

    assert older.success, messages(older)
    assert newer[1].success, messages(newer[1])
    first, second = sorted(path.name for path in (shop.base / ADS / DAY).iterdir())
    assert (shop.latest(ADS), shop.latest(QUARANTINE)) == (second, second)
    assert (len(kept(shop, first)), len(kept(shop, second))) == (1, 0)

    # Each goes out of force with its update, and the one before comes back with its own.
    invalidate_both(shop.feed(ADS), DAY, second, reason="wrong", author="ann", now=shop.now)
    assert (shop.latest(ADS), shop.latest(QUARANTINE)) == (first, first)
