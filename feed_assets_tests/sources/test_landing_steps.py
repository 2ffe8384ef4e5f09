"""Landing, stopped at or interleaved after each of its steps in storage: all of a file is visible, or nothing."""

from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path

import pytest

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.sources.landing import land
from feed_assets.sources.loading import load_source
from feed_assets.sources.raw import raw_days

NOW = datetime(2019, 12, 1, tzinfo=UTC)
SOURCE = load_source(Path(__file__).parent / "partners" / "portal_ads.yaml")
LOG = (
    "impression,time,ad,campaign,user,placement,cost\n"
    "1,2019-11-24 05:00:00,a,c,u,1,0.1\n"
    "2,2019-11-25 06:00:00,a,c,u,1,0.1\n"
    "3,never,a,c,u,1,0.1\n"
)
OPERATIONS = {"page", "read", "create", "replace", "upload", "copy", "delete"}


class CrashError(Exception):
    """The process was killed."""


class Interrupted:
    """A blackboard that calls `interrupt` before the operation number `step`, from 0, is carried out."""

    def __init__(self, blackboard, step, interrupt):
        self._blackboard, self._step, self._interrupt = blackboard, step, interrupt
        self._steps = count()
        self.reached = False

    def __getattr__(self, name):
        operation = getattr(self._blackboard, name)
        if name not in OPERATIONS:
            return operation

        def stepped(*arguments, **options):
            number = next(self._steps)
            if number >= self._step:
                self.reached = True
                self._interrupt(number)
            return operation(*arguments, **options)

        return stepped


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    return path


def visible(blackboard):
    found = raw_days(blackboard, [SOURCE.key], date.min, date.max)
    return sorted(f"{day}/{file.path}" for (_, day), raw in found.items() for file in raw.files)


def keys(blackboard, prefix=""):
    return [entry.key for entry in blackboard.page(prefix).entries]


def assert_landed_once(blackboard, landing):
    assert [path[:13] for path in visible(blackboard)] == ["2019-11-24/05", "2019-11-25/06"]
    assert (landing.read, landing.landed) == (3, 2)
    assert len(keys(blackboard, "quarantine/")) == 1
    assert len(keys(blackboard, "raw/.landed/")) == 1
    assert len(keys(blackboard)) == 4


def test_a_landing_killed_at_any_step_shows_nothing_or_all_and_is_completed_by_landing_again(spark, tmp_path, log):
    for step in count():
        blackboard = LocalBlackboard(tmp_path / str(step))

        def die(number):
            raise CrashError

        killed = Interrupted(blackboard, step, die)
        try:
            landing = land(spark, killed, SOURCE, log, now=NOW)
        except CrashError:
            assert len(visible(blackboard)) in {0, 2}
        else:
            assert not killed.reached
            break

        landing = land(spark, blackboard, SOURCE, log, now=NOW)

        assert_landed_once(blackboard, landing)
    assert step > 10


def test_another_process_that_lands_the_same_between_any_two_steps_does_no_harm(spark, tmp_path, log):
    for step in count():
        blackboard = LocalBlackboard(tmp_path / str(step))
        others = []

        def land_the_same(number, step=step, blackboard=blackboard, others=others):
            if number == step:
                others.append(land(spark, blackboard, SOURCE, log, now=NOW))

        interrupted = Interrupted(blackboard, step, land_the_same)

        landing = land(spark, interrupted, SOURCE, log, now=NOW)

        assert_landed_once(blackboard, landing)
        if not others:
            break
        assert others[0].landed == landing.landed
    assert step > 10
