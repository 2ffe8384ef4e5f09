"""Requests of any size become tasks, or stay runs of Dagster: no sensor gets stuck."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

import feed_assets as fa
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.feed_events.triggers import REVISIONS_TAG, attempt_tag
from feed_assets.starts.attempts import Attempts
from feed_assets.state.store import Store
from feed_assets.workers.assembly import ProjectWorkflows
from feed_assets.workers.computing import RunsOfAssets, payload_of, unpacked
from feed_assets.workers.handing_over import HandingOver
from feed_assets.workflow.applying import apply, differences
from feed_assets.workflow.tasks import MOST_PAYLOAD, encoded_payload
from feed_assets.workflow.worker import Worker
from feed_assets_tests.harness import DAY
from feed_assets_tests.workers.masters import served

pytestmark = pytest.mark.slow  # starts a master
DAYS = dg.DailyPartitionsDefinition("2019-11-20", end_date="2019-11-30")
MADE: list[int] = []


def chain(length: int) -> list[dg.AssetsDefinition]:
    """Assets of which each reads the one before."""

    def asset(number: int) -> dg.AssetsDefinition:
        before = [f"revenue_of_all_shops_{number - 1}"] if number else []

        @dg.asset(name=f"revenue_of_all_shops_{number}", partitions_def=DAYS, deps=before)
        def made() -> None:
            MADE.append(number)

        return made

    return [asset(each) for each in range(length)]


def request(assets: list[dg.AssetsDefinition], day: str = DAY) -> dg.RunRequest:
    """A request for a day of these assets, as sensors make it."""
    feeds = [f"{each.key.to_user_string()}/v1.0" for each in assets]
    return dg.RunRequest(
        run_key=f"late_growth:{len(assets)}:{day}",
        partition_key=day,
        asset_selection=[each.key for each in assets],
        tags={
            "feed_assets/why": "5 files came late. " * 13,
            REVISIONS_TAG: json.dumps({f"{each} {day}": number for number, each in enumerate(feeds)}),
            **{attempt_tag(each): f"4f1c2a:{each}:{day}:{hash(each):x}:1" for each in feeds},
        },
    )


@pytest.mark.parametrize("length", [1, 14, 50])
def test_a_request_fits_into_a_payload_and_says_the_same(length: int) -> None:
    asked = request(chain(length))
    payload = payload_of(asked)

    assert len(encoded_payload(payload)) <= MOST_PAYLOAD
    assert payload["partition"] == DAY
    found = unpacked(json.loads(encoded_payload(payload)))
    assert found["tags"] == asked.tags
    assert found["assets"] == [each.to_user_string() for each in asked.asset_selection or ()]


def test_a_chain_that_a_worker_can_compute_is_a_task_and_a_longer_one_a_run(
    tmp_path: Path, dagster_instance: dg.DagsterInstance
) -> None:
    few, many = chain(30), chain(400)
    flow = fa.Workflow("shops")
    flow.computes(*many)
    definitions = dg.Definitions(assets=many)
    hand_over = HandingOver(ProjectWorkflows.of([flow], []), str(tmp_path))
    asked = request(few).with_replaced_attrs(tags={"feed_assets/why": "x" * MOST_PAYLOAD})
    too_large = request(many)
    did: list[str] = []
    MADE.clear()
    with served(tmp_path, flow.name) as client:
        apply(client, differences(client, flow)[0])
        with dg.build_sensor_context(instance=dagster_instance, definitions=definitions) as context:
            assert hand_over(context, [asked, too_large]) == [too_large]
            assert hand_over(context, [asked]) == []
        attempts = Attempts(Store(f"sqlite:///{tmp_path}/state.db"), "base", lambda: datetime.now(UTC))
        Worker(
            flow,
            list(flow.stages.values()),
            client,
            LocalBlackboard(tmp_path),
            computer=RunsOfAssets(definitions, {}, attempts),
            done=lambda _, __, outcome: did.append(outcome),
        ).run(lambda: False, until_idle=True)

    assert did == ["done"]
    assert list(range(30)) == MADE
