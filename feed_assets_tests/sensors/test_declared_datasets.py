"""Datasets that a project declares in YAML: flows wait for them, and files and feeds say what their slots have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

import feed_assets as fa
from feed_assets.datasets.ranges import slots_between
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.facts import Number, Part, Status
from feed_assets.dependencies.service import Dependencies
from feed_assets.operations.gate_answers import explain_flow
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.flows import Flows
from feed_assets_tests.harness import DAY, Installation
from feed_assets_tests.plain_flows import asset, given

ORDERS, OWN, COUNTS = "topics/orders", "own/v1.0", "counts/v1.0"
FIRST = date(2019, 11, 20)
NOON = f"{DAY}T12:00Z"
Build = Callable[..., Installation]


@pytest.fixture
def build(desk: Installation, tmp_path: Path) -> Build:
    """Installations with one declared dataset, and a flow that reads `own` and waits for that dataset."""

    def built(described: str, *more: Any, name: str = ORDERS) -> Installation:
        folder = tmp_path / "datasets"
        folder.mkdir(exist_ok=True)
        (folder / "orders.yaml").write_text(f"name: {name}\n{described}", encoding="utf-8")
        project = fa.Project.with_sources(replace(desk.settings, datasets_directory=folder), ())
        assets = [given("own", project.days), given("counts", project.days), *more]
        flow = asset("flow", project.days, fa.trigger(also=[fa.needs(name)], settle=timedelta(0)), own=OWN)
        return replace(desk, _definitions=project.definitions(assets=[*assets, flow]))

    return built


def known(installation: Installation) -> tuple[Flows, Dependencies]:
    project = installation.definitions.resources["project"]
    feeds = AssetFeedGraph.of(installation.definitions.get_repository_def())
    flows = Flows.of(feeds, (), installation.settings.first_day, project.datasets)
    states = flows.states(installation.store, installation.board)
    states.refresh()
    return flows, states


def why(installation: Installation) -> str:
    flows, states = known(installation)
    return explain_flow(installation.board, flows, states, (), "flow", DAY, now=installation.now).sentence


def base_slots(states: Dependencies, day: str = DAY) -> list[Slot]:
    dataset = states.dataset(ORDERS)
    return [*slots_between(dataset, dataset.base, *dataset.window(dataset.slot(day)))]


def report(installation: Installation, slots: list[Slot], records: int, name: str = "a", **more: Any) -> None:
    _, states = known(installation)
    part = Part(ORDERS, "-", name, f"s3://{name}", records={each.start: records for each in slots}, **more)
    (outcome,) = states.report([part], now=installation.now)
    assert outcome.status is not Status.REFUSED, outcome.message


def publish(installation: Installation, location: str, rows: int | None = None) -> None:
    if rows is None:
        installation.make(location, DAY, [])
    else:
        installation.make(location, DAY, [], rows=rows, content=b"x" * rows)
    installation.tick("new_manifests")


def test_d14_a_flow_starts_when_the_day_of_a_declared_5_minute_dataset_is_complete(build: Build) -> None:
    installation = build("grain: 5min\ncomplete: {basis: counted, witness: kafka}\n")
    publish(installation, OWN)
    assert installation.tick("starts").asked == {}
    assert why(installation).startswith(f"waits for data: {ORDERS} - day {DAY}")

    _, states = known(installation)
    slots = base_slots(states)
    assert len(slots) == 288
    states.expect([Number("kafka", each, 10) for each in slots], now=installation.now)
    report(installation, slots[:-1], 10)
    assert installation.tick("starts").asked == {}
    assert f"{ORDERS} - 5min {DAY}T23:55Z has 0 of 10 records" in why(installation)

    report(installation, slots[-1:], 10, "b")
    assert installation.tick("starts").asked == {DAY: ("flow",)}
    assert installation.tick("starts").asked == {}
