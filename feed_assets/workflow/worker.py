"""A worker: it leases tasks, does the work of their stage, and commits; it may be killed at any time.

Here: one lease after the other, renewals while a stage works, and what follows from each refusal. Not here: what a
stage does (`flow`), and sending calls (`client`).
"""

from __future__ import annotations

import logging
import queue
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from feed_assets.blackboard.port import Blackboard
from feed_assets.workflow.calls import OTHER_CODE, Commit, Fail, Lease, Refused, Release, Renew, Reply, TaskView
from feed_assets.workflow.errors import StageError, UnreachableError
from feed_assets.workflow.flow import Computer, Publisher, Stage, Tables, Work, Workflow
from feed_assets.workflow.tasks import MOST_REASON

RENEWALS: Final = 3
"""How often a lease is renewed in its length."""
WAIT_SECONDS: Final = 20.0
"""How long a worker waits for a task with one call."""
_LOOK_SECONDS: Final = 0.2
"""How often a waiting worker looks whether it is over."""
_MOST_AGAIN: Final = 10
"""How often a task is done again under one lease because its configuration changed."""

AGAIN: Final = "again"
LOST: Final = "lost"
RELEASED: Final = "released"
_LOST: Final = ("LeaseLost", "SessionLost")

_log = logging.getLogger(__name__)


class Caller(Protocol):
    """Who sends calls: a client, or a machine in the same process."""

    def call(self, kind: type[Any], *, wait: float = 0.0, **arguments: Any) -> Reply:
        """The reply. Raises Refused."""
        ...


