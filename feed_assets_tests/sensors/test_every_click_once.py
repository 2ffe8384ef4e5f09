"""Every click in exactly one place of one day, whatever arrives in whatever order, once the sensors are quiet.

The sensors, storage, read sets and records are real. The rows are computed by the plain Python reference of the
transforms, which is held to Spark elsewhere: so that hundreds of runs take seconds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from feed_assets.file_feed import FeedInput, RawInput, read_record
from feed_assets.sources.raw import evening, evening_read, read_set
from feed_assets_tests import harness
from feed_assets_tests.ads import reference
from feed_assets_tests.ads.events import Ad, Click
from feed_assets_tests.harness import ADS, CLICKS, EFFECTIVENESS, SHOP_ADS, SHOP_CLICKS, Installation

pytestmark = pytest.mark.slow

FIRST = date(2019, 11, 24)
DAYS = [str(FIRST + timedelta(days=ahead)) for ahead in range(3)]
ONE_DAY = timedelta(days=1)
ROUNDS = 25

MIDNIGHTS = [datetime(2019, 11, 25, tzinfo=UTC), datetime(2019, 11, 26, tzinfo=UTC)]
MOMENTS = [midnight + timedelta(minutes=minutes) for midnight in MIDNIGHTS for minutes in (-20, 1, 15)]


@dataclass(frozen=True, slots=True)
class Sent:
    """An event as a partner sends it."""

    kind: str
    name: str
    moment: datetime
    user: str
    impression: str | None = None


IMPRESSIONS, CLICK_NAMES = st.sampled_from(["i1", "i2", "i3"]), st.sampled_from(["k1", "k2", "k3"])
USERS = st.sampled_from("uuuv")
EVENTS = st.builds(Sent, st.just("ads"), IMPRESSIONS, st.sampled_from(MOMENTS), USERS) | st.builds(
    Sent, st.just("clicks"), CLICK_NAMES, st.sampled_from(MOMENTS), USERS, st.none() | st.none() | IMPRESSIONS
)
DELIVERIES = st.lists(st.tuples(st.lists(EVENTS, min_size=1, max_size=3), st.integers(0, 3)), min_size=1, max_size=4)
"""Files in the order in which they land, each with the number of ticks before the next."""

ON_TIME = [
    Sent(kind, f"{kind}-{day}", datetime.fromisoformat(f"{day} 12:00:00"), "w")
    for day in DAYS
    for kind in ("ads", "clicks")
] + [
    Sent(kind, f"{kind}-{user}-{midnight:%d}", midnight + timedelta(minutes=minutes), user)
    for midnight in MIDNIGHTS
    for kind, user, minutes in (("ads", "u", -20), ("clicks", "u", 15), ("clicks", "v", 15))
]
"""Every day has ads, clicks and their effectiveness from the beginning. At each midnight one click belongs to the day
before, and another to no impression yet."""


@dataclass(slots=True)
class World:
    """An installation whose runs are computed here."""

    desk: Installation

    def deliver(self, number: int, sent: Sequence[Sent]) -> None:
        for kind, row in (("ads", harness.ad), ("clicks", harness.click)):
            rows = []
            for each in sent:
                if each.kind == kind:
                    named = {"impression": each.impression} if kind == "clicks" else {}
                    rows.append(row(each.name, f"{each.moment:%Y-%m-%d %H:%M:%S}", user=each.user, **named))
            if rows:
                self.desk.land(rows, f"{kind}/shop_{kind}", f"file{number}")

    def tick(self) -> int:
        """Let both sensors look once and run what they ask for; how many runs that were."""
        ran = 0
        for sensor in ("late_growth", "new_manifests"):
            for request in self.desk.tick(sensor).requests:
                names = {key.to_user_string() for key in request.asset_selection or ()}
                for asset in harness.ALL:
                    if asset in names:
                        self.run(asset, request.partition_key or "")
                ran += 1
        return ran

    def run(self, asset: str, day: str) -> None:
        if asset == "ad_effectiveness":
            read = [FeedInput(ADS, each, self.latest(ADS, each), context=each != day) for each in around(day, -1, 0, 1)]
            read += [FeedInput(CLICKS, each, self.latest(CLICKS, each)) for each in around(day, 0, 1)]
            read += [FeedInput(harness.CATALOG, None, None)]
            content = self.effectiveness(day)
            self.make(EFFECTIVENESS, day, read, content, {"boundary": content["boundary"]})
        else:
            kind = asset.removeprefix("clean_")
            today, earlier = self.read(kind, day)
            self.make(f"clean-{kind}/v1.0", day, [today, earlier] if earlier.files else [today], self.clean(kind, day))

    # --- what is computed ----------------------------------------------------------------------------------------

    def read(self, kind: str, day: str) -> tuple[RawInput, RawInput]:
        """What a run reads: the day, and the evening before as that day's update read it."""
        source, before = f"{kind}/shop_{kind}", date.fromisoformat(day) - ONE_DAY
        there = read_set(self.desk.board, source, before)
        feed, update = self.desk.feed(f"clean-{kind}/v1.0"), self.latest(f"clean-{kind}/v1.0", str(before))
        record = read_record(feed, str(before), update) if update else None
        earlier = (
            evening_read(record.read_sets[source, str(before)], there, 1, lambda read: read)
            if record
            else evening(there, 1)
        )
        return read_set(self.desk.board, source, date.fromisoformat(day)), earlier

    def clean(self, kind: str, day: str) -> list[dict[str, str | None]]:
        """Each event once, the earliest; none that the evening before has already."""
        today, earlier = (self.rows(each) for each in self.read(kind, day))
        seen = {row["id"] for row in earlier}
        kept = {}
        for row in sorted(today, key=lambda row: str(row["time"])):
            if row["id"] not in seen:
                kept.setdefault(row["id"], row)
        return list(kept.values())

    def rows(self, read: RawInput) -> list[dict[str, Any]]:
        folder = self.desk.base / "raw" / read.source / read.partition
        return [row for file in read.files for row in pq.read_table(folder / file.path).to_pylist()]

    def effectiveness(self, day: str) -> dict[str, Any]:
        """The place of each click of the day, and which clicks are shared with either neighbour."""
        impressions = [as_ad(row) for each in around(day, -1, 0, 1) for row in self.published(ADS, each)]
        places, before, after = {}, [], []
        for each in around(day, 0, 1):
            for row in self.published(CLICKS, each):
                click = as_click(row)
                seen = reference.explanation(impressions, click, ONE_DAY)
                shown = str(seen.event_time.date()) if seen and seen.event_time else None
                if each == day:
                    places[row["id"]] = "own" if shown == day else "before" if shown else "orphan"
                    before += [row["id"]] if shown == around(day, -1)[0] else []
                elif shown == day:
                    after.append(row["id"])
        return {"places": places, "boundary": {"before": digest(before), "after": digest(after)}, "after": after}

    # --- what is there -------------------------------------------------------------------------------------------

    def latest(self, location: str, day: str) -> str | None:
        return self.desk.latest(location, day)

    def make(self, location: str, day: str, read: Iterable[Any], content: Any, details: Any = None) -> None:
        self.desk.make(location, day, read, content=json.dumps(content).encode(), details=details)

    def published(self, location: str, day: str) -> Any:
        update = self.latest(location, day)
        if update is None:
            return []
        return json.loads((self.desk.base / location / day / update / "part-0.parquet").read_bytes())


