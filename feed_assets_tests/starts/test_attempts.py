"""One attempt at a slot is alive at a time: requested, taken by its run, ended, tried again after a pause, forced."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from feed_assets.starts.attempt import LEASE, LOST_AFTER, Answer, Attempt, AttemptRefusedError, State, Verdict
from feed_assets.starts.attempts import LOG, Attempts, KnownRun, Wanted
from feed_assets.state.store import Store
from feed_assets_tests.starts.requesting import requested

FLOW, SLOT = "clean_ads", "2019-11-27"
PLACE = FLOW, SLOT
MINUTE = timedelta(minutes=1)


@dataclass
class Installation:
    """Attempts in a real database, a machine's clock, and the runs that Dagster knows by their keys."""

    attempts: Attempts
    time: datetime = datetime(2019, 11, 28, tzinfo=UTC)
    runs: dict[str, KnownRun] = field(default_factory=dict)

    def passes(self, duration: timedelta) -> None:
        self.time += duration

    def request(self, digest: str = "one", **options: int) -> Attempt | Verdict:
        """What a tick of the gate does for the slot."""
        self.attempts.end_lost(self.attempts.known(lambda attempt: self.runs.get(attempt.key, KnownRun.NONE)))
        (answer,) = requested(self.attempts, Wanted(FLOW, SLOT, digest, "due", **options))
        if isinstance(answer, Attempt):
            self.runs[answer.key] = KnownRun.UNFINISHED
        return answer

    def requested(self, digest: str = "one", **options: int) -> Attempt:
        answer = self.request(digest, **options)
        assert isinstance(answer, Attempt), answer
        return answer

    def refused(self, digest: str = "one") -> Verdict:
        answer = self.request(digest)
        assert isinstance(answer, Verdict), answer
        return answer

    def newest(self) -> Attempt:
        return self.attempts.newest(FLOW, [SLOT])[SLOT]

    def run_through(self, attempt: Attempt, state: State, *, reason: str = "") -> None:
        running = self.attempts.start([attempt.key], run=attempt.key, root=attempt.key)
        running.end(*PLACE, state, reason)


@pytest.fixture
def here(database: str) -> Installation:
    made: list[Installation] = []
    made.append(Installation(Attempts(Store(database), "file:///base", lambda: made[0].time, lambda: made[0].time)))
    return made[0]


def test_a_slot_is_requested_once_until_its_attempt_has_ended(here: Installation) -> None:
    first = here.requested()
    assert (first.number, first.state, first.tries) == (1, State.REQUESTED, 1)
    assert here.refused().answer is Answer.LIVES
    assert here.refused("two").answer is Answer.LIVES

    running = here.attempts.start([first.key], run="r1", root="r1")
    assert here.refused().reason == "attempt 1 of clean_ads 2019-11-27 runs as r1"
    running.end(*PLACE, State.PUBLISHED)

    assert here.refused().answer is Answer.OVER
    assert here.requested("two").number == 2


def test_each_change_is_an_event_that_tells_the_whole_attempt(here: Installation) -> None:
    attempt = here.requested()
    here.run_through(attempt, State.PUBLISHED)

    events = here.attempts.store.events(log=LOG)
    assert [event.kind for event in events] == [
        "attempt requested",
        "attempt running",
        "attempt published",
    ]
    assert events[-1].details["settled"] == "one"
    assert events[-1].details["key"] == attempt.key


def test_a_failed_attempt_is_tried_again_after_ten_and_twenty_minutes_and_then_given_up(here: Installation) -> None:
    for number, pause in ((1, 10), (2, 20)):
        attempt = here.requested()
        assert (attempt.number, attempt.tries) == (number, number)
        here.run_through(attempt, State.FAILED, reason="no disk")
        here.passes(pause * MINUTE - timedelta(seconds=1))
        paused = here.refused()
        assert (paused.answer, paused.until) == (Answer.PAUSED, here.time + timedelta(seconds=1))
        here.passes(timedelta(seconds=1))
    here.run_through(here.requested(), State.FAILED, reason="no disk")

    assert (here.newest().state, here.newest().reason) == (State.GIVEN_UP, "failed after 3 tries: no disk")
    here.passes(timedelta(days=1))
    assert here.refused().answer is Answer.OVER
    assert here.requested("two").tries == 1


def test_inputs_that_the_checks_rejected_are_over_and_others_are_not(here: Installation) -> None:
    here.run_through(here.requested(), State.REJECTED, reason="too many clicks")
    here.passes(timedelta(days=1))

    assert here.refused().answer is Answer.OVER
    assert here.requested("two").number == 2


