"""A project for tests of the deployment: three feeds that need no Spark, published through the protocol's library.

`orders` and `refunds` wait, with their update claimed, until the file `open` is in the directory TEST_GATE. Each
execution of an asset leaves a file there, with the id of its process. `totals` is for the sensor to request.
"""

import os
import time
from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg
from pyspark.sql.types import LongType, StructField, StructType

from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.file_feed import Facts, FeedInput, claim, publish, require_latest, stage, staged_files
from feed_assets.file_feed.feed import Feed
from feed_assets.project.assembly import Project

GATE = Path(os.environ["TEST_GATE"])
INPUTS = ("orders", "refunds")
SCHEMA = StructType([StructField("amount", LongType())])

project = Project.of(sources=GATE, first_day=date(2019, 11, 29))


def location(name: str) -> str:
    """The feed of an asset."""
    return f"{name}/v1.0"


def publish_day(context: dg.AssetExecutionContext, name: str, *inputs: str, waits: bool) -> None:
    """Publish the update of a day with one file."""
    day, board = context.partition_key, context.resources.blackboard.blackboard
    now = datetime.now(UTC)
    claimed = claim(Feed(board, location(name)), day, now=now, owner=context.run_id)
    read = [FeedInput(each, day, require_latest(Feed(board, each), day, now=now).name) for each in inputs]
    (GATE / f"{name} {day} {context.run_id} {time.time_ns()}").write_text(str(os.getpid()), encoding="utf-8")
    while waits and not (GATE / "open").exists():
        time.sleep(0.05)
    board.create(f"{claimed.prefix}part-0.json", b"{}")
    facts = Facts(inputs=tuple(read), run_id=context.run_id)
    publish(stage(claimed, staged_files(claimed, 1), facts, now=now), now=datetime.now(UTC))
    context.log.info(f"published {name} {day}")


def received(name: str) -> dg.AssetsDefinition:
    """An asset without inputs."""

    @dg.asset(
        name=name,
        partitions_def=project.days,
        metadata=feed_metadata(location(name), SCHEMA),
        required_resource_keys={"blackboard"},
    )
    def asset(context: dg.AssetExecutionContext) -> None:
        publish_day(context, name, waits=True)

    return asset


@dg.asset(
    partitions_def=project.days,
    deps=INPUTS,
    metadata=feed_metadata(location("totals"), SCHEMA),
    required_resource_keys={"blackboard"},
)
def totals(context: dg.AssetExecutionContext) -> None:
    """What the sensor `new_manifests` requests, once both inputs of a day are there."""
    publish_day(context, "totals", *map(location, INPUTS), waits=False)


defs = project.definitions(assets=[*map(received, INPUTS), totals])