@dataclass(slots=True)
class _Held:
    """Tasks that this worker has leased, by their present ids. No other call about them is under way with a renewal."""

    caller: Caller
    seconds: float
    tasks: list[TaskView]
    configurations: Mapping[str, int]
    parameters: dict[str, Any]
    digest: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_lost: bool = False

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(each.id for each in self.tasks)

    def renew(self, checkpoint: str | None = None, progress: float | None = None) -> None:
        """Renew the lease; if any task is lost, all work is in vain."""
        with self.lock:
            if self.is_lost:
                return
            done = self.tasks[0].progress if progress is None else progress
            reply = self.caller.call(Renew, ids=self.ids, seconds=self.seconds, progress=done, checkpoint=checkpoint)
            if reply.answer.lost:
                self.is_lost = True
                return
            self.tasks = [
                msgspec.structs.replace(task, id=new, progress=done)
                for task, new in zip(self.tasks, reply.answer.ids, strict=True)
            ]
            self.configure(reply)

    def configure(self, reply: Reply) -> None:
        """Use the configuration that a reply says is in force."""
        for each in reply.configurations:
            payload = msgspec.json.decode(each.payload)
            self.configurations = {each.key: each.id}
            self.parameters, self.digest = payload.get("parameters", {}), payload.get("digest", "")

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew while the block runs."""
        over = threading.Event()

        def renew() -> None:
            while not over.wait(self.seconds / RENEWALS):
                try:
                    self.renew()
                except Exception as error:  # noqa: BLE001 - the next renewal may succeed, and the commit decides
                    _log.warning("The lease was not renewed: %s", error)
                if self.is_lost:
                    return

        thread = threading.Thread(target=renew, name="renewals", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@dataclass(slots=True)
class Worker:
    """Does the work of some stages of a workflow, in the order in which `stages` names them.

    `done` hears of each task: its stage, its unit, and what became of it.
    """

    flow: Workflow
    stages: Sequence[Stage]
    caller: Caller
    board: Blackboard
    tables: Tables | None = None
    publisher: Publisher | None = None
    computer: Computer | None = None
    done: Callable[[Stage, int, str], None] = lambda *_: None
    reason: str = ""
    """Why there was nothing to do last."""

    def run(self, is_over: Callable[[], bool], *, until_idle: bool = False) -> int:
        """Work until it is over, or until nothing is there to do; returns how many leases were worked on.

        Without `until_idle` it outlives a workflow without a master.
        """
        count = 0
        while not is_over():
            try:
                if until_idle:
                    if not self.once():
                        break
                elif (reply := _unless(is_over, lambda: self._lease(WAIT_SECONDS))) is None or not self._do(reply):
                    continue
                count += 1
            except UnreachableError as error:
                if until_idle:
                    raise
                _log.warning("This worker goes on looking for a master: %s", error)
        return count

    def once(self, wait: float = 0.0) -> bool:
        """Lease a task, or a bundle, and do it; False if there was none."""
        return self._do(self._lease(wait))

    def _lease(self, wait: float) -> Reply:
        """The reply to a call for a task of these stages."""
        try:
            return self.caller.call(
                Lease,
                wait=wait,
                types=tuple(each.name for each in self.stages),
                seconds=max(each.seconds for each in self.stages),
                digests={each.name: each.digest for each in self.stages},
            )
        except Refused as error:
            if error.code != "SessionLost":
                raise
            return self._lease(wait)  # it slept for an hour, and has leased nothing: the next call begins a session

    def _do(self, reply: Reply) -> bool:
        """Do what was leased; False if nothing was."""
        self._note(reply.answer.reason)
        if not reply.tasks:
            return False
        stage = next(each for each in self.stages if each.name == reply.tasks[0].type)
        seconds = min(reply.tasks[0].seconds, stage.seconds)
        held = _Held(self.caller, seconds, list(reply.tasks), {}, {}, "")
        held.configure(reply)
        unit = reply.tasks[0].unit
        try:
            with held.renewed():
                outcome = self._work(stage, held)
        except Refused as error:
            if error.code not in _LOST:
                raise
            outcome = LOST
        self.done(stage, unit, outcome)
        return True

    def _note(self, reason: str) -> None:
        """Remember why there is nothing to do, and say once if it is the code of this worker."""
        if OTHER_CODE in reason and reason != self.reason:
            _log.warning(
                "This worker waits: %s. Start it again with the project's present code, or bring its own configuration "
                "into force with `feed-assets workflow apply`.",
                reason,
            )
        self.reason = reason

    def _work(self, stage: Stage, held: _Held) -> str:
        """Do the work, and commit it, again if the configuration changed; returns what became of it."""
        for _ in range(_MOST_AGAIN):
            outcome = self._try(stage, held)
            if outcome != AGAIN:
                return outcome
            self.done(stage, held.tasks[0].unit, AGAIN)
            held.renew()
            if held.is_lost:
                return LOST
        return self._failed(held, stage, StageError("The configuration changed whenever the work was done."))

    def _try(self, stage: Stage, held: _Held) -> str:
        if held.digest != stage.digest:
            with held.lock:
                self.caller.call(Release, ids=held.ids, reason="this worker has other code", after=1.0)
            return RELEASED
        # A renewal may bring another configuration while the stage works: the commit names the one that was used.
        with held.lock:
            tasks, parameters, configurations = tuple(held.tasks), held.parameters, dict(held.configurations)
        work = Work(
            self.flow, stage, tasks, parameters, self.board, self.tables, self.publisher, self.computer, held.renew
        )
        try:
            result = stage.function(work)
            if stage.publishes is not None and result is not None:
                work.publish(result)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a stage raises, this worker goes on
            return self._failed(held, stage, error)
        try:
            with held.lock:
                self.caller.call(Commit, consume=held.ids, configurations=configurations, produce=tuple(work.made))
        except Refused as error:
            if error.code == "ConfigurationChanged":
                return AGAIN
            if error.code == "Interdicted":  # which is no fault of the task
                with held.lock:
                    self.caller.call(Release, ids=held.ids, reason=str(error))
                return RELEASED
            if error.code in _LOST:
                raise
            return self._failed(held, stage, error)
        return "done"

    def _failed(self, held: _Held, stage: Stage, error: BaseException) -> str:
        """Give the tasks back, and say why."""
        reason = _reason(error, stage)
        _log.warning("%s of unit %s failed: %s", stage.name, held.tasks[0].unit, reason)
        _log.debug("It failed here", exc_info=error)
        with held.lock:
            self.caller.call(Fail, ids=held.ids, reason=reason)
        return "failed"


def _unless(is_over: Callable[[], bool], ask: Callable[[], Reply]) -> Reply | None:
    """What `ask` returns or raises; None if it is over before: then nobody waits for the answer."""
    answers: queue.SimpleQueue[Reply | Exception] = queue.SimpleQueue()

    def put() -> None:
        try:
            answers.put(ask())
        except Exception as error:  # noqa: BLE001 - it is raised below
            answers.put(error)

    threading.Thread(target=put, name="lease", daemon=True).start()
    while True:
        try:
            found = answers.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            if is_over():
                return None
            continue
        if isinstance(found, Exception):
            raise found
        return found


def _reason(error: BaseException, stage: Stage) -> str:
    """Why a stage failed, in characters that can be sent, and the last line of its own code on the way there."""
    where = traceback.extract_tb(error.__traceback__)
    folder = Path(getattr(getattr(stage.function, "__code__", None), "co_filename", "")).parent
    own = [each for each in where if folder in Path(each.filename).parents] or where
    place = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
    what = f"{type(error).__name__}: {error}".encode(errors="replace").decode()
    return f"{what[: MOST_REASON - len(place)]}{place}"
