"""Assets that workers of a workflow compute: what sensors ask for becomes tasks, with the result of Dagster's runs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import feed_assets as fa
from feed_assets.checks.asset_checks import Limits
from feed_assets.starts.attempts import Attempts
from feed_assets.workers.assembly import WORKFLOWS, ProjectWorkflows
from feed_assets.workflow.applying import apply, differences
from feed_assets.workflow.client import Client
from feed_assets.workflow.worker import Worker
from feed_assets_tests.assets.test_dirty_days import quarantined
from feed_assets_tests.harness import (
    AS_OF,
    CATALOG,
    DAY,
    EFFECTIVENESS,
    SHOP_ADS,
    SHOP_CLICKS,
    Installation,
    Row,
    ad,
    ads,
    click,
    write_sources,
)
from feed_assets_tests.workers.masters import served

CLEAN = "clean-ads/v1.0"
HOURS_OVER = datetime.fromisoformat(f"{DAY}T12:01:00Z")


@pytest.fixture
def continuous(shop: Installation) -> Installation:
    """A shop whose assets workers compute."""
    return replace(shop, settings=replace(shop.settings, continuous=True))


@contextmanager
def working(installation: Installation) -> Iterator[tuple[Worker, list[tuple[str, str]]]]:
    """A worker of the workflow `ads` and its master, and what it did: the stage and what became of the task."""
    did: list[tuple[str, str]] = []
    with served(installation.base, "ads") as client:
        yield worker_of(installation, client, did), did


def worker_of(installation: Installation, client: Client, did: list[tuple[str, str]]) -> Worker:
    """A worker at the installation's time, whose configuration is in force."""
    flows = installation.definitions.resources[WORKFLOWS]
    assert isinstance(flows, ProjectWorkflows)
    (flow,) = flows.flows
    apply(client, differences(client, flow)[0])
    return flows.worker(
        installation.settings,
        installation.definitions,
        flow,
        list(flow.stages.values()),
        client,
        lambda stage, _, outcome: did.append((stage.name, outcome)),
    )


def test_a_day_that_is_due_becomes_one_task_and_a_worker_publishes_it(continuous: Installation) -> None:
    continuous.land(ads(20))
    with working(continuous) as (worker, did):
        tick = continuous.tick("late_growth")
        assert tick.asked == {}
        assert continuous.latest(CLEAN) is None

        worker.run(lambda: False, until_idle=True)
        assert did == [("compute", "done")]
        assert len(continuous.rows(CLEAN)) == 20
        assert continuous.tick("late_growth").asked == {}
        assert not worker.once()

        continuous.land(ads(5, start=20), name="late")
        assert continuous.tick("late_growth").asked == {}
        worker.run(lambda: False, until_idle=True)

    assert did == [("compute", "done")] * 2
    assert len(continuous.rows(CLEAN)) == 25


def test_dagster_shows_the_checks_of_an_update_that_a_worker_rejected(continuous: Installation) -> None:
    continuous.land([*ads(10), *ads(10, start=10, ad=None)])
    with working(continuous) as (worker, did):
        continuous.tick("late_growth")
        worker.run(lambda: False, until_idle=True)

    assert did == [("compute", "done")]
    assert continuous.record(CLEAN).state == "rejected"
    tick = continuous.tick("new_manifests")
    failed = [each for each in tick.checked if not each.passed and each.blocking]
    assert [each.check_name for each in failed] == ["quarantined_share"]
    assert failed[0].metadata["partition"].value == DAY
    assert tick.reported == []
    key = failed[0].asset_check_key
    shown = continuous.instance.get_latest_asset_check_evaluation_record(key)
    assert shown is not None
    assert shown.event is not None
    assert shown.event.asset_check_evaluation == failed[0]
    assert continuous.tick("new_manifests").checked == ()


def test_a_request_over_three_assets_becomes_one_task(continuous: Installation, tmp_path: Path) -> None:
    continuous.land(ads(20))
    continuous.land_clicks([click("c1", impression="i1")])
    continuous.publish(CATALOG, None, {"ads.csv": "ad_id,campaign_id,advertiser,landing_page\n"}, tmp_path)
    with working(continuous) as (worker, did):
        assert continuous.tick("late_growth").asked == {}
        worker.run(lambda: False, until_idle=True)

    assert did == [("compute", "done")]
    assert all(continuous.latest(each) for each in (CLEAN, "clean-clicks/v1.0", EFFECTIVENESS))


def test_the_gate_hands_its_starts_over_and_a_late_hour_starts_the_day_once_more(continuous: Installation) -> None:
    gated = replace(continuous, settings=replace(continuous.settings, gate=True), _definitions=None)
    gated.land(ads(20))
    with working(gated) as (worker, did):
        for late in (None, "late"):
            if late:
                gated.land(ads(5, start=20), name=late)
            for _ in range(2):
                assert gated.tick("starts").asked == {}
            worker.run(lambda: False, until_idle=True)
            assert gated.tick("starts").asked == {}
            assert not worker.once()

    assert did == [("compute", "done")] * 2
    assert len(gated.rows(CLEAN)) == 25
    attempts = Attempts(gated.store, gated.board.uri(""), lambda: gated.now)
    assert [str(each.state) for each in attempts.of(CLEAN, DAY)] == ["published", "published"]


