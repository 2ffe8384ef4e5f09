"""The part of the HTTP API about questions to persons: which there are, and answering them.

Here: the operations. Not here: when a flow asks (`gate`), the record of answers (`gate.questions`), and bodies
(`reports`).
"""

from __future__ import annotations

from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from feed_assets.datasets.instants import instant_of
from feed_assets.datasets.slots import start_text
from feed_assets.dependencies.facts import Status
from feed_assets.dependencies.gate.decision import Reply
from feed_assets.dependencies.gate.questions import Question, Questions
from feed_assets.dependencies.http.answers import time_says
from feed_assets.dependencies.http.api import ROOT
from feed_assets.dependencies.http.given import Text
from feed_assets.dependencies.http.parameters import REFUSALS, Query, described, refusing
from feed_assets.dependencies.http.reports import OutcomeSays, Reports, one_operation
from feed_assets.dependencies.http.verbs import Verb
from feed_assets.serving.answers import json_answer
from feed_assets.serving.documents import Operation, Says


class QuestionSays(msgspec.Struct, frozen=True):
    """A slot of a flow that asks whether it runs again, or keeps its `update`.

    `inputs` has the revisions with which it would run; `digest` identifies them. `partition` names the slot for
    `explain` and for the answer.
    """

    flow: str
    partition: str
    slot: str
    digest: str
    inputs: dict[str, int]
    update: str
    why: str
    asked: str


class QuestionsSay(msgspec.Struct, frozen=True):
    """The questions that nobody has answered, oldest first."""

    questions: list[QuestionSays]


class AnswerGiven(msgspec.Struct, forbid_unknown_fields=True):
    """Whether a slot of a flow runs again. With `digest`, the answer is taken for these inputs only."""

    flow: Text
    partition: Text
    answer: Literal["rerun", "keep"]
    reason: Text = ""
    digest: Text | None = None


def asking(reports: Reports) -> list[Operation]:
    """The operations about questions."""
    api = reports.api

    async def questions(request: Request) -> Response:
        """The slots that ask whether they run again, as an input was reopened after they ran."""
        Query(request, ())
        caller = api.access.caller(request)

        def work() -> QuestionsSay:
            api.states.refresh()
            found = Questions(api.states).open()
            return QuestionsSay([_says(each) for each in found if caller.may(Verb.READ, each.slot.dataset)])

        return json_answer(200, await api.asked(work))

    async def answer(request: Request) -> Response:
        """Answer whether a slot of a flow runs again with its inputs as they are now. Needs the verb `start`."""
        caller, given = await reports.one(request, AnswerGiven)
        caller.require(Verb.START, api.flows.dataset_of(given.flow))

        def work() -> bool:
            api.states.refresh()
            verdict = api.flows.explain(given.flow, given.partition)
            by = caller.name or "local"
            return Questions(api.states).answer(
                verdict, Reply(given.answer), by=by, reason=given.reason, digest=given.digest, now=api.now()
            )

        new = await reports.change(work)
        return json_answer(200, OutcomeSays(Status.ACCEPTED if new else Status.KNOWN))

    answers = {200: Says("The questions.", QuestionsSay), **REFUSALS}
    return [
        Operation("GET", f"{ROOT}/questions", refusing(questions), answers, described(())),
        one_operation("/questions/answer", answer, AnswerGiven),
    ]


def _says(question: Question) -> QuestionSays:
    slot = question.slot
    return QuestionSays(
        question.flow,
        start_text(slot.grain, slot.start),
        str(slot),
        question.digest,
        dict(question.revisions),
        question.update,
        question.why,
        time_says(instant_of(question.asked)),
    )
