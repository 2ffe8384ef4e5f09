"""Mistakes in the definitions of a project: each is refused when the code is loaded, with a message that names it."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import types
from pyspark.sql.types import LongType, StringType, StructField, StructType

from feed_assets import checks
from feed_assets.ads.schemas import KINDS
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.project.assembly import Project

SCHEMA = StructType([StructField("account", StringType()), StructField("n", LongType())])


def asset(name: str, location: str, **more: Any) -> dg.AssetsDefinition:
    metadata = feed_metadata(location, SCHEMA, **more)
    return dg.asset(name=name, io_manager_key="file_feed", metadata=metadata)(lambda: None)


def test_two_assets_cannot_publish_to_one_feed(tmp_path: Path):
    project = Project.of(*KINDS, sources=tmp_path, first_day=date(2024, 1, 1))

    with pytest.raises(
        dg.DagsterInvalidDefinitionError, match=r"one and two publish to the same feed, sums/v1\.0: give"
    ):
        project.definitions(assets=[asset("one", "sums/v1.0"), asset("two", "sums/v1.0")])


def test_an_identity_names_columns_of_the_feed():
    with pytest.raises(
        dg.DagsterInvalidDefinitionError, match=r"has no column acount, which `identity` names; it has acc"
    ):
        feed_metadata("sums/v1.0", SCHEMA, identity=["acount"])


@pytest.mark.parametrize("schema", ["account STRING", {"account": "string"}])
def test_a_schema_is_a_struct_type_and_the_advised_one_works_before_spark_starts(schema: Any):
    with pytest.raises(
        dg.DagsterInvalidDefinitionError, match=r"The schema of sums/v1\.0 is .*: give a StructType"
    ) as error:
        feed_metadata("sums/v1.0", schema)
    advised = str(error.value).split("`")[1]
    assert feed_metadata("sums/v1.0", eval(advised, vars(types)))


@pytest.mark.parametrize("expectations", [checks.not_empty(), [checks.not_empty], iter([checks.not_empty()])])
def test_an_audit_takes_a_list_of_expectations(expectations: Any):
    with pytest.raises(
        dg.DagsterInvalidDefinitionError, match=r"The audit of one takes a list of expectations, such as"
    ):
        checks.audit(asset("one", "sums/v1.0", audited=True), expectations)