def test_a_request_that_never_became_a_run_ends_without_counting_as_a_try(here: Installation) -> None:
    lost = here.requested()
    del here.runs[lost.key]
    here.passes(LOST_AFTER - timedelta(seconds=1))
    assert here.refused().answer is Answer.LIVES
    here.passes(timedelta(seconds=1))

    again = here.requested()
    assert (again.key, again.number, again.tries) == (lost.key, 1, 1)  # Dagster starts a key once
    assert [each.state for each in here.attempts.of(*PLACE)] == [State.REQUESTED]


def test_a_queued_attempt_waits_as_long_as_dagster_has_its_run(here: Installation) -> None:
    here.requested()
    here.passes(timedelta(days=3))
    assert here.refused().answer is Answer.LIVES


def test_a_run_under_way_keeps_its_request_young_for_daemons_that_do_not_know_it(here: Installation) -> None:
    attempt = here.requested()
    for _ in range(3):
        here.passes(LOST_AFTER / 2)
        assert here.refused().answer is Answer.LIVES
    here.attempts.end_lost(here.attempts.known(lambda _: KnownRun.NONE))  # of another Dagster
    assert here.newest().state is State.REQUESTED
    here.runs[attempt.key] = KnownRun.SUCCEEDED
    assert here.refused().answer is Answer.PAUSED
    assert here.newest().state is State.ENDED


def test_an_attempt_ends_with_its_run_and_not_with_a_lease_while_its_run_is_under_way(here: Installation) -> None:
    attempt = here.requested()
    here.attempts.start([attempt.key], run="r1", root="r1")
    here.passes(2 * LEASE)
    assert here.refused().answer is Answer.LIVES
    here.runs[attempt.key] = KnownRun.FAILED
    here.refused()
    assert here.newest().state is State.FAILED


def test_a_run_that_ended_before_its_process_took_the_attempt_counts_as_failed(here: Installation) -> None:
    attempt = here.requested()
    here.runs[attempt.key] = KnownRun.FAILED
    assert here.refused().answer is Answer.PAUSED
    assert here.newest().state is State.FAILED


def test_no_attempt_follows_while_a_lease_lives_even_if_the_run_was_deleted(here: Installation) -> None:
    attempt = here.requested()
    here.attempts.start([attempt.key], run="r1", root="r1")
    del here.runs[attempt.key]
    here.passes(LEASE - timedelta(seconds=1))
    assert here.refused().answer is Answer.LIVES
    here.passes(timedelta(seconds=1))

    assert here.refused().answer is Answer.PAUSED
    assert here.newest().state is State.UNKNOWN
    here.passes(10 * MINUTE)
    assert here.requested().tries == 2


def test_an_attempt_that_is_not_the_newest_is_refused_at_its_start(here: Installation) -> None:
    old = here.requested()
    del here.runs[old.key]
    here.passes(LOST_AFTER)
    new = here.requested("two")

    with pytest.raises(AttemptRefusedError, match=r"attempt 2 of clean_ads 2019-11-27 \(requested\) follows its"):
        here.attempts.start([old.key], run="r1", root="r1")
    assert [each.state for each in here.attempts.of(*PLACE)] == [State.REFUSED, State.REQUESTED]
    here.attempts.start([new.key], run="r2", root="r2")
    assert here.newest().state is State.RUNNING


def test_a_process_that_wakes_up_keeps_the_next_attempt_from_working_and_its_result_counts(here: Installation) -> None:
    first = here.requested()
    sleeping = here.attempts.start([first.key], run="r1", root="r1")
    del here.runs[first.key]
    here.passes(LEASE)
    here.refused()
    here.passes(10 * MINUTE)
    second = here.requested()
    leases = sleeping.holding.leases
    assert leases.renew(sleeping.leases[PLACE], LEASE, now=here.time) is not None

    with pytest.raises(AttemptRefusedError, match="a process of an attempt before"):
        here.attempts.start([second.key], run="r2", root="r2")
    assert here.refused().answer is Answer.LIVES

    sleeping.end(*PLACE, State.PUBLISHED)
    assert [each.state for each in here.attempts.of(*PLACE)] == [State.PUBLISHED, State.REFUSED]
    assert here.refused().answer is Answer.OVER


def test_processes_of_one_run_share_its_attempt(here: Installation) -> None:
    attempt = here.requested()
    one = here.attempts.start([attempt.key], run="r1", root="r1")
    other = here.attempts.start([attempt.key], run="r1", root="r1")
    leases = one.holding.leases
    assert leases.renew(one.leases[PLACE], LEASE, now=here.time) is not None
    assert leases.renew(other.leases[PLACE], LEASE, now=here.time) is not None


