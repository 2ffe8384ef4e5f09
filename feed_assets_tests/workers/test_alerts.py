"""People are told of dead tasks, and of updates that workers' audits rejected: each once."""

from __future__ import annotations

from dataclasses import replace

import dagster as dg
import pytest
from pyspark.sql.types import StringType, StructField, StructType

import feed_assets as fa
from feed_assets.file_feed import CheckOutcome, Facts, claim, reject, stage
from feed_assets.resources.notifier import Alert, Notifier
from feed_assets.workflow.applying import apply, differences
from feed_assets.workflow.calls import Command, Insert
from feed_assets.workflow.client import Client
from feed_assets.workflow.tasks import NewTask
from feed_assets.workflow.worker import Worker
from feed_assets_tests.harness import DAY, Installation
from feed_assets_tests.workers.masters import served

pytestmark = pytest.mark.slow  # starts a master

ROWS = StructType([StructField("name", StringType())])
SENT: list[Alert] = []
flow = fa.Workflow("revenue")


class Kept(Notifier):
    """Keeps what it is to send."""

    def notify(self, alert: Alert) -> None:
        SENT.append(alert)


@flow.stage(version="1", attempts=1)
def convert(work: fa.Work) -> None:
    """Knows no rate."""
    raise ValueError("no rate of XX")


@flow.stage(version="1", attempts=1)
def add(work: fa.Work) -> None:
    """Has no disk."""
    raise OSError("the disk is full")


@pytest.fixture
def installation(desk: Installation) -> Installation:
    SENT.clear()
    project = fa.Project.with_sources(desk.settings, ())

    @dg.asset(
        partitions_def=project.days,
        io_manager_key="file_feed",
        metadata=fa.feed_metadata("revenue/v1.0", ROWS, audited=True),
    )
    def revenue() -> None:
        pass

    own = fa.Workflow("revenue")
    own.stages.update(flow.stages)

    @own.publishes(revenue, version="1")
    def total(work: fa.Work) -> None:
        pass

    definitions = project.definitions(
        assets=[revenue],
        asset_checks=[fa.checks.audit(revenue, [fa.checks.not_empty()])],
        workflows=[own],
        resources={"notifier": Kept()},
    )
    return replace(desk, cursors={}, _definitions=definitions)


def work_until_idle(client: Client, installation: Installation) -> None:
    Worker(flow, list(flow.stages.values()), client, installation.board).run(lambda: False, until_idle=True)


def test_each_dead_task_is_told_once_with_its_reason_and_again_if_it_dies_again(installation: Installation) -> None:
    with served(installation.base, flow.name) as client:
        apply(client, differences(client, flow)[0])
        units = client.call(Insert, tasks=tuple(NewTask("convert", each) for each in range(3))).answer.ids
        assert installation.tick("workflow_alerts").skipped == "No task has died, no update was rejected."

        work_until_idle(client, installation)
        assert installation.tick("workflow_alerts").skipped == "Dead tasks: workflow revenue"
        (alert,) = SENT
        assert alert.reasons[0].startswith(f"3 tasks of convert; the oldest is unit {min(units)}: ValueError: no rate")
        assert f"workflow show -w revenue {min(units)}" in alert.command
        installation.tick("workflow_alerts")
        assert len(SENT) == 1

        client.call(Command, order="retry", target=str(units[1]), by="ann", reason="rate is there")
        client.call(Insert, tasks=(NewTask("add", 1),))
        work_until_idle(client, installation)
        installation.tick("workflow_alerts")
        assert {line.partition(";")[0] for line in SENT[1].reasons} == {"1 task of add", "1 task of convert"}
        assert len({each.id for each in SENT}) == 2


def test_a_tick_without_a_master_says_so_and_tells_of_the_dead_later(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("feed_assets.sensors.workflow_alerts.PATIENCE", 0.2)
    with served(installation.base, flow.name) as client:
        apply(client, differences(client, flow)[0])
        client.call(Insert, tasks=(NewTask("add", 1),))
        work_until_idle(client, installation)

    assert (
        "Whether tasks of revenue are dead is unknown: No master answered"
        in installation.tick("workflow_alerts").skipped
    )
    assert SENT == []
    monkeypatch.setattr("feed_assets.sensors.workflow_alerts.PATIENCE", 30.0)
    with served(installation.base, flow.name):
        installation.tick("workflow_alerts")
    assert [each.kind for each in SENT] == ["dead"]


def test_an_update_that_a_worker_rejected_is_told_once_with_its_failed_checks(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("feed_assets.sensors.workflow_alerts.PATIENCE", 0.0)
    installation.tick("workflow_alerts")
    claimed = claim(installation.feed("revenue/v1.0"), DAY, now=installation.now, owner="worker")
    staged = stage(claimed, (), Facts(run_id="revenue/7-1-abc"), now=installation.now)
    checks = [CheckOutcome("not_empty", passed=False, severity="ERROR", observed={"rows": 0})]
    reject(staged, reason="not_empty: rows 0", checks=checks, now=installation.now)

    installation.tick("workflow_alerts")
    installation.tick("workflow_alerts")

    (alert,) = SENT
    assert alert.text == "\n".join(
        [f"Rejected by its checks: revenue {DAY}", "revenue not_empty: rows 0", f"More: feed-assets explain {DAY}"]
    )
