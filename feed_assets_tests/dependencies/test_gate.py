"""The gate: its stages in their order, each alone not holding; and what quality and a rerun mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import product

import pytest

from feed_assets.datasets.slots import parse_slot
from feed_assets.dependencies.errors import TriggerError
from feed_assets.dependencies.gate.decision import (
    Answered,
    Case,
    InputState,
    PreviousSlot,
    Reply,
    Stage,
    Verdict,
    decide,
)
from feed_assets.dependencies.gate.extra_inputs import ExtraInput
from feed_assets.dependencies.gate.trigger import CatchUp, OnRerun, Then, Trigger
from feed_assets.dependencies.quality.marks import Accepts, Author, Mark, Signature, SlotRevision
from feed_assets.dependencies.quality.marks import QualityState as Quality
from feed_assets.dependencies.quality.states import MarkPath

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
    *inputs: InputState,
    in_force: str | None = None,
    behind: str = "never computed",
    known: Mapping[str, object] | None = None,
    now: datetime = NOW,
    **trigger: object,
) -> Verdict:
    """The gate's answer on the 26th, which ended 12 hours ago. `known` has more of the case."""
    slot, begins = parse_slot(f"clean-ads/v1.0 - day {DAY}"), datetime.fromisoformat(f"{DAY}T00:00Z")
    case = Case("clean_ads", slot, inputs or (given(),), in_force, behind, begins, begins + timedelta(days=1))
    case = replace(case, **(known or {}))  # type: ignore[arg-type]
    return decide(case, Trigger(**trigger), now=now, lookback=LOOKBACK)  # type: ignore[arg-type]


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
    more = Trigger.of(
        also=[ExtraInput.of("raw/ads", shift="-1h")], complete=3, previous=True, not_before="0 6 * * *",
        timezone="Europe/Paris", at_most="6h", then="run", catch_up="latest", at_once=2, on_rerun="ask",
    )  # fmt: skip
    assert Trigger.from_plain(json.loads(json.dumps(more.to_plain()))) == more
    assert (more.at_most, more.then, more.catch_up) == (timedelta(hours=6), Then.RUN, CatchUp.LATEST)
    assert Trigger.from_plain(Trigger().to_plain()) == Trigger.of() == Trigger()
    with pytest.raises(TriggerError):
        Trigger(settle=timedelta(seconds=-1))


def test_a_trigger_says_in_few_words_what_differs_from_one_without_options() -> None:
    assert Trigger().text == ""
    needed = [ExtraInput.of("raw/ads", shift="-1h"), ExtraInput.of("rates/v1.0", latest="2d", quality="any")]
    assert Trigger.of(also=needed, complete="any", previous=True, settle="90min", at_most="6h", then="run").text == (
        "settle 90min, also raw/ads (shift -1h) and rates/v1.0 (latest 2d, quality any), complete any, previous, "
        "at_most 6h, then run"
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"complete": 0}, "complete is 0: it is 'all', 'any', or how many inputs have to be complete"),
        ({"complete": -1}, "complete is -1"),
        ({"complete": True}, "complete is True"),
        ({"complete": "most"}, "complete is 'most'"),
        ({"at_most": "-6h"}, "at_most: '-6h' is no duration"),
        ({"at_most": timedelta(hours=-6)}, "at_most is -1 day, 18:00:00: it is a duration of 0 or more"),
        ({"then": "run"}, "there is no at_most after which it happens"),
        ({"at_most": "6h", "then": "wait"}, "then is 'wait': it is one of fail, skip, run"),
        ({"at_once": 0}, "at_once is 0: it is how many slots may run at a time, 1 or more"),
        ({"catch_up": "none"}, "catch_up is 'none': it is one of all, latest"),
        ({"timezone": "Europe/Paris"}, "there is no not_before that it is for"),
        ({"not_before": "0 6 * * *", "timezone": "Mars/North"}, "it is the name of a zone, such as Europe/Paris"),
        ({"also": ["raw/ads"]}, "also has 'raw/ads': write each input as needs"),
    ],
)
def test_a_trigger_that_cannot_be_is_refused_and_the_message_says_what_to_write(
    values: Mapping[str, object], message: str
) -> None:
    with pytest.raises(TriggerError, match=message):
        Trigger.of(**values)  # type: ignore[arg-type]


