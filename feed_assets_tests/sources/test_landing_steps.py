"""Landing, stopped at or interleaved after each of its steps in storage: all of a file is visible, or nothing."""

import shutil
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path
from threading import RLock

import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.sources.absence import absences
from feed_assets.sources.landing import land, land_files
from feed_assets.sources.ledger import newest_landing
from feed_assets.sources.loading import load_source
from feed_assets.sources.plan import ABANDONED, sweep_staging
from feed_assets.sources.raw import raw_days, raw_frame
from feed_assets.sources.source_errors import LandingError
from feed_assets.sources.spec import Source
from feed_assets_tests.blackboard.shown import keys

NOW = datetime(2019, 12, 1, tzinfo=UTC)
SOURCE = load_source(Path(__file__).parent / "partners" / "portal_ads.yaml", KINDS)
IN_TOKYO = Source.of(
    {
        **SOURCE.model_dump(),
        "time_zone": "Asia/Tokyo",
        "columns": {**SOURCE.columns, "event_time": "to_timestamp_ntz(time)"},
    },
    KINDS,
)
"""The same source, once it is known that its times are those of Tokyo, nine hours ahead."""

LOG = (
    "impression,time,ad,campaign,user,placement,cost\n"
    "1,2019-11-24 05:00:00,a,c,u,1,0.1\n"
    "2,2019-11-25 06:00:00,a,c,u,1,0.1\n"
    "3,never,a,c,u,1,0.1\n"
)
IN_UTC = {"2019-11-24/05", "2019-11-25/06"}
NINE_HOURS_EARLIER = {"2019-11-23/20", "2019-11-24/21", "2019-11-25/06"}
"""Of 25 November no record is left, so an empty file says that the day has changed."""

SECOND_DAY = date(2019, 11, 25)

TOUCHED_BY_BOTH = IN_UTC | {"2019-11-23/20"}

OPERATIONS = {"page", "read", "create", "replace", "upload", "copy", "delete"}


class Stepped:
    """A blackboard that calls `before(operation, key)` before each operation, of which only one is under way."""

    def __init__(self, blackboard, before):
        self._blackboard, self._before, self._one_at_a_time = blackboard, before, RLock()

    def __getattr__(self, name):
        operation = getattr(self._blackboard, name)
        if name not in OPERATIONS:
            return operation

        def stepped(*arguments, **options):
            with self._one_at_a_time:
                self._before(name, arguments[0] if arguments else "")
                return operation(*arguments, **options)

        return stepped


