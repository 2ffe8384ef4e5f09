"""The state machine: a call becomes a mutation, or a refusal.

Here: every rule on who may do what: sessions and their repeated calls, leases, configurations, limits. What it decides
depends on the state, the queues and the call; times only propose. Not here: what becomes of tasks that come and go
(`changes`), orders of people (`orders`), the memory (`state`), durability (`master`), and HTTP (`service`).
"""

from __future__ import annotations

import hashlib
import random
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from feed_assets.workflow.calls import (
    OTHER_CODE,
    Answer,
    AnyCall,
    Call,
    Command,
    Commit,
    Configure,
    Fail,
    Hello,
    Insert,
    Lease,
    Numbered,
    Refused,
    Release,
    Renew,
)
from feed_assets.workflow.changes import Change
from feed_assets.workflow.orders import is_ordered, obey
from feed_assets.workflow.queues import Queues
from feed_assets.workflow.state import ENDED, WINDOW, Mutation, State, encode_mutation
from feed_assets.workflow.tasks import (
    CONFIGURATION,
    MOST_CHECKPOINT,
    MOST_DELAY,
    MOST_NAME,
    MOST_PAYLOAD,
    MOST_TASKS,
    PayloadError,
    Settings,
    Task,
    encoded_payload,
    name_problem,
    settings_of,
)

MOST_OF_ALL: Final = 2_000_000
INSERTED: Final = 0.8
"""The share of MOST_OF_ALL up to which tasks are inserted: the rest is for tasks that commits produce."""
MOST_SESSIONS: Final = 10_000
SECONDS: Final = (5.0, 3600.0)
"""The shortest and the longest lease."""
MOST_LEASED: Final = 100
MOST_TYPES: Final = 100
IDLE_SECONDS: Final = 3600.0
"""A session without leases ends when it was idle for so long."""
FIRST_RETRY: Final = 1.0

_NO_ID: Final = 2**63

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(Answer).decode
_encode_call = msgspec.json.Encoder(order="deterministic").encode


