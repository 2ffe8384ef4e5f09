"""The figures of a master at `/metrics`: of a real master in a process, and of its journal."""

from __future__ import annotations

import asyncio
import time
from typing import NoReturn

import msgspec
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.serving.access import Access
from feed_assets.serving.tokens import KnownTokens
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets.workflow.calls import Answer, Hello, Lease, Refused, Reply, TaskView
from feed_assets.workflow.figures import MOST_GROUPS, Figures, MeasuredJournal
from feed_assets.workflow.master import Master
from feed_assets.workflow.places import create_workflow
from feed_assets.workflow.reigns import take_over
from feed_assets.workflow.service import GroupView, WorkflowApi
from feed_assets.workflow.state import State
from feed_assets.workflow.task_times import TaskTimes
from feed_assets_tests.web.windows_service import NOW, Client
from feed_assets_tests.web.workflow_service import NAME, Someone, fill, mastering

PREFIX = "feed_assets_workflow_"


def read(text):
    """The values by name and labels, as a scrape reads them."""
    return {
        (sample.name.removeprefix(PREFIX), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_master_shows_its_groups_and_counts_calls_leases_commits_and_refusals(tmp_path):
    base = str(tmp_path / "base")
    (tmp_path / "base").mkdir()
    with mastering(base, sqlite_url(tmp_path / "state.db")) as url:
        fill(base)
        with pytest.raises(Refused):
            Someone(base).commit((1,))
        text = Client(url).ask("/metrics").body
    found = read(text)

    assert [found["tasks", "convert", each] for each in ("waiting", "leased", "dead")] == [0, 1, 1]
    assert found["tasks", "split", "waiting"] == 12
    assert 0 < found["oldest_seconds", "split"] < 600
    assert ("oldest_seconds", "total") not in found  # they wait for their bundle
    assert ("oldest_seconds", "convert") not in found
    assert (found["epoch",], found["undecided_writes",], found["sessions",]) == (1, 0, 3)
    assert found["commits_total",] == 10
    assert found["leases_total",] == 14
    assert found["calls_total", "configure"] == 4
    assert found["refusals_total", "commit", "LeaseLost"] == 1
    assert "2024-05" not in text  # no payload


def test_appends_to_the_journal_and_the_replay_are_measured(tmp_path):
    figures = Figures()
    place = create_workflow(MemoryBlackboard(), NAME)
    reign, state = take_over(place, figures.timed(State.load), address="http://here", start_heart=lambda _: None)
    figures.replayed()

    def ended(error: Exception) -> NoReturn:
        raise error

    async def main() -> str:
        master = Master(state, place.token, reign.epoch, MeasuredJournal(reign, figures), wall=time.time, ended=ended)
        access = Access(KnownTokens(Store(sqlite_url(tmp_path / "state.db"))), lambda: NOW)
        api = WorkflowApi(NAME, master, access, figures)
        master.start()
        for _ in range(3):
            await master.call(Hello(token=place.token))
        master.close()
        return generate_latest(api.service().figures()).decode()

    found = read(asyncio.run(main()))

    assert found["entry_seconds_count",] == found["entry_bytes_count",] == 3
    assert found["entry_bytes_sum",] > 3 * 32
    assert found["replay_seconds",] > 0


def test_more_groups_than_a_scrape_can_take_are_summed_up_and_groups_that_are_gone_are_left_out():
    figures = Figures()
    one = GroupView("big", 9, 0, 0, 0, None, is_paused=False, is_interdicted=False, is_full=False)
    many = [
        msgspec.structs.replace(one, name=f"day-{number}", waiting=number % 2 + 1) for number in range(MOST_GROUPS + 9)
    ]

    figures.show([one, *many], {"big": 100.0, "day-0": 50.0}, 130.0)
    found = read(generate_latest(figures.registry).decode())
    shown = [key for key in found if key[0] == "tasks"]
    assert len(shown) == 3 * (MOST_GROUPS + 1)
    assert sum(found[key] for key in shown) == 9 + sum(each.waiting for each in many)
    assert found["oldest_seconds", "big"] == 30

    figures.show([one], {}, 130.0)
    found = read(generate_latest(figures.registry).decode())
    assert [key for key in found if key[0] in {"tasks", "oldest_seconds"}] == [
        ("tasks", "big", each) for each in ("waiting", "leased", "dead")
    ]


def test_leases_that_end_unseen_such_as_those_of_dead_workers_are_forgotten():
    times, lease = TaskTimes(State()), Lease(token="t", session="s", seq=1, types=("split",))
    view = TaskView(0, 0, 0, "split", "split", msgspec.Raw(b"{}"), "leased", 0.0)
    for number in range(3_000):
        task = msgspec.structs.replace(view, id=number, unit=number)
        times.note(lease, Reply("t", 1, number, Answer(ids=(number,)), tasks=(task,)))

    assert len(times._begun) <= 1_001
