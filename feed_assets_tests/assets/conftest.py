"""The worked example in a bucket of a real server."""

from __future__ import annotations

import csv

import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.resources.spark import SparkResource
from feed_assets.sources.landing import land
from feed_assets.sources.loading import load_sources
from feed_assets_tests.harness import SHOP_ADS, SHOP_CLICKS, Installation, settings_below, write_sources


@pytest.fixture
def shop_in_a_bucket(bucket, tmp_path, dagster_instance):
    sources = write_sources(tmp_path / "sources", SHOP_ADS, SHOP_CLICKS)
    state = f"sqlite:///{tmp_path}/state.db"
    return Installation(settings_below(f"{bucket}/base", sources, state=state), dagster_instance)


@pytest.fixture
def session(shop_in_a_bucket):
    """Spark's session, which the base switches to the bucket, and back afterwards."""
    settings = shop_in_a_bucket.settings
    yield SparkResource.on(settings.spark_master, settings.base).spark_session
    _ = SparkResource.on(settings.spark_master).spark_session


@pytest.fixture
def deliver(shop_in_a_bucket, session, tmp_path):
    """Land rows of a kind, sent as a CSV file of this name."""

    def deliver(kind, rows, name="rows.csv"):
        settings = shop_in_a_bucket.settings
        path = tmp_path / name
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        (source,) = (each for each in load_sources(settings.sources_directory, KINDS) if each.kind == kind)
        return land(session, shop_in_a_bucket.board, source, path, now=shop_in_a_bucket.now)

    return deliver
