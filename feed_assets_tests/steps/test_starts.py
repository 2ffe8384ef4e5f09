"""A run whose outputs have a trigger publishes one update of each start, with an audit and without."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.file_feed import Column, invalidate, read_record
from feed_assets.file_feed.errors import StartTakenError
from feed_assets.file_feed.reading import latest
from feed_assets.quality.row_rules import not_empty
from feed_assets.quality.subject import Tolerance
from feed_assets.steps.audit import audit_output
from feed_assets.steps.run import Output, Run
from feed_assets.steps.step import Step
from feed_assets_tests.harness import AS_OF

DAY = "2019-11-24"
COUNTS = FeedDeclaration("counts/v1.0", (Column("id", "bigint"),))
TOLERANCE = Tolerance(quarantined_share=0.5, usual_rows_factor=2, recent=7)


@pytest.fixture
def run(desk, spark):
    """Runs by their id; each has the same output of one start, or of a forced one."""

    def made(run_id, output, forced=""):
        log = logging.getLogger(__name__)
        starts = {} if forced is None else {output.place: forced}
        return Run(run_id, run_id, desk.board, lambda: spark, lambda: AS_OF, log, starts)

    return made


@pytest.fixture
def published(run, spark):
    """The update that a run publishes, or finds published."""

    def made(run_id, output, forced=""):
        step = Step.begin(of := run(run_id, output, forced), [output])
        staged = step.stage(output.place, spark.range(3))
        if not output.declaration.audited:
            return staged.claim.name, step.publish_start(staged).claim.name
        audited = audit_output(of, output, [not_empty()], before=[], tolerance=TOLERANCE)
        assert not audited.blocking
        assert [outcome.passed for outcome in audited.outcomes] == [True]
        return staged.claim.name, audited.update

    return made


@pytest.mark.parametrize("audited", [False, True], ids=["without an audit", "audited"])
def test_the_second_run_of_a_start_finds_the_update_of_the_first(desk, published, audited):
    output = Output(replace(COUNTS, audited=audited), DAY, None, "1", "configured")
    first, in_force = published("first", output)
    assert first == in_force

    second, found = published("second", output)
    assert (found, latest(desk.feed(COUNTS.location), DAY, now=AS_OF).name) == (first, first)
    record = read_record(desk.feed(COUNTS.location), DAY, second)
    assert record.state == "rejected"
    assert "made by the same code from the same inputs, and is published" in record.history[-1].reason

    forced, found = published("third", output, "store:counts:2")
    assert (found, latest(desk.feed(COUNTS.location), DAY, now=AS_OF).name) == (forced, forced)


def test_a_run_whose_update_was_not_the_first_of_its_start_is_audited_again_by_the_first(desk, run, published):
    output = Output(replace(COUNTS, audited=True), DAY, None, "1", "configured")
    first, _ = published("first", output)
    published("second", output)

    again = audit_output(run("second", output), output, [not_empty()], before=[], tolerance=TOLERANCE)
    assert (again.update, again.blocking, again.candidate.staged) == (first, [], None)
    assert "was published before" in again.done


def test_runs_without_a_trigger_publish_as_often_as_they_run(desk, published):
    output = Output(COUNTS, DAY, None, "1", "configured")
    for run_id in ("first", "second"):
        made, in_force = published(run_id, output, None)
        assert made == in_force
        assert "start" not in read_record(desk.feed(COUNTS.location), DAY, made).facts.details


@pytest.mark.parametrize("audited", [False, True], ids=["without an audit", "audited"])
def test_an_update_that_was_taken_out_of_force_needs_a_forced_start(desk, published, audited):
    output = Output(replace(COUNTS, audited=audited), DAY, None, "1", "configured")
    first, _ = published("first", output)
    invalidate(desk.feed(COUNTS.location), DAY, first, reason="wrong", author="me", now=AS_OF)

    with pytest.raises(StartTakenError, match="force a new start"):
        published("second", output)
    assert latest(desk.feed(COUNTS.location), DAY, now=AS_OF) is None