class Killed:
    """What storage holds whenever a landing is killed: a copy of it from before each of its steps."""

    def __init__(self, folder, source, *logs, **more):
        self.folder, self.source, self.logs, self.more = folder, source, logs, more

    def states(self, spark, blackboard, root):
        """A blackboard for each step; `blackboard` itself, in the directory `root`, is that of the landing.

        Steps that only read leave storage as it was: those after each other share one.
        """
        found = []
        held = None

        def keep(operation, key):
            nonlocal held
            holds = {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
            if holds == held:
                found.append(found[-1])
                return
            held, state = holds, self.folder / str(len(found))
            if root.exists():
                shutil.copytree(root, state)
            found.append(LocalBlackboard(state))

        for _ in land_files(spark, Stepped(blackboard, keep), self.source, self.logs, now=NOW, **self.more):
            pass
        return found


def each_once(states):
    """The states, those of steps that share one only once."""
    return list({id(state): state for state in states}.values())


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    return path


def hours(blackboard):
    found = raw_days(blackboard, [SOURCE.key], date.min, date.max)
    return [f"{day}/{file.path[:2]}" for (_, day), raw in found.items() for file in raw.files]


def assert_landed_once(blackboard, landing):
    assert hours(blackboard) == sorted(IN_UTC)
    assert (landing.read, landing.landed) == (3, 2)
    assert len(keys(blackboard, "quarantine/")) == 1
    assert len(keys(blackboard, f"raw/.landed/{SOURCE.key}/entries/")) == 1
    assert len(keys(blackboard, f"raw/.landed/{SOURCE.key}/days/")) == len({hour[:10] for hour in IN_UTC})
    assert len(keys(blackboard, "raw/.sent/")) == 1
    assert len(keys(blackboard, f"raw/.landed/{SOURCE.key}/arrived/")) == 1
    assert len(keys(blackboard)) == 6 + len({hour[:10] for hour in IN_UTC})


def assert_landed_again(blackboard):
    assert set(hours(blackboard)) == NINE_HOURS_EARLIER
    assert len(keys(blackboard, "quarantine/")) == 1
    assert keys(blackboard, "raw/.staging/") == []


def records(spark, blackboard):
    """How many records each day has."""
    days = raw_days(blackboard, [SOURCE.key], date.min, date.max)
    return {str(day): raw_frame(spark, blackboard, SOURCE, raw).count() for (_, day), raw in days.items()}


def test_files_landed_at_once_and_killed_at_any_step_show_nothing_or_all_and_are_completed_by_landing_again(
    spark, tmp_path, log
):
    root, other = tmp_path / "landing", tmp_path / "other.csv"
    other.write_text(LOG.splitlines(keepends=True)[0] + "4,2019-11-26 07:00:00,a,c,u,1,0.1\n")
    states = Killed(tmp_path / "states", SOURCE, log, other).states(spark, LocalBlackboard(root), root)
    of_both = sorted({*IN_UTC, "2019-11-26/07"})
    seen = []

    for blackboard in each_once(states):
        seen.append(hours(blackboard))

        first, second = land_files(spark, blackboard, SOURCE, [log, other], now=NOW)

        assert (first.landed, second.landed) == (2, 1)
        assert hours(blackboard) == of_both
        assert len(keys(blackboard, f"raw/.landed/{SOURCE.key}/entries/")) == 2
        assert len(keys(blackboard, f"raw/.landed/{SOURCE.key}/days/")) == 3
        sweep_staging(blackboard, SOURCE.key, now=datetime.now(UTC) + 2 * ABANDONED)
        # Three raw files, one in quarantine, two files as they were sent, their two entries and three days,
        # and the hours of both landings.
        assert len(keys(blackboard)) == 3 + 1 + 2 + 2 + 3 + 2
    assert [each for number, each in enumerate(seen) if each not in seen[:number]] == [[], sorted(IN_UTC), of_both]
    assert len(states) > 20


def test_a_killed_landing_that_another_description_completes_adds_its_records_and_names_its_own_description(
    spark, tmp_path, log
):
    blackboard = LocalBlackboard(tmp_path / "blackboard")

    def kill(operation, key):
        if (operation, key[: len(ENTRY[1])]) == ENTRY:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        land(spark, Stepped(blackboard, kill), SOURCE, log, now=NOW)

    completed, before = (land(spark, blackboard, IN_TOKYO, log, now=NOW) for _ in range(2))

    assert (completed.already_landed, completed.landed, completed.description) == (False, 2, SOURCE.landing_digest)
    assert before.already_landed
    assert_landed_once(blackboard, completed)


def test_landing_again_killed_at_any_step_shows_the_old_landing_or_the_new_one_and_is_completed(spark, tmp_path, log):
    root = tmp_path / "landing"
    land(spark, LocalBlackboard(root), SOURCE, log, now=NOW)
    states = Killed(tmp_path / "states", IN_TOKYO, log, again=True).states(spark, LocalBlackboard(root), root)
    seen = []

    planned = [state for state in states if any(key.endswith("plan.json") for key in keys(state, "raw/.staging/"))]
    for blackboard in each_once((states[0], *planned, states[-1])):
        seen.append(frozenset(hours(blackboard)))

        land(spark, blackboard, IN_TOKYO, log, now=NOW, again=True)

        assert_landed_again(blackboard)
    assert records(spark, blackboard) == {"2019-11-23": 1, "2019-11-24": 1, "2019-11-25": 0}
    assert len(planned) > 10
    assert list(dict.fromkeys(seen)) == [IN_UTC, NINE_HOURS_EARLIER]


def test_a_day_of_a_superseded_landing_is_not_complete_by_it_though_the_next_landing_was_killed_after_its_entry(
    spark, tmp_path, log
):
    log.write_text(LOG.replace("2019-11-25 06", "2019-11-25 05"))
    in_utc, in_tokyo = (each.model_copy(update={"filter": "impression = '1'"}) for each in (SOURCE, IN_TOKYO))
    corrected = in_tokyo.model_copy(update={"null_tokens": ("none",)})
    blackboard = LocalBlackboard(tmp_path / "base")

    def kill(operation, key):
        if operation == "create" and "/days/" in key:
            raise KeyboardInterrupt

    land(spark, blackboard, in_utc, log, now=NOW)
    assert "filter leaves them out" in absences(blackboard, in_utc, [SECOND_DAY]).reason(SECOND_DAY)
    with pytest.raises(KeyboardInterrupt):
        land(spark, Stepped(blackboard, kill), in_tokyo, log, now=NOW, again=True)
    assert land(spark, blackboard, corrected, log, now=NOW, again=True).generation == 3

    assert absences(blackboard, corrected, [SECOND_DAY]).reason(SECOND_DAY) is None


def test_another_process_that_lands_the_same_between_any_two_steps_does_no_harm(spark, tmp_path, log):
    for step in count():
        blackboard = LocalBlackboard(tmp_path / str(step))
        steps, others = count(), []

        def land_the_same(operation, key, step=step, blackboard=blackboard, steps=steps, others=others):
            if next(steps) == step:
                others.append(land(spark, blackboard, SOURCE, log, now=NOW))

        landing = land(spark, Stepped(blackboard, land_the_same), SOURCE, log, now=NOW)

        assert_landed_once(blackboard, landing)
        if not others:
            break
        assert others[0].landed == landing.landed
    assert step > 10


PLAN, ENTRY = ("create", "raw/.staging/"), ("create", f"raw/.landed/{SOURCE.key}/entries/")


@pytest.mark.parametrize("moment", [("upload", "raw/.staging/"), PLAN, ENTRY])
@pytest.mark.parametrize("other", [IN_TOKYO, SOURCE], ids=["with the same description", "with another one"])
def test_of_two_that_land_again_at_once_the_last_counts_and_no_other(spark, tmp_path, log, moment, other):
    blackboard, others = LocalBlackboard(tmp_path / "blackboard"), []
    land(spark, blackboard, SOURCE.model_copy(update={"null_tokens": ("none",)}), log, now=NOW)

    def land_again(operation, key):
        if (operation, key[: len(moment[1])]) == moment and not others:
            others.append(None)
            others[0] = land(spark, blackboard, other, log, now=NOW, again=True)

    landing = land(spark, Stepped(blackboard, land_again), IN_TOKYO, log, now=NOW, again=True)

    # With its plan written, a landing is as good as done, and who comes then supersedes it.
    last = others[0] if moment == ENTRY else landing
    assert last.generation == (2 if other is IN_TOKYO else 3)
    assert newest_landing(blackboard, SOURCE.key, last.digest).description == last.description
    assert set(hours(blackboard)) == (NINE_HOURS_EARLIER if last is landing or other is IN_TOKYO else TOUCHED_BY_BOTH)


def test_a_landing_whose_staging_is_swept_while_it_is_at_work_fails_and_shows_nothing(spark, tmp_path, log):
    blackboard = LocalBlackboard(tmp_path / "blackboard")
    swept = []

    def sweep(operation, key):
        if operation == "create" and not swept:
            swept.append(sweep_staging(blackboard, SOURCE.key, now=datetime.now(UTC) + 2 * ABANDONED))

    with pytest.raises(LandingError, match=r"staged for .*log\.csv was removed meanwhile; land the file again"):
        land(spark, Stepped(blackboard, sweep), SOURCE, log, now=NOW)

    assert hours(blackboard) == []
    assert_landed_once(blackboard, land(spark, blackboard, SOURCE, log, now=NOW))