def test_d1_the_first_of_the_stages_that_do_not_hold_is_the_answer_in_every_combination() -> None:
    for faults in product((False, True), repeat=len(Stage)):
        early, missing, bad, again = faults
        answer = verdict(
            given(complete=not missing),
            given("other/v1", quality=Quality.BAD if bad else Quality.UNCHECKED),
            in_force="20261127.000000",
            behind="an input changed",
            known={"earliest": NOW + timedelta(seconds=1) if early else NOW},
            on_rerun=OnRerun.IGNORE if again else OnRerun.RERUN,
        )
        first = next((stage for stage, fault in zip(Stage, faults, strict=True) if fault), None)
        assert held(answer) is first
        order = [*Stage]
        reached = len(order) if first is None else order.index(first) + 1
        expected = [each is not first if number < reached else None for number, each in enumerate(order)]
        assert [each.holds for each in answer.stages] == expected


def test_d2_a_slot_starts_at_the_earliest_time_or_later() -> None:
    earliest = datetime(2026, 11, 27, 6, tzinfo=UTC)

    early = verdict(known={"earliest": earliest}, now=earliest - timedelta(seconds=1))
    assert early.sentence == "waits for earliest time: it starts at 2026-11-27 06:00 or later; it is 2026-11-27 05:59"
    assert held(verdict(known={"earliest": earliest}, now=earliest)) is None


def test_d3_as_many_inputs_as_the_trigger_says_have_to_be_complete_in_every_combination() -> None:
    for wanted in ("all", "any", 1, 2, 3, 4, 5):
        for there in product((False, True), repeat=4):
            inputs = [given(f"feed{number}/v1", complete=each) for number, each in enumerate(there)]
            context = given("context/v1", complete=False, optional=True, counts=False)
            needed = {"all": 4, "any": 1}.get(wanted, wanted)  # type: ignore[call-overload]
            starts = held(verdict(*inputs, context, complete=wanted)) is None
            assert starts == (sum(there) >= needed), (wanted, there)


def test_d3_with_three_of_four_inputs_a_flow_waits_or_starts_as_it_says_and_names_the_numbers() -> None:
    inputs = [given(f"feed{number}/v1", complete=number > 0, waits="no update") for number in range(4)]

    assert verdict(*inputs).sentence == "waits for data: feed0/v1 - day 2026-11-26: no update"
    assert "3 inputs complete, of 4; it needs 3" in verdict(*inputs, complete=3).stages[1].why
    assert verdict(*inputs, complete=4).sentence == (
        "waits for data: 3 of 4 inputs complete, and it needs 4: feed0/v1 - day 2026-11-26: no update"
    )


def test_d44_an_input_that_is_complete_and_bad_holds_a_flow_that_takes_any_of_its_inputs() -> None:
    inputs = [given(quality=Quality.BAD), given("other/v1")]
    assert held(verdict(*inputs, complete="any")) is Stage.QUALITY


@pytest.mark.parametrize(
    ("previous", "starts"),
    [
        ({}, False),
        ({"done": True}, True),
        ({"begins": datetime(2026, 11, 24, tzinfo=UTC)}, True),  # before `since`: it does not start by itself
    ],
)
def test_d8_a_slot_waits_for_the_one_before_if_that_starts_by_itself(
    previous: Mapping[str, object],
    starts: bool,
) -> None:
    slot = parse_slot("clean-ads/v1.0 - day 2026-11-25")
    before = replace(
        PreviousSlot(slot, datetime(2026, 11, 25, tzinfo=UTC), done=False, why="has no valid update"),
        **previous,  # type: ignore[arg-type]
    )
    answer = verdict(known={"previous": before}, since=date(2026, 11, 25))
    assert (held(answer) is None) == starts
    if not starts:
        assert answer.sentence == f"waits for data: {slot}, the one before, is not done: has no valid update"


def test_d5_each_input_may_have_a_quality_of_its_own() -> None:
    bad = given("other/v1", quality=Quality.BAD, accepts=Accepts.ANY)
    assert held(verdict(given(), bad)) is None
    unchecked = given("other/v1", accepts=Accepts.PASSED)
    assert held(verdict(given(), unchecked, quality=Accepts.ANY)) is Stage.QUALITY


