"""Random histories of updates, invalidations, deliveries, crashes and replays: the store always ends right.

The model: a key has the row of the newest partition that any begun edition had it in, if the update in force of that
partition has it; else it has none.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from feed_assets.delivery.delivering import Deliverer
from feed_assets.delivery.errors import StreamError
from feed_assets.delivery.ledger import Begun
from feed_assets.delivery.streams.local import LocalStream
from feed_assets.delivery.streams.port import Answer, Record, Stream
from feed_assets_tests.delivery.worlds import DAY, NEXT_DAY, World

DAYS = (DAY, NEXT_DAY)
PRODUCTS = ("tea", "coffee", "milk")


class Failing(LocalStream):
    """A stream that takes so many records, and then none."""

    takes_records = 0

    def put(self, records: Sequence[Record]) -> Sequence[Answer]:
        taken = records[: self.takes_records]
        self.takes_records -= len(taken)
        answers = LocalStream.put(self, taken)
        if len(taken) < len(records):
            raise StreamError("local://prices was deleted.")
        return answers


@dataclass(frozen=True, slots=True)
class Crashing(Deliverer):
    """A deliverer whose stream breaks after some records."""

    after: int = 0

    def open_stream(self) -> Stream:
        whole = Deliverer.open_stream(self)
        assert isinstance(whole, LocalStream)
        broken = Failing(whole.path, whole.count)
        broken.takes_records = self.after
        return broken


class Histories(RuleBasedStateMachine):
    """What people and machines do with a feed and its destination, in any order."""

    @initialize(mode=st.sampled_from(["changes", "all"]))
    def begin(self, mode: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.world = World(Path(self.folder.name), options={"mode": mode})
        self.rows: dict[tuple[str, str], dict[str, float]] = {}
        self.valid: dict[str, list[str]] = {day: [] for day in DAYS}

    @rule(
        day=st.sampled_from(DAYS),
        prices=st.dictionaries(st.sampled_from(PRODUCTS), st.sampled_from([1.0, 2.0]), min_size=1),
    )
    def publish(self, day: str, prices: dict[str, float]) -> None:
        update = self.world.publish(prices, day)
        self.rows[day, update] = prices
        self.valid[day].append(update)

    @precondition(lambda self: any(self.valid.values()))
    @rule(data=st.data())
    def invalidate(self, data: st.DataObject) -> None:
        day = data.draw(st.sampled_from([each for each in DAYS if self.valid[each]]))
        update = data.draw(st.sampled_from(self.valid[day]))
        self.valid[day].remove(update)
        self.world.source.invalidate(update, day)

    @rule(day=st.sampled_from(DAYS))
    def deliver(self, day: str) -> None:
        if self._is_known(day):
            self.world.deliver(day)

    @rule(day=st.sampled_from(DAYS), after=st.integers(0, 2))
    def deliver_and_crash(self, day: str, after: int) -> None:
        if self._is_known(day):
            world = self.world
            with suppress(StreamError):
                Crashing(world.deliverer.feed, world.to, world.folder, world.now, after=after).deliver(day)

    @rule(day=st.sampled_from(DAYS))
    def abandon(self, day: str) -> None:
        deliverer = self.world.deliverer
        for each in deliverer.ledger.of(day):
            if not each.has_ended:
                deliverer.abandon(deliverer.ledger.began(each), "by hand")

    @rule(day=st.sampled_from(DAYS))
    def replay(self, day: str) -> None:
        if self.valid[day]:
            self.world.deliver(day, again=True)

    @rule(hours=st.sampled_from([1, 7]))
    def wait(self, hours: int) -> None:
        self.world.source.time = self.world.source.time + timedelta(hours=hours)

    def teardown(self) -> None:
        for day in DAYS:
            while self._is_known(day) and self.world.deliver(day) is not None:
                pass
        self.world.consume()
        assert self.world.values(*PRODUCTS) == self._model()
        for day in DAYS:
            if self.world.deliverer.ledger.of(day):
                audited = self.world.audited(day)
                assert (audited.state, audited.losses) == ("settled", ())
        self.folder.cleanup()

    def _is_known(self, day: str) -> bool:
        return bool(self.valid[day] or self.world.deliverer.ledger.of(day))

    def _model(self) -> dict[str, float]:
        found: dict[str, float] = {}
        ledger = self.world.deliverer.ledger
        for product in PRODUCTS:
            had = [day for day in DAYS for each in ledger.of(day) if product in self._sent(ledger.began(each))]
            if had and self.valid[max(had)]:
                rows = self.rows[max(had), self.valid[max(had)][-1]]
                found |= {product: rows[product]} if product in rows else {}
        return found

    def _sent(self, begun: Begun) -> dict[str, float]:
        return self.rows[begun.partition or "", begun.update] if begun.update else {}


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=12, stateful_step_count=14, suppress_health_check=list(HealthCheck))
