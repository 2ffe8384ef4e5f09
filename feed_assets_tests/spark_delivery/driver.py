"""A driver of Spark of its own, which tests kill: it delivers a day, and says how that ended.

Arguments: the address of Spark's master, the folder of a `SparkWorld`, its stream, the shards of a sender, and options
of Spark as NAME=VALUE. Its tasks have the environment of this process.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.delivery.ledger import utc_now
from feed_assets.resources.spark import SparkResource
from feed_assets.spark_delivery.backend import SparkBackend
from feed_assets_tests.delivery.judge.streams import REGION
from feed_assets_tests.delivery.worlds import DAY, World


def main(master: str, folder: str, stream: str, shards_a_sender: str, *options: str) -> None:
    """Deliver."""
    settings = dict(each.split("=", 1) for each in options)
    settings |= {f"spark.executorEnv.{name}": value for name, value in os.environ.items() if name.startswith("AWS_")}
    spark = SparkResource.on(master, **settings).spark_session
    world = World(Path(folder), LocalBlackboard(Path(folder, "base")), {"stream": f"kinesis://{REGION}/{stream}"})
    backend = SparkBackend(lambda: spark, int(shards_a_sender))
    delivery = replace(world.deliverer, now=utc_now, large=backend, large_rows=0).deliver(DAY)
    print(msgspec.json.encode(delivery.ended if delivery else None).decode(), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
