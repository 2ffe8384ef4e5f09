"""The task master: it holds the state machine of one workflow, and answers a call when its change is in the journal.

Here: one loop with the machine, the clock, waiting for tasks, and the group commit. Not here: what is decided
(`machine`), who may be master (`reigns`), and HTTP (`service`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn, Protocol, TypeVar

from feed_assets.errors import FeedAssetsError
from feed_assets.journal.group_commit import GroupCommit
from feed_assets.workflow.calls import Answer, AnyCall, Lease, Refused, Reply
from feed_assets.workflow.entries import MOST_BYTES
from feed_assets.workflow.machine import Machine
from feed_assets.workflow.replies import reply_to
from feed_assets.workflow.state import State

TURN_SECONDS: Final = 0.2
"""How often the loop looks for leases and delays that are over, if nobody calls."""
MOST_STEP: Final = 0.5
"""How far the clock goes between two turns: a master that stood still takes no lease from who could not reach it."""
MOST_WAIT: Final = 30.0
_RETRY: Final = 1.0

Found = TypeVar("Found")

_log = logging.getLogger(__name__)


class HungUpError(Exception):
    """The client of a lease that waits for a task does not wait any more."""


class Journal(Protocol):
    """Where the mutations of one reign are written (`reigns`)."""

    @property
    def is_undecided(self) -> bool:
        """Whether the store has not said yet if it has the last entry."""
        ...

    def append(self, first_position: int, mutations: Sequence[bytes]) -> None:
        """Write an entry. It is durable when the call returns."""
        ...


@dataclass(slots=True)
class _Clock:
    """Monotonic seconds that go on only while the loop turns."""

    now: float = 0.0
    _last: float = field(default_factory=time.monotonic)

    def turn(self, *, stands_still: bool) -> float:
        """The time of this turn."""
        real = time.monotonic()
        if not stands_still:
            self.now += min(real - self._last, MOST_STEP)
        self._last = real
        return self.now


@dataclass(slots=True)
class _Entries:
    """Writes the mutations of all calls that came meanwhile as one entry. See `group_commit.Work`."""

    journal: Journal
    position: int
    ended: Callable[[Exception], NoReturn]

    def settle(self, items: Sequence[tuple[bytes, ...]]) -> Sequence[None]:
        """Make the mutations durable. An error ends the process: what memory has ahead of the journal ends with it."""
        if mutations := [each for item in items for each in item]:
            try:
                self.journal.append(self.position + 1, mutations)
            except FeedAssetsError as error:
                self.ended(error)
            self.position += len(mutations)
        return [None] * len(items)

    def rest(self, *, closing: bool) -> float | None:  # noqa: ARG002 - see `Work`
        """Do nothing between groups."""
        return None


class Master:
    """Answers calls about one workflow, one after the other. All methods belong to one event loop.

    `ended` ends the process when the journal cannot be written any more, so that nobody gets an answer.
    """

    def __init__(
        self,
        state: State,
        token: str,
        epoch: int,
        journal: Journal,
        *,
        wall: Callable[[], float],
        ended: Callable[[Exception], NoReturn],
    ) -> None:
        self._journal, self._ended = journal, ended
        self._clock = _Clock()
        self._pending: list[bytes] = []
        self._commit: GroupCommit[tuple[bytes, ...], None] = GroupCommit(
            _Entries(journal, state.position, ended), size=lambda item: sum(map(len, item)), most=MOST_BYTES
        )
        self.machine = Machine(state, token, epoch, self._pending.append, now=self._clock.now, wall=wall)
        self._waiting: dict[str, dict[asyncio.Future[None], None]] = {}
        """The calls that wait for a task of each type, in the order in which they came."""
        self.is_ending: Callable[[], bool] = lambda: False
        """Whether the process ends after what is under way: then no call waits for tasks."""

    @property
    def is_undecided(self) -> bool:
        """Whether the store has not said yet if it has the last entry: meanwhile calls are refused as `Busy`."""
        return self._journal.is_undecided

    @property
    def state(self) -> State:
        """All tasks and sessions, ahead of the journal by what is under way."""
        return self.machine.state

    def start(self) -> None:
        """Start to write."""
        self._commit.start()

    def close(self) -> None:
        """Write what was taken, and end. Nobody may call any more."""
        self._commit.close()

    async def turn(self) -> None:
        """Give back leases and start delayed tasks, when it is time, until this is cancelled."""
        while True:
            await asyncio.sleep(TURN_SECONDS)
            try:
                self.machine.expire(self._now())
            except Exception as error:  # noqa: BLE001 - memory may have changed by half
                _log.critical("Leases could not be ended", exc_info=error)
                self._ended(error)
            self._wake()
            if self.is_ending():
                self._wake_all()
            if self._pending:
                await self._durable()

    async def call(self, call: AnyCall, gone: asyncio.Future[None] | None = None) -> Reply:
        """The reply to a call, once it is durable. Raises HungUpError if its client is `gone` before it gets a task."""
        if isinstance(call, Lease) and call.wait > 0:
            await self._until_ready(call, gone or asyncio.get_running_loop().create_future())
        return (await self.calls([call]))[0]

    async def calls(self, calls: Sequence[AnyCall]) -> list[Reply]:
        """The replies to calls, in order, once all are durable. None of them waits for tasks."""
        replies = [reply_to(each, self._answer(each), self.machine) for each in calls]
        self._wake()
        await self._durable()
        return replies

    async def read(self, look: Callable[[State], Found]) -> Found:
        """What the state says, once it is durable."""
        found = look(self.state)
        await self._durable()
        return found

    def _answer(self, call: AnyCall) -> Answer:
        if self._journal.is_undecided:
            return Answer(refused="Busy", message="The store has not answered yet.", retry_after=_RETRY)
        try:
            return self.machine.answer(call, self._now())
        except Refused as error:
            return Answer(refused=error.code, message=str(error), lost=error.ids, retry_after=error.retry_after)
        except Exception as error:  # noqa: BLE001 - memory may have changed by half
            _log.critical("A call could not be decided", exc_info=error)
            self._ended(error)

    def _now(self) -> float:
        return self._clock.turn(stands_still=self._journal.is_undecided)

    async def _durable(self) -> None:
        """Return when everything up to now is in the journal."""
        written = tuple(self._pending)
        self._pending.clear()
        await self._commit.settled(written)

    async def _until_ready(self, call: Lease, gone: asyncio.Future[None]) -> None:
        """Return when a task may be there for a call, or its time is over. One call wakes for each task.

        Raises HungUpError if the client is gone first.
        """
        end = time.monotonic() + min(call.wait, MOST_WAIT)
        while (left := end - time.monotonic()) > 0 and not self.is_ending():
            if self.machine.has_answer(call) or self.machine.can_lease(call):
                return
            future = asyncio.get_running_loop().create_future()
            for each in call.types:
                self._waiting.setdefault(each, {})[future] = None
            try:
                await asyncio.wait({future, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in call.types:
                    if waiting := self._waiting.get(each):
                        waiting.pop(future, None)
            if gone.done():
                self._wake()  # another call, if this one was woken
                raise HungUpError

    def _wake(self) -> None:
        """Wake one waiting call of each type that has a task. It wakes the next one when it has leased."""
        for kind, futures in self._waiting.items():
            if futures and self.machine.has_ready(kind):
                future = next((each for each in futures if not each.done()), None)
                if future is not None:
                    future.set_result(None)

    def _wake_all(self) -> None:
        for futures in self._waiting.values():
            for each in futures:
                if not each.done():
                    each.set_result(None)
