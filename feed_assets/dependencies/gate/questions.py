"""Questions to persons: whether a slot of a flow runs again, as an input was reopened after it ran.

A question is about one state of the inputs: their revisions. A further reopening asks anew. The newest question of each
slot is kept, and its changes are events. Not here: when to ask, and what an answer decides (`gate`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final

from feed_assets.datasets.instants import instant_of, moment_of
from feed_assets.datasets.slots import Slot, parse_slot, start_text
from feed_assets.dependencies import tables
from feed_assets.dependencies.errors import RefusedFactError
from feed_assets.dependencies.gate.decision import SHOWN, Answered, Reply, Verdict
from feed_assets.dependencies.service import Dependencies
from feed_assets.state.store import Transaction

ASKED: Final = "asked"
ANSWERED: Final = "answered"


@dataclass(frozen=True, slots=True)
class Question:
    """Whether a slot of a flow runs again, or keeps `update`. `asked` is when it was asked.

    `revisions` are those of the inputs that are complete; `digest` identifies them. `why` says what has changed.
    """

    flow: str
    slot: Slot
    digest: str
    revisions: Mapping[str, int]
    update: str
    why: str
    asked: datetime
    answer: Answered | None = None

    @classmethod
    def of(cls, verdict: Verdict, now: datetime) -> Question:
        """The question of a gate that asks."""
        case = verdict.case
        revisions = {str(each.slot): each.revision for each in case.inputs if each.complete}
        reopened = [f"{each.slot} has revision {each.revision}" for each in case.inputs if each.reopened]
        why = "; ".join(reopened[:SHOWN]) or case.behind
        return cls(case.flow, case.slot, case.digest, revisions, case.in_force or "", why, now)

    def to_plain(self) -> dict[str, Any]:
        """The question as JSON; `from_plain` reads it."""
        answer = self.answer and {**asdict(self.answer), "reply": str(self.answer.reply)}
        return {
            "flow": self.flow,
            "slot": str(self.slot),
            "digest": self.digest,
            "revisions": dict(self.revisions),
            "update": self.update,
            "why": self.why,
            "asked": instant_of(self.asked),
            "answer": answer,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Question:
        """The question of such JSON."""
        given = plain["answer"]
        answer = given and Answered(given["digest"], Reply(given["reply"]), given["by"], given["reason"])
        slot, asked = parse_slot(plain["slot"]), moment_of(plain["asked"])
        return cls(**{**plain, "slot": slot, "asked": asked, "answer": answer})


class Questions:
    """The questions of the flows of one base. Any thread may use it. All methods raise StoreError."""

    def __init__(self, states: Dependencies) -> None:
        self._states = states
        self._store, self._base = states.kept.store, states.kept.base

    def of(self, slot: Slot) -> Question | None:
        """The newest question about a slot of a flow, answered or not."""
        if not self._store.exists():
            return None
        with self._store.reading() as connection:
            state = tables.read_question(connection, (self._base, slot.dataset), str(slot))
        return None if state is None else Question.from_plain(json.loads(state))

    def open(self) -> list[Question]:
        """The questions that nobody has answered, oldest first; without those whose update was replaced meanwhile."""
        if not self._store.exists():
            return []
        with self._store.reading() as connection:
            stored = tables.read_questions(connection, self._base)
        found = [Question.from_plain(json.loads(each)) for each in stored]
        waiting = [each for each in found if each.answer is None and each.slot.dataset in self._states.datasets]
        current = [each for each in waiting if self._states.update_of(each.slot) == each.update]
        return sorted(current, key=lambda each: (each.asked, each.slot))

    def ask(self, verdicts: Iterable[Verdict], *, now: datetime) -> list[Question]:
        """Record the questions of gates that ask. Returns those that are new; a known question changes nothing."""
        asking = {each.case.slot: each for each in verdicts if each.asks}
        new = [each for slot, each in asking.items() if not self._is_known(slot, each.case.digest)]
        asked = [Question.of(each, now) for each in new]

        def work(transaction: Transaction) -> None:
            for each in asked:
                self._save(transaction, each, ASKED, each.why, now)

        if asked:
            self._states.transact(work, now=now)
        return asked

    def answer(
        self, verdict: Verdict, reply: Reply, *, by: str, reason: str = "", digest: str | None = None, now: datetime
    ) -> bool:
        """Answer the question of a gate, for its inputs as they are now; False if this is the answer already.

        An answer may be changed until the flow runs again. `digest` names the inputs that the person has seen. Raises
        RefusedFactError if nothing is asked, or if the inputs have changed since.
        """
        case = verdict.case
        given = case.answered if case.answered is not None and case.answered.digest == case.digest else None
        if not (verdict.asks or (given is not None and case.behind)):
            raise RefusedFactError(f"{case.flow} {_start(case.slot)} asks nothing: {verdict.sentence}.")
        if digest is not None and digest != case.digest:
            raise RefusedFactError(
                f"The inputs of {case.flow} {_start(case.slot)} have changed since this question: look at it again, "
                f"and answer with {case.digest}."
            )
        if given is not None and given.reply is reply:
            return False
        answered = Answered(case.digest, reply, by, reason)
        asked = self.of(case.slot)
        known = asked if asked is not None and asked.digest == case.digest else Question.of(verdict, now)

        def work(transaction: Transaction) -> None:
            text = f"{reply}, says {by}{f': {reason}' if reason else ''}"
            self._save(transaction, replace(known, answer=answered), ANSWERED, text, now)

        self._states.transact(work, now=now)
        return True

    def _is_known(self, slot: Slot, digest: str) -> bool:
        known = self.of(slot)
        return known is not None and known.digest == digest

    def _save(self, transaction: Transaction, question: Question, kind: str, reason: str, now: datetime) -> None:
        """Save a question, with the event that tells it."""
        slot, start = question.slot, _start(question.slot)
        details: dict[str, Any] = {
            "base": self._base,
            "dataset": slot.dataset,
            "member": slot.member,
            "grain": str(slot.grain),
            "first": start,
            "last": start,
            "count": 1,
            "flow": question.flow,
            "digest": question.digest,
            "inputs": dict(question.revisions),
            "reason": reason,
        }
        if question.answer is not None:
            details |= {"answer": str(question.answer.reply), "by": question.answer.by}
        number = transaction.append(kind, now, details)
        key = (self._base, slot.dataset)
        tables.save_question(
            transaction.connection, key, tables.QuestionRow(str(slot), json.dumps(question.to_plain())), number
        )


def _start(slot: Slot) -> str:
    return start_text(slot.grain, slot.start)
