"""What a landing notes is what is collected: its hour, its records, and the columns that it saw."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta

from feed_assets.ads.schemas import KINDS
from feed_assets.arrivals.collecting import collect
from feed_assets.arrivals.silence import Arrived
from feed_assets.arrivals.tables import arrivals_of, columns_of
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.sources.landing import land
from feed_assets.sources.loading import load_sources
from feed_assets.state.store import Store
from feed_assets_tests.harness import SHOP_ADS, ad, write_sources

NOW = datetime(2019, 11, 25, 7, 40, tzinfo=UTC)


def test_landings_are_collected_once_with_their_hour_and_columns(spark, tmp_path):
    pushed = SHOP_ADS.replace("{type: csv, header: true,", "{type: jsonl,")
    (source,) = load_sources(write_sources(tmp_path / "sources", pushed), KINDS)
    board, store = LocalBlackboard(tmp_path / "base"), Store(f"sqlite:///{tmp_path}/state.db")
    first = [{"_segment 00-1": True, **ad("i1", cost=None)}, {**ad("i2", cost=None), "country": "DE"}, ["rejected"]]
    for number, (at, records) in enumerate([(NOW, first), (NOW + timedelta(hours=30), [ad("i3")])]):
        file = tmp_path / f"{number}.jsonl"
        file.write_text("".join(f"{json.dumps(each)}\n" for each in records))
        landed = land(spark, board, source, file, now=at)
    # By hand, with a corrected description: nothing has arrived, but its columns are looked at again.
    corrected = source.model_copy(update={"null_tokens": ("none",)})
    assert land(spark, board, corrected, landed, now=NOW + timedelta(hours=30, minutes=1), again=True).generation == 2

    for minutes in (0, 5, 10):
        collect(store, board, [source], now=NOW + timedelta(hours=30, minutes=minutes))

    base = board.uri("")
    assert arrivals_of(store, base, source.key) == {
        datetime(2019, 11, 25, 7, tzinfo=UTC): Arrived(1, 2),
        datetime(2019, 11, 26, 13, tzinfo=UTC): Arrived(1, 1),
    }
    assert columns_of(store, base, source.key) == {
        date(2019, 11, 25): {"looked": 2, "landings": 1, "unknown": {"country": 1}, "empty": {"cost": 1}},
        date(2019, 11, 26): {"looked": 2, "landings": 2, "unknown": {}, "empty": {}},
    }