def around(day: str, *offsets: int) -> list[str]:
    return [str(date.fromisoformat(day) + offset * ONE_DAY) for offset in offsets]


def digest(names: Iterable[str]) -> str:
    return hashlib.sha256("/".join(sorted(names)).encode()).hexdigest()


def as_ad(row: dict[str, str]) -> Ad:
    moment = datetime.fromisoformat(row["time"]).replace(tzinfo=UTC)
    return Ad(impression_id=row["id"], event_time=moment, ad_id=row["ad"], user_id=row["user"])


def as_click(row: dict[str, str]) -> Click:
    moment = datetime.fromisoformat(row["time"]).replace(tzinfo=UTC)
    named = row["impression"]
    return Click(click_id=row["id"], event_time=moment, impression_id=named, ad_id=row["ad"], user_id=row["user"])


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(deliveries=DELIVERIES)
def test_every_click_counts_in_one_place_of_one_day_when_the_sensors_are_quiet(
    deliveries: list[tuple[list[Sent], int]], tmp_path: Path
) -> None:
    with TemporaryDirectory(dir=tmp_path) as folder:
        sources = harness.write_sources(Path(folder) / "sources", SHOP_ADS, SHOP_CLICKS)
        installation = harness.settings_below(Path(folder) / "base", sources)
        world = World(Installation(replace(installation), dg.DagsterInstance.ephemeral()))
        for number, (sent, ticks) in enumerate([(ON_TIME, 3), *deliveries]):
            world.deliver(number, sent)
            for _ in range(ticks):
                world.tick()
        assert 0 in (world.tick() for _ in range(ROUNDS))

        made = [day for day in DAYS if world.latest(EFFECTIVENESS, day)]
        for day in made:
            # Nothing is left that would come out otherwise if it were computed again.
            assert world.published(EFFECTIVENESS, day) == world.effectiveness(day)
            for kind in ("ads", "clicks"):
                assert world.published(f"clean-{kind}/v1.0", day) == world.clean(kind, day)
        for day, following in pairwise(made):
            if following == around(day, 1)[0]:
                places = world.published(EFFECTIVENESS, following)["places"]
                shared = sorted(name for name, place in places.items() if place == "before")
                assert sorted(world.published(EFFECTIVENESS, day)["after"]) == shared
