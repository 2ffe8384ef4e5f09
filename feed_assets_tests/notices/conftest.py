"""Updates of ad effectiveness with known figures, runs that ended, and a post office."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dagster._core.test_utils import create_run_for_test

from feed_assets.file_feed import FeedInput
from feed_assets.notices.tables import Report, open_reports
from feed_assets.resources.notifier import MailResource
from feed_assets_tests.harness import (
    ADS,
    CLICKS,
    DAY,
    EFFECTIVENESS,
    SHOP_ADS,
    SHOP_CLICKS,
    Installation,
    Tick,
    write_sources,
)
from feed_assets_tests.notices.post_office import PostOffice, post_office

FIGURES = {"c1": (100, 4, "10.5"), "c2": (50, 1, "5")}
"""Impressions, clicks and cost of each campaign."""


def effectiveness(figures: dict[str, tuple[int, int, str]]) -> bytes:
    """A file of ad effectiveness with these figures, an ad for each campaign."""
    rows = [
        {"ad_id": f"ad of {name}", "campaign_id": name, "impressions": shown, "clicks": clicks, "cost": Decimal(cost)}
        for name, (shown, clicks, cost) in figures.items()
    ]
    types = {"ad_id": pa.string(), "campaign_id": pa.string(), "impressions": pa.int64(), "clicks": pa.int64()}
    schema = pa.schema({**types, "cost": pa.decimal128(28, 6)})
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), file)
    return file.getvalue()


@dataclass
class Shop:
    """An installation whose day was processed, and what happens to it then."""

    desk: Installation
    office: PostOffice

    def grow(self, size: int = 100, name: str = "late", day: str = DAY) -> Tick:
        """Late data arrives, and the sensor requests the run."""
        self.desk.raw_bytes(day, {name: size})
        return self.desk.tick("late_growth")

    def remove(self, name: str) -> None:
        """The raw file of this name is deleted."""
        (path,) = (self.desk.base / "raw/ads/shop_ads" / DAY).rglob(f"{name}.parquet")
        path.unlink()

    def start(self, tick: Tick, status: dg.DagsterRunStatus = dg.DagsterRunStatus.STARTED) -> list[str]:
        """Dagster has these runs; returns their ids."""
        return [
            create_run_for_test(
                self.desk.instance,
                status=status,
                tags={**request.tags, "dagster/partition": request.partition_key or ""},
                asset_selection=frozenset(request.asset_selection or ()),
            ).run_id
            for request in tick.requests
        ]

    def publish(
        self, run_id: str, figures: dict[str, tuple[int, int, str]], day: str = DAY, *, good: bool = True
    ) -> None:
        """What a run publishes: the ads as they lie there, and the effectiveness with these figures."""
        self.desk.process(day, run_id=run_id)
        inputs = [FeedInput(feed, day, self.desk.latest(feed, day)) for feed in (ADS, CLICKS)]
        content = effectiveness(figures)
        self.desk.make(EFFECTIVENESS, day, inputs, run_id=run_id, content=content, good=good)

    def end(self, run_id: str, *, good: bool = True) -> None:
        run = self.desk.instance.get_run_by_id(run_id)
        assert run is not None
        if good:
            self.desk.instance.report_dagster_event(
                dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, run.job_name), run_id
            )
        else:
            self.desk.instance.report_run_failed(run, "the disk is full")

    def report(self) -> Tick:
        return self.desk.tick("late_reports")

    @property
    def open(self) -> list[Report]:
        return open_reports(self.desk.store, self.desk.board.uri(""))

    def later(self, **span: float) -> Shop:
        """The same at a later time."""
        return replace(self, desk=self.desk.at(self.desk.now + timedelta(**span)))


@pytest.fixture
def office() -> Iterator[PostOffice]:
    with post_office() as running:
        yield running


@pytest.fixture
def processed(desk: Installation, office: PostOffice, tmp_path) -> Shop:
    """A day with ads, clicks and effectiveness, processed; mail goes to everybody, and to the team of the ads."""
    ads = f"{SHOP_ADS}recipients: [ads@example.com]\n"
    directory = write_sources(tmp_path / "with recipients", ads, SHOP_CLICKS)
    mail = MailResource(
        url=f"smtp://127.0.0.1:{office.port}", sender="Late data <late@example.com>", recipients=["all@example.com"]
    )
    settings = replace(desk.settings, sources_directory=directory)
    shop = Shop(replace(desk, settings=settings, _definitions=None).using(mail=mail), office)
    shop.desk.raw_bytes(DAY, {"x": 1000})
    shop.desk.raw_bytes(DAY, {"x": 1000}, "clicks/shop_clicks")
    shop.desk.process(kind="clicks")
    shop.publish("first", FIGURES)
    return shop
