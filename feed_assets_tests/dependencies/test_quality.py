"""Marks, checks and backfills of slots: the text's story, commands that are refused, and events."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from itertools import product

import pytest

from feed_assets.datasets.containment import base_set
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import SlotError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.members import Hierarchy, Member
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.quality.events import Change, Kind
from feed_assets.dependencies.quality.marks import (
    Accepts,
    Author,
    Backfill,
    CheckResult,
    Computation,
    Mark,
    Profile,
    QualityError,
    QualityState,
    RefusedMoveError,
    Signature,
    SlotProfile,
    SlotRevision,
)
from feed_assets.dependencies.quality.moves import MOVES, Command
from feed_assets.dependencies.quality.overlaps import footprint
from feed_assets.dependencies.quality.slot_quality import SlotQuality

START = date(2026, 1, 1)
FOO = Dataset.flat("raw/foo", Grain.FIVE_MINUTES, first=START)
PRE_AGGREGATE = Dataset.flat("pre/v1", Grain.HOUR, first=START)
REVENUE = Dataset.flat("revenue/v1", Grain.DAY, first=START)
HOUR = FOO.slot("2026-11-27T15")
WINDOW = FOO.slot("2026-11-27T15:30", grain=Grain.FIVE_MINUTES)
OTHER_WINDOW = FOO.slot("2026-11-27T15:05", grain=Grain.FIVE_MINUTES)
PRE_HOUR = PRE_AGGREGATE.slot("2026-11-27T15")
DAY = REVENUE.slot("2026-11-27")
ANN, BOB, ROWS, NULLS = Author.person("ann"), Author.person("bob"), Author.check("rows"), Author.check("nulls")
BAD, BACKFILLED, PASSED, UNCHECKED = QualityState


class Present:
    """Present revisions, as tests set them."""

    def __init__(self) -> None:
        self.numbers: dict[Slot, int] = {}

    def revision_of(self, slot: Slot) -> int:
        return self.numbers.get(slot, 1)


class Driver:
    """Quality of three datasets, with acts in few words."""

    def __init__(self, *, required: dict[str, frozenset[str]] | None = None) -> None:
        self.present = Present()
        datasets = {each.name: each for each in (FOO, PRE_AGGREGATE, REVENUE)}
        self.datasets = datasets
        self.quality = SlotQuality(datasets, self.present, required or {})
        self.acts = 0

    def on(self, slot: Slot, revision: int | None = None) -> SlotRevision:
        return SlotRevision(slot, revision or self.present.revision_of(slot) or 1)

    def mark(self, slot: Slot, author: Author = ROWS, *, reason: str = "bots", revision: int | None = None) -> Change:
        self.acts += 1
        signature = Signature(author, self.acts, reason)
        return self.quality.mark(Mark(f"m{self.acts}", self.on(slot, revision), signature))

    def unmark(self, mark_id: str, author: Author) -> Change:
        return self.quality.unmark(mark_id, Signature(author, 9, "a mistake"))

    def check(self, slot: Slot, check: str = "rows", *, passed: bool = True, revision: int | None = None) -> Change:
        return self.quality.checked(CheckResult(self.on(slot, revision), check, passed, 5))

    def compute(self, output: Slot, *inputs: Slot) -> Change:
        return self.quality.computed(Computation(self.on(output), tuple(map(self.on, inputs)), "run", 5))

    def reopen(self, slot: Slot, *, equal: bool = False) -> Change:
        """Reopen a base set; it is complete again at once."""
        dataset = self.datasets[slot.dataset]
        around = footprint(dataset, base_set(dataset, slot))
        slots = [Slot(dataset.name, *place, start) for place, starts in around.items() for start in starts]
        ended = [self.on(each) for each in slots]
        for each in slots:
            self.present.numbers[each] = self.present.revision_of(each) + 1
        self.acts += 1
        change = self.quality.reopened(ended, self.acts, at=7)
        if equal:
            return self.quality.reinstated(ended, self.acts, at=8)
        return change

    def open_backfill(self, *slots: Slot, backfill_id: str = "b1") -> Change:
        return self.quality.open_backfill(Backfill(backfill_id, slots, Signature(ANN, 6, "bots removed")))

    def close_backfill(self, backfill_id: str = "b1", *, abandoned: bool = False) -> Change:
        return self.quality.close_backfill(backfill_id, Signature(ANN, 8, "complete"), abandoned=abandoned)

    def state(self, slot: Slot) -> QualityState:
        return self.quality.answer(slot).state


@pytest.fixture
def driver() -> Driver:
    return Driver()


# D34, D38: the text's story


def test_a_mark_on_an_hour_makes_exactly_its_windows_and_what_contains_it_bad(driver: Driver):
    driver.compute(PRE_HOUR, HOUR)
    change = driver.mark(HOUR)
    ranges = {(each.slots.dataset, str(each.slots.grain)): each.slots.size for each in change.events}
    assert ranges == {
        ("raw/foo", "5min"): 12,
        ("raw/foo", "10min"): 6,
        **{("raw/foo", grain): 1 for grain in ("hour", "day", "week", "month", "quarter")},
        **{("pre/v1", grain): 1 for grain in ("hour", "day", "week", "month", "quarter")},
    }
    windows = next(each for each in change.events if each.slots.grain is Grain.FIVE_MINUTES)
    assert (windows.slots.first, windows.slots.last) == (HOUR.start, HOUR.start + 3300)
    for slot in (HOUR, WINDOW, FOO.slot("2026-11-27"), FOO.slot("2026-Q4"), PRE_HOUR):
        assert driver.state(slot) is BAD
    for slot in (FOO.slot("2026-11-27T16"), FOO.slot("2026-11-28"), PRE_AGGREGATE.slot("2026-11-27T14")):
        assert driver.state(slot) is UNCHECKED


def test_after_a_backfill_and_a_passed_check_the_flags_are_gone_at_all_levels(driver: Driver):
    driver.mark(HOUR)
    driver.open_backfill(HOUR)
    driver.reopen(HOUR)
    assert {driver.state(slot) for slot in (HOUR, WINDOW, FOO.slot("2026-11-27"))} == {BACKFILLED}
    driver.close_backfill()
    change = driver.check(HOUR)
    assert driver.state(HOUR) is PASSED
    assert {driver.state(slot) for slot in (WINDOW, FOO.slot("2026-11-27"))} == {UNCHECKED}
    assert [(each.kind, each.slots.grain) for each in change.events] == [(Kind.PASSED, Grain.HOUR)]


def test_a_window_invalid_for_another_reason_stays(driver: Driver):
    driver.mark(HOUR, ROWS, reason="too few rows")
    driver.mark(WINDOW, ANN, reason="bots")
    assert driver.quality.answer(HOUR).reasons == {"too few rows", "bots"}
    driver.reopen(OTHER_WINDOW)
    driver.check(HOUR)
    assert driver.state(OTHER_WINDOW) is UNCHECKED
    for slot in (WINDOW, HOUR, FOO.slot("2026-11-27")):
        assert driver.state(slot) is BAD
        assert driver.quality.answer(slot).reasons == {"bots"}


def test_a_result_that_is_not_computed_again_stays_bad_and_says_why(driver: Driver):
    driver.compute(PRE_HOUR, HOUR)
    driver.compute(DAY, PRE_AGGREGATE.slot("2026-11-27"))
    driver.mark(WINDOW, ANN, reason="bots")
    driver.reopen(HOUR)
    driver.check(HOUR)
    assert driver.state(HOUR) is PASSED
    assert driver.state(PRE_HOUR) is BAD
    assert driver.state(DAY) is BAD
    (path,) = driver.quality.why_bad(DAY)
    assert str(path) == (
        "bots (person ann, mark m1), on raw/foo - 5min 2026-11-27T15:30Z, revision 1, by way of "
        "revenue/v1 - day 2026-11-27, revision 1 < pre/v1 - day 2026-11-27, revision 1 < "
        "pre/v1 - hour 2026-11-27T15:00Z, revision 1 < raw/foo - hour 2026-11-27T15:00Z, revision 1. "
        "raw/foo - 5min 2026-11-27T15:30Z has a newer revision: compute again from that"
    )
    driver.reopen(PRE_HOUR)
    driver.compute(PRE_HOUR, HOUR)
    assert driver.state(PRE_HOUR) is BACKFILLED
    assert driver.state(DAY) is BAD, "it holds what it read before"
    driver.reopen(DAY)
    driver.compute(DAY, PRE_AGGREGATE.slot("2026-11-27"))
    driver.check(DAY)
    assert driver.state(DAY) is PASSED


def test_a_result_computed_from_a_bad_slot_is_bad_from_its_start(driver: Driver):
    driver.mark(HOUR)
    change = driver.compute(PRE_HOUR, HOUR)
    assert {each.cause for each in change.events} == {"computed"}
    assert driver.state(PRE_HOUR) is BAD


def test_a_result_with_equal_content_computed_from_a_good_revision_is_good(driver: Driver):
    driver.compute(PRE_HOUR, HOUR)
    driver.mark(HOUR)
    driver.reopen(HOUR)
    change = driver.compute(PRE_HOUR, HOUR)
    assert {each.kind for each in change.events} == {Kind.UNMARKED}
    assert driver.state(PRE_HOUR) is UNCHECKED


def test_an_abandoned_backfill_leaves_the_slot_as_bad_as_it_was(driver: Driver):
    driver.compute(PRE_HOUR, HOUR)
    driver.mark(HOUR)
    driver.open_backfill(HOUR)
    change = driver.reopen(HOUR, equal=True)
    driver.close_backfill(abandoned=True)
    assert {(each.kind, each.cause) for each in change.events} == {(Kind.MARKED, "reinstated")}
    assert driver.quality.answer(HOUR).revision == 2
    assert driver.state(HOUR) is BAD
    assert driver.state(PRE_HOUR) is BAD


def test_a_mark_that_a_late_check_sets_on_an_ended_revision_reaches_who_read_it(driver: Driver):
    driver.compute(PRE_HOUR, HOUR)
    driver.reopen(WINDOW)
    driver.mark(HOUR, revision=1)
    assert driver.state(HOUR) is BACKFILLED
    assert driver.state(PRE_HOUR) is BAD


def test_a_slot_that_crosses_a_bad_slot_is_bad():
    members = tuple(Member(path, START) for path in ("eu/fr", "us/ny"))
    ads = Dataset(
        "raw/ads", (Grain.HOUR, Grain.DAY, Grain.WEEK, Grain.MONTH), Hierarchy(("region", "country"), members)
    )
    quality = SlotQuality({"raw/ads": ads}, Present())
    quality.mark(Mark("m", SlotRevision(ads.slot("2026-W49", "eu/fr"), 1), Signature(ANN, 1, "bots")))
    for start, member in [("2026-11", "-"), ("2026-12", "eu"), ("2026-11-30T15", "-"), ("2026-12-01", "eu/fr")]:
        assert quality.state(ads.slot(start, member)) is BAD
    for start, member in [("2026-11", "us"), ("2026-11-29T15", "-"), ("2026-12-01", "us/ny")]:
        assert quality.state(ads.slot(start, member)) is UNCHECKED


# States


def test_a_slot_passes_by_its_own_checks_or_by_those_of_its_whole_base_set(driver: Driver):
    hours = [FOO.slot(f"2026-11-27T{hour:02}") for hour in range(24)]
    for hour in hours[:-1]:
        assert [each.slots.grain for each in driver.check(hour).events] == [Grain.HOUR]
    assert driver.state(FOO.slot("2026-11-27")) is UNCHECKED
    assert [each.slots.grain for each in driver.check(hours[-1]).events] == [Grain.HOUR, Grain.DAY]
    assert driver.state(FOO.slot("2026-11-27")) is PASSED
    assert driver.state(WINDOW) is UNCHECKED


def test_a_slot_passes_only_with_all_checks_that_its_dataset_requires():
    driver = Driver(required={"raw/foo": frozenset({"rows", "nulls"})})
    driver.check(HOUR, "rows")
    assert driver.state(HOUR) is UNCHECKED
    driver.check(HOUR, "nulls")
    assert driver.state(HOUR) is PASSED


def test_a_reopening_of_a_good_slot_leaves_it_unchecked(driver: Driver):
    driver.check(HOUR)
    driver.reopen(WINDOW)
    assert driver.state(HOUR) is UNCHECKED


def test_a_mark_of_a_check_ends_its_pass_and_a_pass_removes_its_own_marks_only(driver: Driver):
    driver.check(HOUR)
    driver.mark(HOUR, ROWS, reason="too few rows")
    driver.mark(HOUR, NULLS, reason="nulls")
    driver.check(HOUR)
    assert driver.quality.answer(HOUR).reasons == {"nulls"}
    mark = driver.quality.known_mark("m1")
    assert mark is not None
    assert mark.removal == Signature(ROWS, 5, "the check passes")
    driver.check(HOUR, "nulls")
    assert driver.state(HOUR) is PASSED


@pytest.mark.parametrize(
    ("accepts", "states"),
    [
        (Accepts.PASSED, {PASSED}),
        (Accepts.NOT_BAD, {BACKFILLED, PASSED, UNCHECKED}),
        (Accepts.ANY, {BAD, BACKFILLED, PASSED, UNCHECKED}),
    ],
)
def test_a_trigger_accepts_the_states_that_it_declares(accepts: Accepts, states: set[QualityState]):
    assert {state for state in QualityState if accepts.accepts(state)} == states


# D10


def test_d10_who_consumed_a_slot_is_answered_for_slots_that_overlap_it(driver: Driver):
    driver.compute(PRE_HOUR, HOUR)
    driver.reopen(HOUR)
    driver.compute(DAY, FOO.slot("2026-11-27"))
    first, second = driver.on(PRE_HOUR, 1), driver.on(DAY, 1)
    assert [each.output for each in driver.quality.consumers(WINDOW)] == [first, second]
    assert [each.output for each in driver.quality.consumers(WINDOW, 1)] == [first]
    assert [each.output for each in driver.quality.consumers(WINDOW, 2)] == [second]
    assert driver.quality.inputs(second) == (driver.on(FOO.slot("2026-11-27"), 2),)


# D40: which commands are allowed


def _bad(driver: Driver) -> None:
    driver.mark(HOUR, ANN)


def _backfilled(driver: Driver) -> None:
    driver.mark(HOUR, ANN)
    driver.reopen(HOUR)


STATES: dict[QualityState, Callable[[Driver], object]] = {
    BAD: _bad,
    BACKFILLED: _backfilled,
    PASSED: lambda driver: driver.check(HOUR, "audit"),
    UNCHECKED: lambda _driver: None,
}
COMMANDS: dict[Command, Callable[[Driver], object]] = {
    Command.MARK: lambda driver: driver.mark(HOUR, ANN),
    Command.UNMARK: lambda driver: [
        driver.unmark(each.id, ANN) for each in driver.quality.answer(HOUR).marks or [Mark("none", *_NOTHING)]
    ],
    Command.CHECK: lambda driver: driver.check(HOUR, "rows"),
    Command.OPEN_BACKFILL: lambda driver: driver.open_backfill(HOUR, backfill_id="b2"),
    Command.CLOSE_BACKFILL: lambda driver: driver.close_backfill("b1"),
}
_NOTHING = (SlotRevision(HOUR, 1), Signature(ANN, 0, "none"))
FOLLOWING = {(Command.MARK, state): BAD for state in QualityState} | {
    (Command.UNMARK, BAD): UNCHECKED,
    (Command.CHECK, BAD): BAD,
    (Command.CHECK, BACKFILLED): PASSED,
    (Command.CHECK, PASSED): PASSED,
    (Command.CHECK, UNCHECKED): PASSED,
    **{
        (command, state): state for command in (Command.OPEN_BACKFILL, Command.CLOSE_BACKFILL) for state in QualityState
    },
}


@pytest.mark.parametrize(("command", "state", "is_open"), [*product(Command, QualityState, [False, True])])
def test_each_command_is_allowed_or_refused_as_the_table_says(command: Command, state: QualityState, is_open: bool):
    driver = Driver()
    STATES[state](driver)
    if is_open:
        driver.open_backfill(HOUR)
    assert driver.state(HOUR) is state
    move = MOVES[command]
    facts = [*driver.quality.facts()]
    if state in move.states and move.backfill_open in {None, is_open}:
        COMMANDS[command](driver)
        assert driver.state(HOUR) is FOLLOWING[command, state]
    else:
        with pytest.raises(QualityError):
            COMMANDS[command](driver)
        assert [*driver.quality.facts()] == facts, "nothing was changed"
        assert driver.state(HOUR) is state


def test_a_refused_command_names_the_present_state(driver: Driver):
    driver.mark(HOUR, ANN, reason="bots")
    driver.open_backfill(HOUR)
    with pytest.raises(RefusedMoveError) as refused:
        driver.open_backfill(WINDOW, backfill_id="b2")
    assert str(refused.value) == (
        "Cannot open a backfill of raw/foo - 5min 2026-11-27T15:30Z: raw/foo - 5min 2026-11-27T15:30Z, revision 1 is "
        "bad: bots (person ann, mark m1); the backfill b1 is open."
    )


@pytest.mark.parametrize(
    ("owner", "remover", "allowed"),
    [
        (ANN, ANN, True),
        (ANN, BOB, True),
        (ANN, ROWS, False),
        (ROWS, ROWS, True),
        (ROWS, NULLS, False),
        (ROWS, ANN, False),
    ],
)
def test_a_check_removes_its_own_marks_and_people_those_of_people(owner: Author, remover: Author, allowed: bool):
    driver = Driver()
    driver.mark(HOUR, owner)
    if allowed:
        driver.unmark("m1", remover)
        assert driver.state(HOUR) is UNCHECKED
        with pytest.raises(RefusedMoveError, match="removed already"):
            driver.unmark("m1", Author.person("carl") if remover == ANN else remover._replace(name="else"))
    else:
        with pytest.raises(QualityError, match="cannot remove it"):
            driver.unmark("m1", remover)
        assert driver.state(HOUR) is BAD


def test_repeated_commands_change_nothing(driver: Driver):
    mark = Mark("m", driver.on(HOUR), Signature(ANN, 1, "bots"))
    removal = Signature(ANN, 2, "no bots")
    for act in (
        lambda: driver.quality.mark(mark),
        lambda: driver.quality.unmark("m", removal),
        lambda: driver.check(HOUR),
        lambda: driver.compute(PRE_HOUR, HOUR),
        lambda: driver.open_backfill(HOUR),
        driver.close_backfill,
        lambda: driver.quality.reopened([driver.on(HOUR, 1)], 1, at=1),
    ):
        assert act().facts
        assert act() == Change()
    assert driver.quality.mark(mark) == Change(), "the mark stays removed"


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda driver: driver.mark(HOUR._replace(dataset="raw/none")), QualityError),
        (lambda driver: driver.mark(HOUR._replace(start=HOUR.start + 1)), SlotError),
        (lambda driver: driver.mark(HOUR, revision=2), QualityError),
        (lambda driver: driver.mark(HOUR, reason=" "), QualityError),
        (lambda driver: driver.mark(HOUR, Author.person("")), QualityError),
        (lambda driver: driver.unmark("none", ANN), QualityError),
        (lambda driver: driver.check(HOUR, ""), QualityError),
        (lambda driver: driver.check(HOUR, revision=3), QualityError),
        (lambda driver: driver.open_backfill(), QualityError),
        (lambda driver: driver.open_backfill(FOO.slot("2026-11-28")), RefusedMoveError),
        (lambda driver: driver.close_backfill("none"), QualityError),
        (lambda driver: driver.compute(PRE_HOUR, HOUR._replace(dataset="raw/none")), QualityError),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(act: Callable[[Driver], object], error: type[Exception]):
    driver = Driver()
    driver.present.numbers[FOO.slot("2026-11-28")] = 0
    with pytest.raises(error):
        act(driver)
    assert not [*driver.quality.facts()]


def test_a_slot_that_is_not_complete_yet_may_be_marked_for_its_first_revision(driver: Driver):
    driver.present.numbers[HOUR] = 0
    driver.mark(HOUR, revision=1)
    assert driver.state(HOUR) is BAD
    driver.present.numbers[HOUR] = 1
    assert driver.state(HOUR) is BAD


# Events, memory


def test_a_mark_at_47_members_is_one_event_for_each_member_and_grain():
    members = tuple(Member(f"m{number}", START) for number in range(47))
    ads = Dataset("raw/ads", FOO.grains[:4], Hierarchy(("member",), members))
    quality = SlotQuality({"raw/ads": ads}, Present())
    change = quality.mark(Mark("m", SlotRevision(ads.slot("2026-11-27"), 1), Signature(ANN, 1, "bots")))
    assert len(change.events) == 48 * 4
    assert sum(each.slots.size for each in change.events) == 48 * (288 + 144 + 24 + 1)
    assert not any(each.parts for each in change.events)


def test_a_range_with_gaps_names_its_parts(driver: Driver):
    for hour in (9, 10, 15):
        driver.compute(PRE_AGGREGATE.slot(f"2026-11-27T{hour:02}"), HOUR)
    change = driver.mark(HOUR)
    hours = next(each for each in change.events if each.slots[:3] == ("pre/v1", "-", Grain.HOUR))
    nine, fifteen = PRE_AGGREGATE.slot("2026-11-27T09").start, PRE_HOUR.start
    assert (hours.slots.first, hours.slots.last, hours.slots.size) == (nine, fifteen, 3)
    assert hours.parts == ((nine, nine + 3600), (fifteen, fifteen))
    assert hours.details["parts"] == [["2026-11-27T09:00Z", "2026-11-27T10:00Z"], ["2026-11-27T15:00Z"] * 2]


def test_old_profiles_are_forgotten_and_nothing_else(driver: Driver):
    old = FOO.slot("2026-09-01T15")
    driver.mark(old)
    kept, gone = (SlotProfile(SlotRevision(slot, 1), Profile(10), 5) for slot in (HOUR, old))
    for each in (kept, gone):
        driver.quality.profiled(each)
    assert driver.quality.forget_profiles(FOO.window(HOUR)[1]) == (gone,)
    assert (driver.quality.profile(HOUR), driver.quality.profile(old)) == (kept, None)
    assert driver.state(old) is BAD