@pytest.mark.parametrize("ended", [State.FAILED, State.PUBLISHED, None], ids=str)
def test_a_run_that_is_executed_again_keeps_the_attempt_of_its_root(here: Installation, ended: State | None) -> None:
    attempt = here.requested()
    first = here.attempts.start([attempt.key], run="r1", root="r1")
    if ended is not None:
        first.end(*PLACE, ended)

    again = here.attempts.start([attempt.key], run="r2", root="r1")
    assert first.holding.leases.renew(first.leases[PLACE], LEASE, now=here.time) is None
    assert (here.newest().number, here.newest().state, here.newest().run) == (1, State.RUNNING, "r2")
    again.end(*PLACE, State.PUBLISHED)
    assert here.refused().answer is Answer.OVER


def test_a_run_with_the_tags_of_another_is_refused(here: Installation) -> None:
    attempt = here.requested()
    here.attempts.start([attempt.key], run="r1", root="r1")
    with pytest.raises(AttemptRefusedError, match="belongs to run r1"):
        here.attempts.start([attempt.key], run="r2", root="r2")
    assert here.newest().run == "r1"


def test_a_forced_start_is_on_record_and_refused_while_another_attempt_lives(here: Installation) -> None:
    first = here.requested()
    with pytest.raises(AttemptRefusedError, match="attempt 1 of clean_ads 2019-11-27 is requested, or its run"):
        here.attempts.force([PLACE], run="f1", root="f1", by="ui")
    here.run_through(first, State.PUBLISHED)

    forced = here.attempts.force([PLACE], run="f2", root="f2", by="ui")
    assert (here.newest().number, here.newest().forced, here.newest().state) == (2, "ui", State.RUNNING)
    assert (here.newest().forced_key, first.forced_key) == (here.newest().key, "")
    with pytest.raises(AttemptRefusedError, match="attempt 2 of clean_ads 2019-11-27 runs as f2"):
        here.attempts.force([PLACE], run="f3", root="f3", by="backfill")
    assert here.refused("two").answer is Answer.LIVES
    forced.end(*PLACE, State.FAILED)

    assert here.refused("one").answer is Answer.OVER  # its result is still there
    assert here.requested("two").tries == 1


def test_a_forced_start_of_a_range_takes_all_its_slots_or_none(here: Installation) -> None:
    here.requested()
    range_of = [(FLOW, day) for day in ("2019-11-26", SLOT)]
    with pytest.raises(AttemptRefusedError):
        here.attempts.force(range_of, run="b", root="b", by="backfill")
    assert here.attempts.of(FLOW, "2019-11-26") == []

    here.run_through(here.newest(), State.PUBLISHED)
    with here.attempts.force(range_of, run="b", root="b", by="backfill") as running:
        assert len(here.attempts.alive()) == len(running.attempts) == 2
    again = here.attempts.force(range_of, run="b2", root="b", by="backfill")
    assert {each.number for each in again.attempts.values()} == {1, 2}


def test_a_lost_database_repeats_no_key_and_refuses_runs_of_the_lost_one(
    here: Installation, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = here.requested()
    here.attempts = Attempts(
        Store(f"sqlite:///{tmp_path_factory.mktemp('new')}/state.db"),
        "file:///base",
        here.attempts.now,
        here.attempts.now,
    )

    with pytest.raises(AttemptRefusedError, match="not in the state database"):
        here.attempts.start([before.key], run="r1", root="r1")
    assert here.requested().key != before.key


def test_giving_up_is_on_record_and_other_inputs_may_start(here: Installation) -> None:
    given_up = here.attempts.give_up(FLOW, SLOT, "one", reason="not complete after 6 h")
    assert isinstance(given_up, Attempt)
    assert here.refused().reason.endswith("was given up: not complete after 6 h")
    assert here.requested("two").number == 2
    lives = here.attempts.give_up(FLOW, SLOT, "two", reason="not complete after 6 h")
    assert isinstance(lives, Verdict)
    assert lives.answer is Answer.LIVES


def test_a_look_tells_what_a_request_would_and_changes_nothing(here: Installation) -> None:
    here.requested()
    found = here.attempts.standing([PLACE, (FLOW, "2019-11-28")])
    answers = {slot: each.verdict("one", now=here.time).answer for (_, slot), each in found.items()}
    assert answers == {SLOT: Answer.LIVES, "2019-11-28": Answer.MAY_START}
    assert len(here.attempts.store.events(log=LOG)) == 1


def test_the_last_attempts_of_a_slot_are_kept(here: Installation) -> None:
    for number in range(25):
        here.run_through(here.requested(str(number)), State.PUBLISHED)
    assert [each.number for each in here.attempts.of(*PLACE)] == list(range(6, 26))


def test_two_requests_of_one_transaction_for_a_slot_make_one_attempt(here: Installation) -> None:
    one, other = requested(here.attempts, Wanted(FLOW, SLOT, "one"), Wanted(FLOW, SLOT, "one"))
    assert isinstance(one, Attempt)
    assert isinstance(other, Verdict)
