"""The state machine: a call becomes a mutation, or a refusal.

Here: every rule of a workflow: sessions and their repeated calls, leases, configurations, keys, bundles, retries.
What it decides depends on the state, the queues and the call; times only propose. Not here: the memory (`state`),
durability (`master`), and HTTP (`service`).
"""

from __future__ import annotations

import hashlib
import random
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from feed_assets.workflow.calls import (
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
from feed_assets.workflow.queues import Queues
from feed_assets.workflow.state import ENDED, WINDOW, Mutation, State, encode_mutation
from feed_assets.workflow.tasks import (
    CONFIGURATION,
    CONTROL,
    MOST_CHECKPOINT,
    MOST_DELAY,
    MOST_PAYLOAD,
    MOST_TASKS,
    Bundle,
    NewTask,
    Task,
    encoded_payload,
    fault_of,
)

ATTEMPTS: Final = 5
"""How often a task is tried before it is dead, unless its configuration says otherwise (`attempts`)."""
MOST_WAITING: Final = 100_000
"""How many tasks of a group may wait, unless its configuration says otherwise (`most`)."""
MOST_OF_ALL: Final = 2_000_000
MOST_SESSIONS: Final = 10_000
SECONDS: Final = (5.0, 3600.0)
"""The shortest and the longest lease."""
MOST_LEASED: Final = 100
IDLE_SECONDS: Final = 3600.0
"""A session without leases ends when it was idle for so long."""
FIRST_RETRY: Final = 1.0
_MOST_REASON: Final = 500

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(Answer).decode


@dataclass(slots=True)
class _Change:
    """A mutation that is being made."""

    next_id: int
    gone: list[int] = field(default_factory=list)
    new: dict[int, Task] = field(default_factory=dict)

    def add(self, task: Task, **changes: Any) -> int:
        """A task under a new id."""
        made = msgspec.structs.replace(task, id=self.next_id, **changes)
        self.new[self.next_id] = made
        self.next_id += 1
        return made.id

    def replace(self, task: Task, **changes: Any) -> int:
        """A new version of a task."""
        if task.id in self.new:
            del self.new[task.id]
        else:
            self.gone.append(task.id)
        return self.add(task, **changes)


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
        self._write, self._wall, self._dice = write, wall, dice or random.SystemRandom()
        self._seen: dict[str, float] = dict.fromkeys(state.sessions, now)

    def answer(self, call: AnyCall, now: float) -> Answer:
        """The answer to a call; refusals too are answers. A repeated call gets the first answer, and changes nothing.

        Raises Refused if the call has no number, or its number cannot be used.
        """
        self.check(call)
        self.expire(now)
        if isinstance(call, Hello):
            return self._hello(call, now)
        digest = _digest(call)
        if (before := self._before(call, digest)) is not None:
            return before
        self._seen[call.session] = now
        change = _Change(self.state.next_id)
        try:
            answer = self._decide(call, change, now)
        except Refused as error:
            change = _Change(self.state.next_id)
            answer = Answer(refused=error.code, message=str(error), lost=error.ids, retry_after=error.retry_after)
        self._apply(change, now, session=call.session, seq=call.seq, digest=digest, answer=_encode(answer))
        return answer

    def check(self, call: Call) -> None:
        """Refuse a call that is meant for another workflow, or comes from the time after this master."""
        if call.token != self.token:
            raise Refused("WrongMaster", "This is the master of another workflow: look its address up by name again.")
        if call.epoch > self.epoch:
            raise Refused("NotMaster", f"Epoch {call.epoch} has begun, and this is epoch {self.epoch}.")

    def expire(self, now: float) -> None:
        """Give back the tasks whose leases are over, and end sessions that are idle."""
        self.queues.wake(now)
        over = self.queues.over(now)
        for start in range(0, len(over), MOST_TASKS):
            change = _Change(self.state.next_id)
            for task in over[start : start + MOST_TASKS]:
                self._fail(change, task, f"its lease of {task.seconds:g} s was not renewed", None)
            self._apply(change, now)
        for name in [each for each, seen in self._seen.items() if seen <= now - IDLE_SECONDS]:
            session = self.state.sessions.get(name)
            if session is None:
                del self._seen[name]
            elif not session.leases:
                del self._seen[name]
                self._apply(_Change(self.state.next_id), now, session=name, seq=ENDED)

    def can_lease(self, call: Lease, now: float) -> bool:
        """Whether a task may be there for this call."""
        return any(self._why_not(each, call.digests) is None and self.has_ready(each, now) for each in call.types)

    def has_ready(self, kind: str, now: float) -> bool:
        """Whether a task of a type may be there to lease, for whoever has its configuration."""
        return self.queues.has_ready(kind, now, is_open=self._is_open)

    def has_answer(self, call: Numbered) -> bool:
        """Whether a call of this number was answered before."""
        session = self.state.sessions.get(call.session)
        return session is None or call.seq in session.answers

    def is_full(self, group: str) -> bool:
        """Whether a group has as many waiting tasks as it may."""
        waiting = self.state.count(group, "waiting") - self.state.gathering[group]
        return waiting >= int(self._setting(group, "most", MOST_WAITING))

    # --- sessions -----------------------------------------------------------------------------------------------------

    def _hello(self, _: Hello, now: float) -> Answer:
        if len(self.state.sessions) >= MOST_SESSIONS:
            raise Refused("Full", f"There are {MOST_SESSIONS:,} sessions.", retry_after=60)
        name = secrets.token_hex(16)
        self._seen[name] = now
        self._apply(_Change(self.state.next_id), now, session=name)
        return Answer(session=name)

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

    def _decide(self, call: AnyCall, change: _Change, now: float) -> Answer:
        if isinstance(call, Lease):
            return self._lease(call, change, now)
        decide: Any = {
            Renew: self._renew, Commit: self._commit, Release: self._release, Fail: self._failed, Insert: self._insert,
            Configure: self._configure, Command: self._order,
        }[type(call)]  # fmt: skip
        answer: Answer = decide(call, change)
        return answer

    def _lease(self, call: Lease, change: _Change, now: float) -> Answer:
        if not call.types or not 1 <= call.most <= MOST_LEASED or not SECONDS[0] <= call.seconds <= SECONDS[1]:
            raise Refused(
                "Invalid",
                f"A lease names types, is of 1 to {MOST_LEASED} tasks, and for {SECONDS[0]:g} to {SECONDS[1]:g} s.",
            )
        reasons = []
        for kind in call.types:
            why = self._why_not(kind, call.digests)
            found = [] if why else self.queues.take(kind, call.most, now, is_open=self._is_open)
            if found:
                ids = [change.replace(each, holder=call.session, seconds=call.seconds, delay=0.0) for each in found]
                return Answer(ids=tuple(ids))
            reasons.append(f"{kind}: {why or 'nothing waits'}")
        return Answer(reason="; ".join(reasons))

    def _renew(self, call: Renew, change: _Change) -> Answer:
        if not SECONDS[0] <= call.seconds <= SECONDS[1] or not 0 <= call.progress <= 1:
            raise Refused("Invalid", f"A lease is of {SECONDS[0]:g} to {SECONDS[1]:g} s, progress is 0 to 1.")
        _check_checkpoint(call.checkpoint)
        mine = {each: self._own(call, each) for each in dict.fromkeys(call.ids)}
        ids = []
        for task in mine.values():
            if task is not None:
                checkpoint = task.checkpoint if call.checkpoint is None else call.checkpoint
                ids.append(change.replace(task, seconds=call.seconds, progress=call.progress, checkpoint=checkpoint))
        return Answer(ids=tuple(ids), lost=tuple(each for each, task in mine.items() if task is None))

    def _release(self, call: Release, change: _Change) -> Answer:
        _check_checkpoint(call.checkpoint)
        after = min(max(call.after, 0.0), MOST_DELAY)
        for task in self._leased(call, call.ids):
            self._give_back(change, task, after, checkpoint=call.checkpoint)
        return Answer()

    def _failed(self, call: Fail, change: _Change) -> Answer:
        _check_checkpoint(call.checkpoint)
        for task in self._leased(call, call.ids):
            self._fail(change, task, call.reason, call.after, checkpoint=call.checkpoint)
        return Answer()

    def _commit(self, call: Commit, change: _Change) -> Answer:
        if not call.consume or len(set(call.consume)) < len(call.consume):
            raise Refused("Invalid", "A commit consumes one task or more, each once.")
        known = [self.state.tasks[each] for each in call.consume if each in self.state.tasks]
        if stopped := sorted({each.group for each in known if self.is_ordered("interdict", each.group)}):
            raise Refused("Interdicted", f"{', '.join(stopped)}: a person has forbidden commits.", retry_after=30)
        tasks = self._leased(call, call.consume)
        if missing := {each.id for task in tasks for each in self.state.members(task)} - set(call.consume):
            raise Refused("Invalid", "The tasks of a bundle are committed together.", ids=tuple(sorted(missing)))
        for kind in sorted({each.type for each in tasks}):
            configuration = self.state.configurations.get(kind)
            if configuration is None or call.configurations.get(kind) != configuration.id:
                present = configuration.id if configuration else 0
                what = f"The configuration of {kind} is task {present} now: do it again."
                raise Refused("ConfigurationChanged", what, ids=(present,))
        change.gone += call.consume
        origin = min(each.origin for each in tasks)
        ids, there = self._make(change, call.produce, origin, consumed=tasks)
        return Answer(ids=ids, there=there)

    def _insert(self, call: Insert, change: _Change) -> Answer:
        if not call.tasks:
            raise Refused("Invalid", "Insert one task or more.")
        if len(self.state.tasks) + len(call.tasks) > 0.8 * MOST_OF_ALL:
            raise Refused("Full", f"The workflow has {len(self.state.tasks):,} tasks.", retry_after=60)
        for group in sorted({each.group or each.type for each in call.tasks}):
            if self.is_full(group):
                waiting = self.state.count(group, "waiting")
                raise Refused("Full", f"{waiting:,} tasks of {group} wait already.", retry_after=10)
        ids, there = self._make(change, call.tasks, None)
        return Answer(ids=ids, there=there)

    def _configure(self, call: Configure, change: _Change) -> Answer:
        payload = encoded_payload(call.payload)
        if not call.type or len(payload) > MOST_PAYLOAD:
            raise Refused("TooLarge", f"A configuration names a type, and has at most {MOST_PAYLOAD:,} bytes.")
        present = self.state.configurations.get(call.type)
        if (present.id if present else 0) != call.replaces:
            there = present.id if present else 0
            raise Refused(
                "Conflict", f"The configuration of {call.type} is task {there} now: look again.", ids=(there,)
            )
        if present is not None and present.payload == payload:
            return Answer(ids=(present.id,), there=(present.id,))
        return Answer(ids=(self._put(change, present, CONFIGURATION, call.type, payload),))

    # --- orders of people ---------------------------------------------------------------------------------------------

    def _order(self, call: Command, change: _Change) -> Answer:
        if not call.by or not call.reason:
            raise Refused("Invalid", "An order has an author and a reason.")
        what = {"by": call.by, "reason": call.reason, "number": call.number}
        match call.order:
            case "pause" | "interdict" | "workers":
                name = f"{call.order}:{call.target}"
                if call.order != "workers" and call.target != "all" and call.target not in self._groups():
                    raise Refused("NotFound", f"No group is called {call.target}: {_listed(self._groups())}.")
                if call.order == "workers" and call.target not in self.state.configurations:
                    raise Refused("NotFound", f"No type is called {call.target}: {_listed(self.state.configurations)}.")
                present = self.state.controls.get(name)
                return Answer(ids=(self._put(change, present, CONTROL, name, encoded_payload(what)),))
            case "resume" | "lift":
                name = f"{'pause' if call.order == 'resume' else 'interdict'}:{call.target}"
                present = self.state.controls.get(name)
                if present is None:
                    raise Refused("Conflict", f"There is no {name.replace(':', ' of ')} to end.")
                change.gone.append(present.id)
                return Answer()
            case "retry" | "drop":
                return self._mend(call, change)
            case "failover":
                return Answer()

    def _mend(self, call: Command, change: _Change) -> Answer:
        task = self.state.version_of(int(call.target)) if call.target.isdecimal() else None
        if task is None or task.group in (CONFIGURATION, CONTROL):
            raise Refused("NotFound", f"There is no unit {call.target}: it is done, or never was.")
        if task.holder:
            raise Refused("Conflict", f"Unit {task.unit} is leased: wait, or stop its worker.", ids=(task.id,))
        if call.order == "drop":
            if task.bundle is None:
                change.gone.append(task.id)
                return Answer(ids=(task.id,))
            return Answer(ids=(change.replace(task, dead=False, empty=True, files=(), delay=0.0),))
        members = [each for each in self.state.members(task) if each.dead] if task.dead else [task]
        return Answer(
            ids=tuple(self._give_back(change, each, 0.0, attempt=0, dead=False, reasons=()) for each in members)
        )

    # --- tasks --------------------------------------------------------------------------------------------------------

    def _make(
        self, change: _Change, wanted: Sequence[NewTask], origin: int | None, consumed: Iterable[Task] = ()
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """New tasks; returns their ids, and those among them that were there already. Raises Refused."""
        if len(wanted) > MOST_TASKS:
            raise Refused("TooLarge", f"{len(wanted):,} tasks in a call, at most {MOST_TASKS:,}.")
        leaving = {(each.group, each.key) for each in consumed if each.key}
        wall, ids, there = self._wall(), list[int](), list[int]()
        for number, each in enumerate(wanted, 1):
            payload, group = encoded_payload(each.payload), each.group or each.type
            fault = fault_of(each, payload)
            if fault is None and each.type not in self.state.configurations:
                fault = f"no stage is called {each.type}: {_listed(self.state.configurations)}"
            if fault is not None:
                code = "TooLarge" if "at most" in fault else "Invalid"
                raise Refused(code, f"Task {number} of {len(wanted)}: {fault}.")  # type: ignore[arg-type] # two codes
            unit = change.next_id
            task = Task(
                unit, unit, unit if origin is None else origin, group, each.type, payload, wall + each.delay, each.key,
                Bundle(each.bundle.name, each.bundle.size) if each.bundle else None, each.files, each.priority,
                each.delay,
            )  # fmt: skip
            if task.bundle is not None:
                self._check_bundle(change, task)
            same = self._same_key(change, task, leaving) if task.key else None
            if same is None:
                ids.append(change.add(task))
                continue
            there.append(same.id)
            if same.priority >= task.priority and same.since <= task.since:
                ids.append(same.id)
            else:
                ids.append(self._absorb(change, same, task))
                there[-1] = ids[-1]
        return tuple(ids), tuple(there)

    def _same_key(self, change: _Change, task: Task, leaving: set[tuple[str, str]]) -> Task | None:
        """The waiting task with this key. Raises Refused if one with the key has another payload."""
        key = task.group, task.key
        made = next((each for each in change.new.values() if (each.group, each.key) == key and not each.holder), None)
        waiting = made or self.state.tasks.get(self.state.waiting_keys.get(key, 0))
        leased = self.state.tasks.get(self.state.leased_keys.get(key, 0)) if key not in leaving else None
        for each in (waiting, leased):
            if each is not None and (each.payload, each.type) != (task.payload, task.type):
                raise Refused(
                    "Conflict",
                    f"The key {task.key} of {task.group} is that of unit {each.unit}, which has another payload.",
                    ids=(each.id,),
                )
        return waiting

    def _absorb(self, change: _Change, kept: Task, other: Task) -> int:
        """A waiting task that does the work of another one with its key, too."""
        first = kept if kept.since <= other.since else other
        return change.replace(
            kept,
            priority=max(kept.priority, other.priority),
            since=first.since,
            delay=first.delay,
            attempt=max(kept.attempt, other.attempt),
            reasons=kept.reasons or other.reasons,
        )

    def _check_bundle(self, change: _Change, task: Task) -> None:
        bundle = task.bundle
        if bundle is None:
            return
        key = task.group, bundle.name
        members = [self.state.tasks[each] for each in self.state.bundles.get(key, ())]
        members += [each for each in change.new.values() if each.bundle and (each.group, each.bundle.name) == key]
        sizes = {each.bundle.size for each in members if each.bundle}
        if sizes - {bundle.size}:
            raise Refused("Conflict", f"The bundle {bundle.name} has {sizes.pop()} tasks, not {bundle.size}.")
        if len(members) >= bundle.size or key in self.state.closed:
            raise Refused("Conflict", f"The bundle {bundle.name} of {task.group} has all of its tasks already.")

    def _give_back(self, change: _Change, task: Task, after: float, **changes: Any) -> int:
        """A task that waits again. If another one with its key waits, that one does its work."""
        checkpoint = changes.pop("checkpoint", None)
        changes["checkpoint"] = task.checkpoint if checkpoint is None else checkpoint
        back = msgspec.structs.replace(
            task, holder="", seconds=0.0, delay=after, since=self._wall() + after, progress=0.0, **changes
        )
        other = self.state.waiting_keys.get((task.group, task.key)) if task.key else None
        if other is not None and other != task.id and not back.dead:
            change.gone.append(task.id)
            return self._absorb(change, self.state.tasks[other], back)
        return change.replace(
            task,
            **{each: getattr(back, each) for each in ("holder", "seconds", "delay", "since", "progress", *changes)},
        )

    def _fail(
        self, change: _Change, task: Task, reason: str, after: float | None, *, checkpoint: str | None = None
    ) -> None:
        attempt = task.attempt + 1
        reasons = (*task.reasons, reason[:_MOST_REASON] or "no reason was given")[-ATTEMPTS:]
        if attempt >= self._setting(task.type, "attempts", ATTEMPTS):
            self._give_back(change, task, 0.0, attempt=attempt, dead=True, reasons=reasons, checkpoint=checkpoint)
            return
        if after is None:
            after = self._dice.uniform(0.0, min(FIRST_RETRY * 2**attempt, MOST_DELAY))
        after = min(max(after, 0.0), MOST_DELAY)
        self._give_back(change, task, after, attempt=attempt, reasons=reasons, checkpoint=checkpoint)

    def _leased(self, call: Numbered, ids: Sequence[int]) -> list[Task]:
        """The tasks of these ids, which the session has leased. Raises Refused."""
        mine = {each: self._own(call, each) for each in dict.fromkeys(ids)}
        if lost := tuple(each for each, task in mine.items() if task is None):
            raise Refused(
                "LeaseLost", "These tasks are not leased to this session any more, or have new ids.", ids=lost
            )
        return [task for task in mine.values() if task is not None]

    def _own(self, call: Numbered, task_id: int) -> Task | None:
        task = self.state.tasks.get(task_id)
        return task if task is not None and task.holder == call.session else None

    # --- settings and orders ------------------------------------------------------------------------------------------

    def _why_not(self, kind: str, digests: dict[str, str]) -> str | None:
        """Why a session leases nothing of a type; None if it may."""
        configuration = self.state.configurations.get(kind)
        if configuration is None:
            return "it has no configuration"
        if kind in digests and digests[kind] != self._setting(kind, "digest", ""):
            return "its configuration is another one than this worker's"
        full = [group for source, group in self.state.edges if source == kind and group != kind and self.is_full(group)]
        return f"downstream full: {', '.join(sorted(full))}" if full else None

    def _is_open(self, group: str) -> bool:
        return not self.is_ordered("pause", group) and not self.is_ordered("interdict", group)

    def is_ordered(self, what: str, group: str) -> bool:
        """Whether a person has paused or interdicted a group, or all."""
        return f"{what}:{group}" in self.state.controls or f"{what}:all" in self.state.controls

    def _groups(self) -> set[str]:
        return {*self.state.counts, *self.state.configurations}

    def _setting(self, kind: str, name: str, default: Any) -> Any:
        """A setting that the configuration of a type names."""
        configuration = self.state.configurations.get(kind)
        if configuration is None:
            return default
        return msgspec.json.decode(configuration.payload).get(name, default)

    def _put(self, change: _Change, present: Task | None, group: str, key: str, payload: bytes) -> int:
        """A task of the workflow itself."""
        if present is not None:
            return change.replace(present, payload=payload, since=self._wall())
        unit = change.next_id
        return change.add(Task(unit, unit, unit, group, group, payload, self._wall(), key))

    def _apply(
        self, change: _Change, now: float, *, session: str = "", seq: int = 0, digest: bytes = b"", answer: bytes = b""
    ) -> None:
        mutation = Mutation(
            tuple(change.gone), tuple(change.new.values()), session, seq, digest, answer, round(self._wall(), 3)
        )
        gone = self.state.apply(mutation)
        self.queues.follow(gone, mutation.new, now)
        self._write(encode_mutation(mutation))


def _digest(call: Numbered) -> bytes:
    """What tells a repeated call from another one with its number: the client may have seen a newer epoch meanwhile."""
    return hashlib.blake2b(_encode(msgspec.structs.replace(call, epoch=0)), digest_size=8).digest()


def _check_checkpoint(checkpoint: str | None) -> None:
    if checkpoint is not None and len(checkpoint.encode()) > MOST_CHECKPOINT:
        raise Refused("TooLarge", f"A checkpoint has at most {MOST_CHECKPOINT:,} bytes.")


def _listed(names: Iterable[str]) -> str:
    return (
        f"there are {', '.join(sorted(names))}"
        if names
        else "there is none yet; `feed-assets workflow apply` makes them"
    )
