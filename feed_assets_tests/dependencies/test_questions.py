"""Questions on both databases: what is stored, what events tell, and what another service sees."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from feed_assets.dependencies.facts import Published
from feed_assets.dependencies.gate.decision import Case, Reply, Verdict, decide
from feed_assets.dependencies.gate.inputs import input_state
from feed_assets.dependencies.gate.questions import Questions
from feed_assets.dependencies.gate.trigger import OnRerun, Trigger
from feed_assets.dependencies.service import Dependencies
from feed_assets_tests.dependencies.datasets import DAY, at, feed, service

NOW = at("2026-11-28T06:00")
FLOW, OWN = feed("flow/v1.0"), feed("own/v1.0")


def asked(known: Dependencies) -> Verdict:
    """The gate's answer on the flow's day, whose input was published."""
    slot, read = (known.dataset(name).slot(DAY) for name in ("flow/v1.0", "own/v1.0"))
    begins, given = at("2026-11-27T00:00"), Questions(known).of(slot)
    case = Case("flow", slot, [input_state(known, read)], known.update_of(slot), "own/v1.0 changed", begins)
    case = replace(case, answered=given.answer if given else None)
    return decide(case, Trigger(on_rerun=OnRerun.ASK), now=NOW, lookback=timedelta(days=7))


def publish(known: Dependencies, name: str, update: str) -> None:
    known.published([Published(known.dataset(name).slot(DAY), update)], now=NOW)


def test_d39_a_question_and_its_answer_are_what_another_service_sees_too(database: str) -> None:
    known, other = service(database, FLOW, OWN), service(database, FLOW, OWN)
    questions = Questions(known)
    assert questions.open() == []
    for name in ("own/v1.0", "flow/v1.0"):
        publish(known, name, "20261128.000000")
    publish(known, "own/v1.0", "20261128.010000")

    (question,) = questions.ask([asked(known)], now=NOW)
    assert questions.ask([asked(known)], now=NOW) == []
    other.refresh()
    assert Questions(other).open() == [question]
    assert Questions(other).answer(asked(other), Reply.KEEP, by="ann", reason="small", now=NOW)
    assert questions.open() == []
    assert "stays, as ann has answered: small" in asked(known).sentence

    publish(known, "own/v1.0", "20261128.020000")
    (again,) = questions.ask([asked(known)], now=NOW)
    assert (again.digest == question.digest, again.revisions) == (False, {f"own/v1.0 - day {DAY}": 3})
    told = [each for each in other.events() if each.kind in {"asked", "answered"}]
    assert [(each.kind, each.details["first"], each.details.get("by")) for each in told] == [
        ("asked", DAY, None),
        ("answered", DAY, "ann"),
        ("asked", DAY, None),
    ]
    publish(known, "flow/v1.0", "20261128.030000")
    assert questions.open() == []  # the result that it was about was replaced
