"""A tick of `process_yesterday` while its run goes on starts once, after that run: nothing is stacked, nothing lost."""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from feed_assets.feed_events.scheduled import tags_of
from feed_assets.resources.storage import BlackboardResource, StateResource
from feed_assets.run_history.tables import remembered
from feed_assets.schedules import process_yesterday
from feed_assets.sensors.remembered_ticks import remembered_ticks
from feed_assets.state.store import Store

NAME = "process_yesterday"
TUESDAY, WEDNESDAY, THURSDAY = (datetime(2026, 3, day, 0, 15, tzinfo=UTC) for day in (3, 4, 5))


@dg.asset(partitions_def=dg.DailyPartitionsDefinition("2026-03-01"))
def daily() -> None:
    """An asset of days."""


class Driven:
    """A schedule, its sensor, and a Dagster whose runs the test starts and ends."""

    def __init__(self, folder, instance):
        self.instance = instance
        self.store = Store(f"sqlite:///{folder}/state.db")
        self.board = BlackboardResource(base=str(folder))
        self.resources = {"blackboard": self.board, "state": StateResource(url=self.store.url)}
        job = dg.define_asset_job("process_day", [daily])
        self.definitions = dg.Definitions(
            [daily],
            jobs=[job],
            schedules=[process_yesterday(job, [])],
            sensors=[remembered_ticks({NAME: job}, interval_seconds=30)],
            resources=self.resources,
        )

    def tick(self, at):
        """A tick of the schedule: its requests, as Dagster would start them."""
        with dg.build_schedule_context(
            instance=self.instance,
            scheduled_execution_time=at,
            repository_def=self.definitions.get_repository_def(),
            resources=self.resources,
        ) as context:
            return self.definitions.resolve_schedule_def(NAME).evaluate_tick(context).run_requests or []

    def look(self):
        """A tick of the sensor: its requests."""
        with dg.build_sensor_context(
            instance=self.instance, definitions=self.definitions, resources=self.resources
        ) as context:
            return self.definitions.resolve_sensor_def("remembered_ticks").evaluate_tick(context).run_requests or []

    def start(self, request):
        return create_run_for_test(
            self.instance, job_name="process_day", status=dg.DagsterRunStatus.STARTED, tags=request.tags
        )

    def end(self, run):
        self.instance.report_run_failed(run)

    @property
    def waiting(self):
        return [each.partition for each in remembered(self.store, self.board.blackboard.uri(""))]


@pytest.fixture
def driven(tmp_path):
    with dg.instance_for_test() as instance:
        yield Driven(tmp_path, instance)


def test_a_tick_starts_at_once_while_no_run_goes_on(driven):
    (request,) = driven.tick(TUESDAY)
    assert request.partition_key == "2026-03-02"
    assert request.tags.items() >= tags_of(NAME, TUESDAY).items()
    assert driven.waiting == []
    assert driven.look() == []


def test_w23_a_tick_while_its_run_goes_on_starts_once_when_that_has_ended(driven):
    run = driven.start(*driven.tick(TUESDAY))

    assert driven.tick(WEDNESDAY) == []
    assert driven.tick(WEDNESDAY) == []  # the daemon tries a tick again
    assert driven.waiting == ["2026-03-03"]
    assert driven.look() == []

    driven.end(run)
    (request,) = driven.look()
    assert (request.partition_key, request.job_name) == ("2026-03-03", "process_day")

    (again,) = driven.look()  # the daemon died before the run was there
    assert again.run_key == request.run_key
    driven.start(request)
    assert driven.look() == []
    assert driven.waiting == []


def test_days_that_wait_start_one_after_the_other_the_oldest_first(driven):
    first = driven.start(*driven.tick(TUESDAY))
    driven.tick(WEDNESDAY)
    driven.tick(THURSDAY)
    assert driven.waiting == ["2026-03-03", "2026-03-04"]

    driven.end(first)
    (request,) = driven.look()
    assert request.partition_key == "2026-03-03"
    second = driven.start(request)
    assert driven.look() == []
    driven.end(second)
    (request,) = driven.look()
    assert request.partition_key == "2026-03-04"


def test_before_the_first_day_there_is_nothing_to_start(driven):
    assert driven.tick(datetime(2026, 3, 1, 0, 15, tzinfo=UTC)) == []
