"""The size of a project's days, or of a delivery, decides how Java compiles."""

from __future__ import annotations

import os
from datetime import date, timedelta

import dagster as dg
import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.engine.session import QUICKLY
from feed_assets.operations.java_compiler import (
    DAYS_LOOKED_AT,
    SMALL_DAY,
    SMALL_DELIVERY,
    compile_for_days,
    compile_for_delivery,
    compile_for_latest_days,
)
from feed_assets.sources.loading import load_sources
from feed_assets_tests.harness import SHOP_ADS, SHOP_CLICKS, Installation, days, settings_below, write_sources

HALF = SMALL_DAY // 2


@pytest.mark.parametrize(
    ("bytes_of_ads", "bytes_of_clicks", "quick"),
    [
        ([], 0, False),
        ([HALF], 0, True),
        ([HALF], HALF, True),
        ([HALF], HALF + 1, False),
        ([1, SMALL_DAY * 2 - 1], 0, True),
        ([1] * DAYS_LOOKED_AT + [SMALL_DAY * 8], 0, True),
    ],
    ids=["no file", "one source", "both sources", "both, one byte more", "on average", "a large day later"],
)
def test_java_compiles_quickly_if_the_first_days_of_all_sources_are_small(
    tmp_path, monkeypatch, bytes_of_ads, bytes_of_clicks, quick
):
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dgiven=1")
    sources = load_sources(write_sources(tmp_path / "sources", SHOP_ADS, SHOP_CLICKS), KINDS)
    with dg.DagsterInstance.ephemeral() as instance:
        installation = Installation(settings_below(tmp_path / "base", tmp_path / "sources"), instance)
        for day, size in zip(days(len(bytes_of_ads)), bytes_of_ads, strict=True):
            installation.raw_bytes(day, {"x": size})
        if bytes_of_clicks:
            installation.raw_bytes("2019-11-30", {"x": bytes_of_clicks}, "clicks/shop_clicks")
        installation.raw_bytes("2019-10-31", {"x": SMALL_DAY + 1})
        compile_for_days(installation.board, sources, date(2019, 11, 1), date(2019, 11, 30))

    assert os.environ["SPARK_SUBMIT_OPTS"] == (f"{QUICKLY} -Dgiven=1" if quick else "-Dgiven=1")


@pytest.mark.parametrize(
    ("bytes_of_ads", "quick"),
    [([], False), ([HALF], True), ([SMALL_DAY * 8] + [1] * DAYS_LOOKED_AT, True), ([1, SMALL_DAY * 8], False)],
    ids=["no file", "one day", "a large day before", "the last day is large"],
)
def test_java_compiles_quickly_if_the_last_days_are_small_however_long_ago_they_were(
    tmp_path, monkeypatch, bytes_of_ads, quick
):
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dgiven=1")
    sources = load_sources(write_sources(tmp_path / "sources", SHOP_ADS, SHOP_CLICKS), KINDS)
    with dg.DagsterInstance.ephemeral() as instance:
        installation = Installation(settings_below(tmp_path / "base", tmp_path / "sources"), instance)
        for number, size in enumerate(bytes_of_ads):
            installation.raw_bytes(str(date(2001, 1, 1) + number * timedelta(days=400)), {"x": size})
        compile_for_latest_days(installation.board, sources)

    assert os.environ["SPARK_SUBMIT_OPTS"] == (f"{QUICKLY} -Dgiven=1" if quick else "-Dgiven=1")


@pytest.mark.parametrize(
    ("sizes", "quick"),
    [((), False), ((1,), True), ((SMALL_DELIVERY - 1, 1), True), ((SMALL_DELIVERY, 1), False)],
    ids=["no file", "one file", "two files", "two files, one byte more"],
)
def test_java_compiles_quickly_for_a_small_delivery(tmp_path, monkeypatch, sizes, quick):
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dgiven=1")
    files = [tmp_path / str(number) for number in range(len(sizes))]
    for file, size in zip(files, sizes, strict=True):
        file.write_bytes(b"x" * size)

    compile_for_delivery([*files, tmp_path, tmp_path / "absent"])

    assert os.environ["SPARK_SUBMIT_OPTS"] == (f"{QUICKLY} -Dgiven=1" if quick else "-Dgiven=1")
