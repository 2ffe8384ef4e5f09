"""A program that publishes an update with Spark, as a step does. Arguments: the base, and how many executors: 0 or 1.

Its files have the modes that this process gives to its own files. The executors of a local cluster are processes that
take over the mask of the Java that starts them: here another mask than the driver's.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime

from feed_assets.engine.java import ensure_java
from feed_assets.engine.session import spark_config, start_session
from feed_assets.engine.update_files import write_files
from feed_assets.file_feed import Facts, Feed, open_feed, publish, stage
from feed_assets.file_feed.claims import claim
from feed_assets.file_feed.staging import staged_files

NOW = datetime(2019, 11, 30, tzinfo=UTC)
LOCATION, DAY = "made/v1.0", "2019-11-29"

if __name__ == "__main__":
    feed = Feed(open_feed(sys.argv[1]).blackboard, LOCATION)
    config = spark_config("local-cluster[1,1,1024]" if sys.argv[2] == "1" else "local[2]")
    ensure_java()
    mask = os.umask(0o022)
    spark = start_session(config)
    os.umask(mask)
    claimed = claim(feed, DAY, now=NOW, owner="spark")
    written = write_files(spark.range(10).repartition(2), claimed.uri)
    publish(stage(claimed, staged_files(claimed, written.files), Facts(), now=NOW), now=NOW)
    nested = spark.range(2).selectExpr("id", "id AS hour").write.partitionBy("hour")
    nested.json(f"{feed.blackboard.uri('staged')}")
    spark.stop()