class Machine:
    """Answers calls with a state, and changes it.

    `write` gets each mutation, in order, before its answer is returned: whoever is told the answer waits until it is
    durable. `wall` is the time (seconds since 1970) for people and for the order of tasks.
    """

    def __init__(
        self,
        state: State,
        token: str,
        epoch: int,
        write: Callable[[bytes], None],
        *,
        now: float,
        wall: Callable[[], float],
        dice: random.Random | None = None,
    ) -> None:
        self.state, self.token, self.epoch = state, token, epoch
        self.queues = Queues(state, now)
        self._now, self._write, self._wall, self._dice = now, write, wall, dice or random.SystemRandom()
        self._seen: dict[str, float] = dict.fromkeys(state.sessions, now)
        """When each session called last: the longest idle one first."""

    def answer(self, call: AnyCall, now: float) -> Answer:
        """The answer to a call; refusals too are answers. A repeated call gets the first answer, and changes nothing.

        Raises Refused if the call has no number, or its number cannot be used.
        """
        self.check(call)
        self.expire(now)
        if isinstance(call, Hello):
            return self._hello()
        digest = _digest(call)
        before = self._before(call, digest)
        self._see(call.session)
        if before is not None:
            return before
        change = self._change()
        try:
            answer = self._decide(call, change)
        except Refused as error:
            change = self._change()
            answer = Answer(refused=error.code, message=str(error), lost=error.ids, retry_after=error.retry_after)
        self._apply(change, session=call.session, seq=call.seq, digest=digest, answer=_encode(answer))
        return answer

    def check(self, call: Call) -> None:
        """Refuse a call that is meant for another workflow, or comes from the time after this master."""
        if call.token != self.token:
            raise Refused("WrongMaster", "This is the master of another workflow: look its address up by name again.")
        if call.epoch > self.epoch:
            raise Refused("NotMaster", f"Epoch {call.epoch} has begun, and this is epoch {self.epoch}.")

    def expire(self, now: float) -> None:
        """Give back the tasks whose leases are over, and end sessions that are idle."""
        self._now = now
        self.queues.wake(now)
        over = self.queues.over(now)
        for start in range(0, len(over), MOST_TASKS):
            self._lose(over[start : start + MOST_TASKS])
        while self._seen:
            name, seen = next(iter(self._seen.items()))
            if seen > now - IDLE_SECONDS:
                break
            if self.state.sessions[name].leases:
                self._see(name)
            else:
                del self._seen[name]
                self._apply(self._change(), session=name, seq=ENDED)

    def can_lease(self, call: Lease) -> bool:
        """Whether a task is there for this call."""
        return any(self._why_not(each, call.digests) is None and self.has_ready(each) for each in call.types)

    def has_ready(self, kind: str) -> bool:
        """Whether a task of a type is there to lease, for whoever has its configuration."""
        return self.queues.can_take(kind, self._now, is_open=lambda group: not self._why_closed(group))

    def has_answer(self, call: Numbered) -> bool:
        """Whether a call of this number need not wait: it was answered before, or its session has ended."""
        session = self.state.sessions.get(call.session)
        return session is None or call.seq in session.answers

    def is_full(self, group: str) -> bool:
        """Whether a group has as many waiting tasks as it may. Those that wait for others of their bundle are free."""
        waiting = self.state.count(group, "waiting") - self.state.gathering[group]
        return waiting >= self._settings(group).most

    def spent_groups(self) -> set[str]:
        """The groups whose tasks wait because the retries of the last minutes are used up."""
        return self.queues.spent(self._now)

    def is_ordered(self, what: str, group: str) -> bool:
        """Whether a person has paused or interdicted a group, or all."""
        return is_ordered(self.state, what, group)

    # --- sessions -----------------------------------------------------------------------------------------------------

    def _hello(self) -> Answer:
        if len(self.state.sessions) >= MOST_SESSIONS:
            raise Refused("Full", f"There are {MOST_SESSIONS:,} sessions.", retry_after=60)
        name = secrets.token_hex(16)
        self._see(name)
        self._apply(self._change(), session=name)
        return Answer(session=name)

    def _see(self, session: str) -> None:
        self._seen.pop(session, None)
        self._seen[session] = self._now

    def _before(self, call: Numbered, digest: bytes) -> Answer | None:
        """The answer that a call of this number got. Raises Refused if the number cannot be used."""
        session = self.state.sessions.get(call.session)
        if session is None:
            raise Refused("SessionLost", "This session has ended: begin another one, and count from 1.")
        if call.seq < 1 or call.seq > session.highest + WINDOW:
            raise Refused("Invalid", f"Number {call.seq} of a call: the highest was {session.highest}.")
        if call.seq in session.answers:
            first, answer = session.answers[call.seq]
            if first != digest:
                raise Refused("Conflict", f"Number {call.seq} was that of another call.")
            return _decode(answer)
        if call.seq <= session.highest - WINDOW:
            raise Refused("Forgotten", f"Call {call.seq} is older than the last {WINDOW}, whose answers are kept.")
        return None

    # --- decisions ----------------------------------------------------------------------------------------------------

    def _decide(self, call: AnyCall, change: Change) -> Answer:
        decide: Any = {
            Lease: self._lease, Renew: self._renew, Commit: self._commit, Release: self._release, Fail: self._failed,
            Insert: self._insert, Configure: self._configure, Command: obey,
        }[type(call)]  # fmt: skip
        answer: Answer = decide(call, change)
        return answer

    def _lease(self, call: Lease, change: Change) -> Answer:
        if not call.types or not 1 <= call.most <= MOST_LEASED or not SECONDS[0] <= call.seconds <= SECONDS[1]:
            raise Refused(
                "Invalid",
                f"A lease names types, is of 1 to {MOST_LEASED} tasks, and for {SECONDS[0]:g} to {SECONDS[1]:g} s.",
            )
        if len(call.types) > MOST_TYPES or max(map(len, call.types)) > MOST_NAME:
            raise Refused("TooLarge", f"A lease names at most {MOST_TYPES} types, of at most {MOST_NAME} characters.")
        reasons = []
        for kind in call.types:
            why = self._why_not(kind, call.digests)
            if why is None:
                found = self.queues.take(kind, call.most, self._now, is_open=lambda group: not self._why_closed(group))
                if found:
                    new = {"holder": call.session, "seconds": float(call.seconds), "delay": 0.0}
                    return Answer(ids=tuple(change.replace(each, **new) for each in found))
                why = self._why_nothing(kind)
            reasons.append(f"{kind}: {why}")
        return Answer(reason="; ".join(reasons))

    def _renew(self, call: Renew, change: Change) -> Answer:
        if not SECONDS[0] <= call.seconds <= SECONDS[1] or not 0 <= call.progress <= 1:
            raise Refused("Invalid", f"A lease is of {SECONDS[0]:g} to {SECONDS[1]:g} s, progress is 0 to 1.")
        _check_checkpoint(call.checkpoint)
        mine = self._mine(call, call.ids)
        new: dict[str, Any] = {"seconds": float(call.seconds), "progress": float(call.progress)}
        if call.checkpoint is not None:
            new["checkpoint"] = call.checkpoint
        ids = tuple(change.replace(task, **new) for task in mine.values() if task is not None)
        return Answer(ids=ids, lost=tuple(each for each, task in mine.items() if task is None))

    def _release(self, call: Release, change: Change) -> Answer:
        _check_checkpoint(call.checkpoint)
        _check_delay(call.after)
        for task in self._leased(call, call.ids):
            checkpoint = task.checkpoint if call.checkpoint is None else call.checkpoint
            change.give_back(task, float(call.after), checkpoint=checkpoint)
        return Answer()

    def _failed(self, call: Fail, change: Change) -> Answer:
        _check_checkpoint(call.checkpoint)
        _check_delay(call.after)
        for task in self._leased(call, call.ids):
            self._fail(change, task, call.reason, call.after, call.checkpoint)
        return Answer()

    def _commit(self, call: Commit, change: Change) -> Answer:
        if not call.consume or len(set(call.consume)) < len(call.consume):
            raise Refused("Invalid", "A commit consumes one task or more, each once.")
        known = [self.state.tasks[each] for each in call.consume if each in self.state.tasks]
        if stopped := sorted({each.group for each in known if self.is_ordered("interdict", each.group)}):
            raise Refused("Interdicted", f"{', '.join(stopped)}: a person has forbidden commits.", retry_after=30)
        tasks = self._leased(call, call.consume)
        bundles = {(each.group, each.bundle.name): each for each in tasks if each.bundle is not None}
        if missing := {each.id for one in bundles.values() for each in self.state.members(one)} - set(call.consume):
            raise Refused("Invalid", "The tasks of a bundle are committed together.", ids=tuple(sorted(missing)))
        for kind in sorted({each.type for each in tasks}):
            configuration = self.state.configurations.get(kind)
            if configuration is None or call.configurations.get(kind) != configuration.id:
                present = configuration.id if configuration else 0
                what = f"The configuration of {kind} is task {present} now: do it again."
                raise Refused("ConfigurationChanged", what, ids=(present,))
        change.gone += call.consume
        ids, there = change.make(call.produce, min(each.origin for each in tasks), tasks)
        return Answer(ids=ids, there=there)

    def _insert(self, call: Insert, change: Change) -> Answer:
        if not call.tasks:
            raise Refused("Invalid", "Insert one task or more.")
        if len(self.state.tasks) + len(call.tasks) > INSERTED * MOST_OF_ALL:
            raise Refused("Full", f"The workflow has {len(self.state.tasks):,} tasks.", retry_after=60)
        for group in sorted({each.group or each.type for each in call.tasks}):
            if self.is_full(group):
                waiting = self.state.count(group, "waiting")
                raise Refused("Full", f"{waiting:,} tasks of {group} wait already.", retry_after=10)
        ids, there = change.make(call.tasks)
        return Answer(ids=ids, there=there)

    def _configure(self, call: Configure, change: Change) -> Answer:
        if problem := name_problem(call.type):
            raise Refused("Invalid", f"The type {call.type[:50]!r} cannot be configured: {problem}.")
        try:
            payload = encoded_payload(call.payload)
            settings_of(payload)
        except (PayloadError, msgspec.ValidationError) as error:
            raise Refused("Invalid", f"The configuration of {call.type}: {error}.") from error
        if len(payload) > MOST_PAYLOAD:
            what = f"The configuration of {call.type} has {len(payload):,} bytes, at most {MOST_PAYLOAD:,}."
            raise Refused("TooLarge", what)
        present = self.state.configurations.get(call.type)
        there = present.id if present else 0
        if there != call.replaces:
            what = f"The configuration of {call.type} is task {there} now: look again."
            raise Refused("Conflict", what, ids=(there,))
        if present is not None and present.payload == payload:
            return Answer(ids=(there,), there=(there,))
        return Answer(ids=(change.put(present, CONFIGURATION, call.type, payload),))

    # --- tasks --------------------------------------------------------------------------------------------------------

    def _lose(self, tasks: Sequence[Task]) -> None:
        """Give back tasks whose leases are over."""
        change = self._change()
        for task in tasks:
            self._fail(change, task, f"its lease of {task.seconds:g} s was not renewed", None, None)
        self._apply(change)

    def _fail(self, change: Change, task: Task, reason: str, after: float | None, checkpoint: str | None) -> None:
        if after is None:
            after = self._dice.uniform(0.0, min(FIRST_RETRY * 2 ** (task.attempt + 1), MOST_DELAY))
        change.fail(
            task,
            reason,
            float(after),
            attempts=self._settings(task.type).attempts,
            checkpoint=task.checkpoint if checkpoint is None else checkpoint,
        )

    def _leased(self, call: Numbered, ids: Sequence[int]) -> list[Task]:
        """The tasks of these ids, which the session has leased. Raises Refused."""
        mine = self._mine(call, ids)
        if lost := tuple(each for each, task in mine.items() if task is None):
            raise Refused(
                "LeaseLost", "These tasks are not leased to this session any more, or have new ids.", ids=lost
            )
        return [task for task in mine.values() if task is not None]

    def _mine(self, call: Numbered, ids: Sequence[int]) -> dict[int, Task | None]:
        """The task of each id; None if the session has not leased it."""
        if len(ids) > MOST_TASKS:
            raise Refused("TooLarge", f"{len(ids):,} ids in a call, at most {MOST_TASKS:,}.")
        if not all(0 < each < _NO_ID for each in ids):
            raise Refused("Invalid", "A task has a positive id, of 63 bits.")
        found = {each: self.state.tasks.get(each) for each in ids}
        return {each: task if task and task.holder == call.session else None for each, task in found.items()}

    # --- settings and orders ------------------------------------------------------------------------------------------

    def _why_not(self, kind: str, digests: dict[str, str]) -> str | None:
        """Why a session leases nothing of a type; None if it may."""
        if kind not in self.state.configurations:
            return "it has no configuration"
        if kind in digests and digests[kind] != self._settings(kind).digest:
            return OTHER_CODE
        return None

    def _why_nothing(self, kind: str) -> str:
        """Why there is nothing to lease of a type."""
        groups = sorted(self.queues.groups(kind))
        closed = [
            f"{why}" if group == kind else f"{group} {why}" for group in groups if (why := self._why_closed(group))
        ]
        if closed:
            return ", ".join(closed)
        return "its retries of the last minutes are used up" if groups else "nothing waits"

    def _why_closed(self, group: str) -> str:
        """Why nothing of a group may be leased; "" if it may."""
        for order, what in (("pause", "paused"), ("interdict", "interdicted")):
            if self.is_ordered(order, group):
                return what
        full = sorted(
            target
            for source, target in self.state.edges
            if source == group and target != group and self.is_full(target) and not self._hinders(target, group)
        )
        return f"downstream full: {', '.join(full)}" if full else ""

    def _hinders(self, group: str, other: str) -> bool:
        """Whether a full group cannot go on because another one is full: if both waited, neither ever would."""
        seen, found = set(), [group]
        while found:
            each = found.pop()
            if each not in seen and self.is_full(each):
                if each == other:
                    return True
                seen.add(each)
                found += [target for source, target in self.state.edges if source == each]
        return False

    def _settings(self, kind: str) -> Settings:
        configuration = self.state.configurations.get(kind)
        return _DEFAULTS if configuration is None else settings_of(configuration.payload)

    def _change(self) -> Change:
        return Change(self.state, self.queues, self._now, self._wall())

    def _apply(
        self, change: Change, *, session: str = "", seq: int = 0, digest: bytes = b"", answer: bytes = b""
    ) -> None:
        mutation = Mutation(
            tuple(change.gone), tuple(change.new.values()), session, seq, digest, answer, round(change.wall, 3)
        )
        encoded = encode_mutation(mutation)
        gone = self.state.apply(mutation)
        self.queues.follow(gone, mutation.new, self._now)
        self._write(encoded)


_DEFAULTS: Final = Settings()


def _digest(call: Numbered) -> bytes:
    """What tells a repeated call from another one with its number: the client may have seen a newer epoch meanwhile.

    Raises Refused for a call that JSON cannot express.
    """
    try:
        encoded = _encode_call(msgspec.structs.replace(call, epoch=0))
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused("Invalid", f"The call is no JSON: {error}.") from error
    return hashlib.blake2b(encoded, digest_size=8).digest()


def _check_checkpoint(checkpoint: str | None) -> None:
    if checkpoint is not None and len(checkpoint.encode()) > MOST_CHECKPOINT:
        raise Refused("TooLarge", f"A checkpoint has at most {MOST_CHECKPOINT:,} bytes.")


def _check_delay(after: float | None) -> None:
    if after is not None and not 0 <= after <= MOST_DELAY:
        raise Refused("Invalid", f"after {after:g}: a task starts again after 0 to {MOST_DELAY:g} seconds.")