@pytest.mark.parametrize("then", Then)
def test_d44_after_its_longest_wait_a_slot_starts_with_what_is_there_or_is_given_up(then: Then) -> None:
    inputs = [given(optional=True), given("other/v1", complete=False, waits="no update")]
    waiting = verdict(*inputs, at_most=timedelta(hours=13), then=then)
    assert (held(waiting), waiting.gives_up) == (Stage.DATA, None)

    over = verdict(*inputs, at_most=timedelta(hours=12), then=then)
    if then is Then.RUN:
        assert (held(over), over.gives_up) == (None, None)
        assert over.stages[1].why == (
            "1 input complete; it does not wait for others any more, as not all came until 2026-11-27 12:00"
        )
    else:
        assert held(over) is Stage.DATA
        word = "skipped" if then is Then.SKIP else "failed"
        assert over.gives_up == (f"{word}: not all inputs came until 2026-11-27 12:00: other/v1 - day {DAY}: no update")


def test_d44_the_longest_wait_begins_at_the_earliest_time() -> None:
    missing = given(complete=False)
    known = {"earliest": datetime(2026, 11, 27, 6, tzinfo=UTC)}
    assert verdict(missing, at_most=timedelta(hours=7), known=known).gives_up is None
    assert verdict(missing, at_most=timedelta(hours=6), known=known).gives_up is not None


def test_d44_a_flow_starts_with_nothing_never() -> None:
    nothing = [given(complete=False, optional=False), given("gate/v1", extra=True)]
    assert held(verdict(*nothing, at_most=timedelta(0), then=Then.RUN)) is Stage.DATA


def test_a_result_is_not_replaced_by_one_without_an_input_that_it_may_have_used() -> None:
    rule: dict[str, object] = {"at_most": timedelta(0), "then": Then.RUN, "in_force": "20261127.000000"}
    for revision, starts in ((0, True), (2, False)):
        missing = given("other/v1", complete=False, revision=revision)
        answer = verdict(given(), missing, behind="an input changed", **rule)  # type: ignore[arg-type]
        assert (held(answer) is None) == starts
        assert answer.gives_up is None


def test_settle_and_ignore_hold_for_inputs_that_only_the_gate_waits_for() -> None:
    reopened = given("gate/v1", revision=2, reopened=NOW - timedelta(minutes=9), extra=True)
    rerun: dict[str, object] = {"in_force": "20261127.000000", "behind": "an input changed"}
    assert held(verdict(given(), reopened, **rerun)) is Stage.ONCE  # type: ignore[arg-type]
    assert held(verdict(given(), reopened, settle=timedelta(minutes=9), **rerun)) is None  # type: ignore[arg-type]
    assert held(verdict(given(), reopened, on_rerun=OnRerun.IGNORE, settle=timedelta(0), **rerun)) is Stage.ONCE  # type: ignore[arg-type]


def test_d39_a_flow_that_asks_is_held_until_a_person_answers_for_these_very_inputs() -> None:
    reopened = given(revision=2, reopened=NOW)
    rerun: dict[str, object] = {
        "in_force": "20261127.000000", "behind": "an input changed", "on_rerun": OnRerun.ASK,
    }  # fmt: skip
    asking = verdict(reopened, **rerun)  # type: ignore[arg-type]
    assert (held(asking), asking.asks) == (Stage.ONCE, True)
    assert asking.sentence.startswith("waits for run, once: asks: an input changed. Run again, or keep update 2026")
    assert "Answer with `feed-assets deps answer clean_ads 2026-11-26 rerun`, or `keep`" in asking.sentence

    def after(reply: Reply, *inputs: InputState) -> Verdict:
        answered = Answered(asking.case.digest, reply, "ann", "not worth it")
        return verdict(*inputs, known={"answered": answered}, **rerun)  # type: ignore[arg-type]

    assert held(after(Reply.RERUN, reopened)) is None
    kept = after(Reply.KEEP, reopened)
    assert (held(kept), kept.asks) == (Stage.ONCE, False)
    assert "update 20261127.000000 stays, as ann has answered: not worth it" in kept.sentence
    for reply in Reply:  # reopened again: the answer was for other inputs
        assert after(reply, replace(reopened, revision=3)).asks
    assert not verdict(given(), on_rerun=OnRerun.ASK).asks  # a first start asks nobody
