"""Masters and candidates in every order of their requests: no acknowledged mutation is lost, no history forks.

The real code runs, one request to the blackboard at a time; `actors` has the programs. A rule that is switched off must
be found.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import pytest

from feed_assets.errors import FeedAssetsError
from feed_assets_tests.blackboard.interleavings import Actor, Exploration, ViolationError, explore
from feed_assets_tests.workflow import actors
from feed_assets_tests.workflow.actors import begun, candidate, check, late_reader, master, mistakes, ordered


def explored(*plans: str) -> Exploration:
    """All orders of these programs. `m:sw` is the old master, `c:w` a candidate; `l` loses an answer, `x` may crash."""
    start = begun("wsw")
    taking_part = []
    for name, described in zip("abc", plans, strict=False):
        role, plan, faults = f"{described}:".split(":")[:3]
        program = {
            "m": partial(master, plan, start),
            "c": partial(candidate, name, plan),
            "late": partial(late_reader, name, plan),
        }[role]
        taking_part.append(Actor(name, program, may_crash="x" in faults, lost_answers=faults.count("l")))
    with ordered():
        return explore(start, tuple(taking_part), check=check, expected=(FeedAssetsError,))


@pytest.mark.parametrize(
    "plans",
    [
        ("m:wsw", "c:ws"),
        ("m:sw:lx", "c:w:lx"),
        ("m:wr", "c:wr"),
        pytest.param(("m:w", "c:w", "c:w"), marks=pytest.mark.slow),
        pytest.param(("m:sw", "c:w", "c:w"), marks=pytest.mark.slow),
        pytest.param(("m:wsw:l", "c:ws:lx"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_in_every_order_no_acknowledged_mutation_is_lost(plans: tuple[str, ...]) -> None:
    found = explored(*plans)

    # Each program served to its end in some order, so the search has seen what it is for.
    assert {name for each in found.ends() for name, end in each.results.items() if isinstance(end, int)} >= set(
        "abc"[: len(plans)]
    )


@pytest.mark.parametrize(
    "plans", [("m:ws", "c:ws"), pytest.param(("m:sw", "c:w", "c:"), marks=pytest.mark.slow)], ids=" ".join
)
def test_nor_is_one_lost_where_one_snapshot_suffices_to_delete(
    plans: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actors, "_truncated", actors.truncate_early)

    explored(*plans)


@pytest.mark.parametrize(
    ("mistake", "plans"),
    [
        ("seals are deleted", ("m:w", "c:ws")),
        ("deleted without a look, and the seal not looked behind", ("m:wsws", "c:w")),
        ("the newest entry is deleted", ("m:sw", "c:w")),
        ("a lost answer is taken for a refusal", ("m:w:l", "c:w")),
        ("answered before it is stored", ("m:w", "c:w")),
    ],
)
def test_a_rule_that_is_switched_off_is_found(mistake: str, plans: tuple[str, ...]) -> None:
    with ExitStack() as stack:
        for each in mistakes()[mistake]:
            stack.enter_context(each())
        with pytest.raises(ViolationError):
            explored(*plans)


def test_an_epoch_that_is_created_after_the_reading_is_found() -> None:
    with pytest.raises(ViolationError):
        explored("late:w", "c:w")