def test_an_hour_is_checked_when_it_is_over_and_a_late_file_costs_one_more_check_of_it(
    continuous: Installation,
) -> None:
    texts = (each.replace("buffer_hours: 0", "buffer_hours: 5") for each in (SHOP_ADS, SHOP_CLICKS))
    write_sources(continuous.settings.sources_directory, *texts)
    noon = datetime.fromisoformat(f"{DAY}T13:01:00Z")
    settings = replace(continuous.settings, hourly=True)
    hourly = replace(continuous, settings=settings, _definitions=None)
    hourly.land(ads(20))

    def ticked(minutes: int) -> list[tuple[str, str]]:
        """What the worker did after a tick so many minutes after the hour's end."""
        now = hourly.at(noon + timedelta(minutes=minutes))
        with working(now) as (worker, did):
            assert now.tick("complete_hours").asked == {}
            worker.run(lambda: False, until_idle=True)
            return did

    assert ticked(0) == [("compute", "done")]
    assert ticked(1) == []
    hourly.land(ads(5, start=20), name="late")
    assert ticked(2) == []
    assert ticked(15) == [("compute", "done")]
    assert ticked(16) == []


def test_every_order_of_arrival_gives_the_rows_of_the_daily_run_also_with_a_late_file(
    continuous: Installation, tmp_path: Path
) -> None:
    texts = (each.replace("buffer_hours: 0", "buffer_hours: 5") for each in (SHOP_ADS, SHOP_CLICKS))
    write_sources(continuous.settings.sources_directory, *texts)
    lenient = continuous.using(limits=Limits(quarantined_share=1.0))
    files = colliding_ads(random.Random(1), 4)

    def at_base(name: str, **settings: Any) -> Installation:
        base = str(tmp_path / name)
        return replace(
            lenient, settings=replace(lenient.settings, base=base, **settings), cursors={}, _definitions=None
        )

    daily = at_base("daily", continuous=False)
    for name, rows in files.items():
        daily.land(rows, name=name)
    daily.execute(daily.tick("late_growth"))
    expected = outcome_of(daily)
    assert expected[0]
    assert expected[1]

    for seed in range(2):
        chance, did = random.Random(seed), list[tuple[str, str]]()
        order, checked_again = chance.sample(sorted(files), len(files)), chance.randrange(1, len(files) - 1)
        one = at_base(f"order-{seed}", hourly=True)

        def work(sensor: str, now: datetime, one: Installation, client: Client, did: list[tuple[str, str]]) -> None:
            present = one.at(now)
            worker = worker_of(present, client, did)
            assert present.tick(sensor).asked == {}
            worker.run(lambda: False, until_idle=True)

        with served(one.base, "ads") as client:
            for number, name in enumerate(order):
                if name == order[-1]:  # it comes after the day was computed
                    work("late_growth", AS_OF - timedelta(hours=1), one, client, did)
                    assert outcome_of(one) != expected
                one.land(files[name], name=name)
                if number in (0, checked_again):
                    work("complete_hours", HOURS_OVER + number * timedelta(minutes=15), one, client, did)
            work("late_growth", AS_OF, one, client, did)

        assert outcome_of(one) == expected, f"{order}"
        assert set(did) == {("compute", "done")}
        assert len(did) >= 4  # hours, also again, and the day twice


def colliding_ads(chance: random.Random, count: int) -> dict[str, list[Row]]:
    """Files of ads, each of one of two hours. Ids, users and seconds collide, also between files; some are unusable."""

    def row(hour: int) -> Row:
        time = f"{DAY} {hour}:{chance.choice(['00:00', '00:01', '59:59'])}"
        more = {"ad": chance.choice(["a1", "a2", None]), "user": chance.choice(["u1", "u2", None])}
        return ad(f"i{chance.randrange(12)}", time, cost=chance.choice(["1", "?", "-1", None]), **more)

    return {f"part-{number}": [row(10 + number % 2) for _ in range(8)] for number in range(count)}


def outcome_of(installation: Installation) -> tuple[list[str], list[str]]:
    """The rows in force of clean ads, and the quarantined records."""
    rows = (str(sorted(row.items())) for row in installation.rows(CLEAN))
    return sorted(rows), sorted(map(str, quarantined(installation)[1]))


def test_a_tick_without_a_master_loses_nothing(continuous: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feed_assets.workers.handing_over.PATIENCE", 0.2)
    continuous.land(ads(20))
    assert continuous.tick("late_growth").asked == {}

    with working(continuous) as (worker, _):
        continuous.an_hour_ago(CLEAN)
        continuous.tick("late_growth")
        worker.run(lambda: False, until_idle=True)

    assert len(continuous.rows(CLEAN)) == 20


def test_an_asset_that_two_workflows_compute_is_refused(continuous: Installation) -> None:
    one, other = fa.Workflow("one"), fa.Workflow("other")
    asset = continuous.definitions.get_assets_def("clean_ads")
    one.computes(asset)
    other.computes(asset)
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="Two stages make clean_ads: a feed has one maker"):
        ProjectWorkflows.of([one, other], [])
