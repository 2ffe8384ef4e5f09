"""A feed of prices that Spark delivers to a stream of the judge, and what arrived there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.delivery.delivering import Deliverer, Delivery
from feed_assets.delivery.ledger import Begun, Part
from feed_assets.delivery.records import details_of
from feed_assets.spark_delivery.backend import SparkBackend
from feed_assets_tests.delivery.judge.running import JudgeServer
from feed_assets_tests.delivery.judge.streams import REGION
from feed_assets_tests.delivery.worlds import DAY, World


class SparkWorld(World):
    """A world whose deliveries Spark stages and sends, of any size."""

    judge: JudgeServer
    in_judge: str
    spark: Any

    @classmethod
    def below(cls, folder: Path, judge: JudgeServer, spark: Any = None, shards: int = 2) -> SparkWorld:
        """A new world, with a new stream of so many shards."""
        stream = judge.create(f"prices-{uuid4().hex}", shards=shards)
        world = cls(folder, LocalBlackboard(folder / "base"), {"stream": f"kinesis://{REGION}/{stream}"})
        world.judge, world.in_judge, world.spark = judge, stream, spark
        return world

    def publish_rows(self, count: int) -> Mapping[str, float]:
        """A new update with so many prices."""
        prices = {f"product {each}": each / 8 for each in range(count)}
        self.publish(prices)
        return prices

    def on_spark(self, shards_a_sender: int = 1) -> Deliverer:
        """Delivers on Spark."""
        return replace(self.deliverer, large=SparkBackend(lambda: self.spark, shards_a_sender), large_rows=0)

    def deliver_on_spark(self, shards_a_sender: int = 1) -> Delivery:
        """Deliver the day."""
        delivery = self.on_spark(shards_a_sender).deliver(DAY)
        assert delivery is not None
        return delivery

    def arrived(self) -> Counter[int]:
        """How often each ordinal is in the stream."""
        found = map(details_of, (each.data for each in self.judge.log.of(self.in_judge)))
        return Counter(each.ordinal for each in found if each is not None)

    def senders(self, begun: Begun) -> Mapping[str, Part]:
        """What each attempt has got acknowledged."""
        return self.deliverer.ledger.parts("acks", begun)

    def open_edition(self) -> Begun:
        """The edition that has begun last."""
        ledger = self.deliverer.ledger
        return ledger.began(ledger.of(DAY)[-1])

    def all_values(self, prices: Mapping[str, float]) -> dict[str, float | None]:
        """What the store has of these products."""
        return self.values(*prices)
