"""Assets that workers of a workflow compute: what sensors ask for becomes tasks, with the result of Dagster's runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import dagster as dg
import pytest

from feed_assets.workers.assembly import WORKFLOWS, ProjectWorkflows
from feed_assets.workflow.calls import Configure
from feed_assets.workflow.worker import Worker
from feed_assets_tests.harness import DAY, Installation, ads
from feed_assets_tests.workers.masters import served

CLEAN = "clean-ads/v1.0"


@pytest.fixture
def continuous(shop: Installation) -> Installation:
    """A shop whose assets workers compute."""
    return replace(shop, settings=replace(shop.settings, continuous=True))


@contextmanager
def working(installation: Installation) -> Iterator[tuple[Worker, list[tuple[str, str]]]]:
    """A worker of the workflow `ads` and its master, and what it did: the stage and what became of the task."""
    flows = installation.definitions.resources[WORKFLOWS]
    assert isinstance(flows, ProjectWorkflows)
    (flow,) = flows.flows
    did: list[tuple[str, str]] = []
    with served(installation.base, flow.name) as client:
        for stage in flow.stages.values():
            client.call(Configure, type=stage.name, payload=stage.configuration)
        yield (
            flows.worker(
                installation.settings,
                installation.definitions,
                flow,
                list(flow.stages.values()),
                client,
                lambda stage, _, outcome: did.append((stage.name, outcome)),
            ),
            did,
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
    import feed_assets as fa

    one, other = fa.Workflow("one"), fa.Workflow("other")
    asset = continuous.definitions.get_assets_def("clean_ads")
    one.computes(asset)
    other.computes(asset)
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="Two stages make clean_ads: a feed has one maker"):
        ProjectWorkflows.of([one, other], [])
