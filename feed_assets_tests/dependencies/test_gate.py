"""The gate: its stages in their order, each alone not holding; and what quality and a rerun mean."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from feed_assets.datasets.slots import parse_slot
from feed_assets.dependencies.gate import Case, InputState, Stage, Verdict, decide
from feed_assets.dependencies.marks import Accepts, Author, Mark, Signature, SlotRevision
from feed_assets.dependencies.marks import QualityState as Quality
from feed_assets.dependencies.quality_states import MarkPath
from feed_assets.dependencies.trigger import OnRerun, Trigger, TriggerError

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
DAY = "2026-11-26"
LOOKBACK = timedelta(days=7)


RAW = SlotRevision(parse_slot(f"raw/ads - day {DAY}"), 1)
BOTS = MarkPath(Mark("m1", RAW, Signature(Author.person("ann"), 1795794900, "bots")), (RAW,), ())


def given(feed: str = "raw/ads", **more: object) -> InputState:
    """An input that is complete and good."""
    known = {"complete": True, "revision": 1, "quality": Quality.UNCHECKED}
    return InputState(parse_slot(f"{feed} - day {DAY}"), **{**known, **more})  # type: ignore[arg-type]


def verdict(
    *inputs: InputState, in_force: str | None = None, behind: str = "never computed", **trigger: object
) -> Verdict:
    slot = parse_slot(f"clean-ads/v1.0 - day {DAY}")
    case = Case("clean_ads", slot, inputs or (given(),), in_force, behind, datetime.fromisoformat(f"{DAY}T00:00Z"))
    return decide(case, Trigger(**trigger), now=NOW, lookback=LOOKBACK)  # type: ignore[arg-type]


def held(answer: Verdict) -> Stage | None:
    return answer.held.stage if answer.held else None


def test_a_slot_whose_inputs_are_complete_and_good_may_start() -> None:
    answer = verdict()

    assert held(answer) is None
    assert answer.sentence == "may start: never computed"
    assert [each.holds for each in answer.stages] == [True] * len(Stage)


@pytest.mark.parametrize(
    ("stage", "answer", "why"),
    [
        (Stage.TIME, verdict(since=date(2026, 11, 27)), "starts slots from 2026-11-27 on"),
        (Stage.DATA, verdict(given(complete=False, waits="24 hours are missing")), "24 hours are missing"),
        (Stage.QUALITY, verdict(given(quality=Quality.BAD, marks=[BOTS])), "bots (person ann"),
        (Stage.ONCE, verdict(in_force="20261127.000000", on_rerun=OnRerun.IGNORE), "stays, as the trigger ignores"),
    ],
)
def test_each_stage_alone_holds_the_start_and_is_named_with_its_reason(stage: Stage, answer: Verdict, why: str) -> None:
    assert held(answer) is stage
    assert f" {stage}: " in answer.sentence
    assert why in answer.sentence


def test_the_first_stage_that_does_not_hold_is_the_answer_and_later_ones_are_not_looked_at() -> None:
    answer = verdict(given(complete=False, waits="not there", quality=Quality.BAD), since=date(2026, 11, 27))

    assert [each.holds for each in answer.stages] == [False, None, None, None]


def test_an_optional_input_may_be_missing() -> None:
    assert held(verdict(given(), given("other/v1", complete=False, optional=True))) is None


def test_a_reason_names_three_inputs_and_counts_the_others() -> None:
    missing = [given(f"feed{number}/v1", complete=False, waits="no update") for number in range(5)]

    assert verdict(*missing).sentence.count("no update") == 3
    assert verdict(*missing).sentence.endswith("; and 2 more")


@pytest.mark.parametrize(
    ("accepts", "checked", "taken"),
    [
        (None, False, {Quality.BACKFILLED, Quality.PASSED, Quality.UNCHECKED}),
        (None, True, {Quality.PASSED}),
        (Accepts.PASSED, True, {Quality.PASSED}),
        (Accepts.NOT_BAD, True, {Quality.BACKFILLED, Quality.PASSED, Quality.UNCHECKED}),
        (Accepts.ANY, True, set(Quality)),
    ],
)
def test_a_flow_takes_the_quality_that_it_declares_or_else_passed_where_there_are_checks(
    accepts: Accepts | None, checked: bool, taken: set[Quality]
) -> None:
    found = {each for each in Quality if held(verdict(given(quality=each, checked=checked), quality=accepts)) is None}
    assert found == taken


def test_a_slot_runs_again_when_no_input_was_reopened_for_a_while() -> None:
    def after(minutes: int) -> Verdict:
        reopened = NOW - timedelta(minutes=minutes)
        return verdict(given(revision=2, reopened=reopened), in_force="20261127.000000", behind="an input changed")

    assert held(after(9)) is Stage.ONCE
    assert "it runs again from 2026-11-27 12:01:00 on" in after(9).sentence
    assert held(after(10)) is None


def test_a_first_start_waits_for_no_pause() -> None:
    assert held(verdict(given(revision=2, reopened=NOW))) is None


def test_a_slot_before_since_runs_again_if_it_has_a_result() -> None:
    assert held(verdict(since=date(2026, 11, 27), in_force="20261127.000000", settle=timedelta(0))) is None


def test_without_since_the_lookback_bounds_first_starts() -> None:
    case = Case(
        "clean_ads", parse_slot("clean-ads/v1.0 - day 2026-11-19"), [given()], None, "never computed",
        datetime(2026, 11, 19, tzinfo=UTC),
    )  # fmt: skip
    assert held(decide(case, Trigger(), now=NOW, lookback=LOOKBACK)) is Stage.TIME


def test_what_is_up_to_date_says_so() -> None:
    assert verdict(in_force="20261127.000000", behind="").sentence == "up to date"


def test_a_trigger_survives_the_way_through_dagsters_metadata() -> None:
    made = Trigger.of(quality="any", on_rerun="ignore", settle=timedelta(seconds=30), since="2026-11-01")
    assert Trigger.from_plain(made.to_plain()) == made
    with pytest.raises(TriggerError):
        Trigger(settle=timedelta(seconds=-1))
