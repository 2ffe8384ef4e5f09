"""Assets for tests of what may start: feeds that others make, and flows that compute nothing. Not here: any test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg
from pyspark.sql.types import StringType, StructField, StructType

import feed_assets as fa
from feed_assets.starts.attempt import State
from feed_assets.starts.attempts import Attempts
from feed_assets_tests.harness import Installation

SCHEMA = StructType([StructField("id", StringType())])


def asset(
    name: str, partitions: dg.PartitionsDefinition, trigger: Mapping[str, Any], *, optional: bool = False, **reads: str
) -> dg.AssetsDefinition:
    """A feed `<name>/v1.0` that reads these assets, and computes nothing."""
    metadata = {fa.OPTIONAL: True} if optional else {}

    @dg.asset(
        name=name,
        partitions_def=partitions,
        ins={each: dg.AssetIn(each, metadata=metadata, input_manager_key="file_feed") for each in reads},
        io_manager_key="file_feed",
        metadata={**fa.feed_metadata(f"{name}/v1.0", SCHEMA), **trigger},
    )
    def made(**inputs: Any) -> None:
        raise AssertionError(f"{name} is not computed here")

    return made


def given(name: str, partitions: dg.PartitionsDefinition) -> dg.AssetSpec:
    """A feed `<name>/v1.0` of other programs."""
    return dg.AssetSpec(name, partitions_def=partitions, metadata=fa.feed_metadata(f"{name}/v1.0", SCHEMA))


def publish_attempts(installation: Installation) -> None:
    """Record for all attempts that are alive that their runs have published."""
    attempts = Attempts(installation.store, installation.board.uri(""), lambda: installation.now)
    for each in attempts.alive():
        attempts.end(each.key, State.PUBLISHED)
