"""Days that are processed at once share nothing: each comes to what its own data says, and a bad one stops no other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any

import dagster as dg

from feed_assets.file_feed import history
from feed_assets_tests.harness import (
    ADS,
    BOTH_CLEAN,
    CLICKS,
    Installation,
    Interposed,
    ad,
    ads,
    click,
    days,
    messages,
    using_board,
)
from feed_assets_tests.waiting import HANGS

DAYS = days(7)
BAD = DAYS[3]


def ids(installation: Installation, location: str, day: str, column: str) -> list[Any]:
    return sorted(row[column] for row in installation.rows(location, day))


def test_seven_days_at_once_come_each_to_its_own_rows_and_the_bad_one_stops_no_other(shop: Installation) -> None:
    sent = {day: [f"{day}-{number}" for number in range(3 + place)] for place, day in enumerate(DAYS)}
    for day, names in sent.items():
        shop.land([ad(name, f"{day} 12:00:00") for name in names])
        shop.land_clicks([click(f"k-{name}", f"{day} 12:00:30", user=name) for name in names[:2]])
    shop.land([row | {"user": None, "id": None} for row in ads(20, BAD)], name="bad")
    together = Barrier(len(DAYS) - 1, timeout=HANGS)

    def wait_for_the_others(operation: str, key: str) -> None:
        """Let no day publish its clean ads before each of them is about to, but for the bad one, which never is."""
        if operation == "create" and key.startswith(f"{ADS}/") and key.endswith("/_SUCCESS"):
            together.wait()

    slow = using_board(shop, Interposed(shop.board, wait_for_the_others))
    assert slow.definitions  # once, and not by each thread

    def process(day: str) -> dg.ExecuteInProcessResult:
        # Dagster's storage is for one run a process: two threads that open its SQLite wait for each other for ever.
        with dg.DagsterInstance.ephemeral() as instance:
            return replace(slow, instance=instance).run(*BOTH_CLEAN, day=day)

    with ThreadPoolExecutor(len(DAYS)) as threads:
        results = dict(zip(DAYS, threads.map(process, DAYS), strict=True))

    assert {day: result.success for day, result in results.items()} == {day: day != BAD for day in DAYS}
    assert any("quarantined_share" in message for message in messages(results[BAD])), messages(results[BAD])
    for day, names in sent.items():
        states = [status.state for status in history(shop.feed(ADS), day, now=shop.now)]
        assert states == ["rejected" if day == BAD else "valid"]
        assert ids(shop, CLICKS, day, "click_id") == [f"k-{name}" for name in names[:2]]
        if day != BAD:
            assert ids(shop, ADS, day, "impression_id") == names
