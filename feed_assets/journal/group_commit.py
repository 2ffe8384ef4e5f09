"""A thread that settles what many callers submit: one write, and one wait for the medium, for all that came meanwhile.

Here: the queue, the groups, and a future for each caller. Not here: what is written (`Work`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Item_contra = TypeVar("Item_contra", contravariant=True)
Answer_co = TypeVar("Answer_co", covariant=True)

SWITCH_SECONDS: Final = 0.0005
"""For `sys.setswitchinterval` in a service with a group commit: how soon a thread gives way. The thread that writes the
journal needs Python's lock after each request to the disk, and the thread that takes requests has it."""

_log = logging.getLogger(__name__)


class Work(Protocol[Item_contra, Answer_co]):
    """The work that is done with a group. All methods are called in one thread."""

    def settle(self, items: Sequence[Item_contra]) -> Sequence[Answer_co | Exception]:
        """Make all items durable, or not; returns the answer to each, or the error that its caller gets."""
        ...

    def rest(self, *, closing: bool) -> float | None:
        """Called after each group, and when it is time; for the last time with `closing`.

        Returns the seconds until it is to be called again if nothing comes; None: not before the next group.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Submitted(Generic[Item, Answer]):
    item: Item
    answer: Future[Answer] | asyncio.Future[Answer]


class GroupCommit(Generic[Item, Answer]):
    """Settles items in groups of at most `most` bytes, by `size`. `start` and `close` it once.

    If the thread fails, the process ends: its callers would wait for ever, and what was answered is durable.
    """

    def __init__(self, work: Work[Item, Answer], *, size: Callable[[Item], int], most: int) -> None:
        self._work, self._size, self._most = work, size, most
        self._queue: queue.SimpleQueue[_Submitted[Item, Answer] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run_or_die, name="group-commit")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, item: Item) -> Future[Answer]:
        """Hand an item over. The future has its answer once it is settled; cancelling it takes nothing back."""
        answer: Future[Answer] = Future()
        self._queue.put(_Submitted(item, answer))
        return answer

    async def settled(self, item: Item) -> Answer:
        """As `submit`, and wait. All waiters of a loop wake by one call of it."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._queue.put(_Submitted(item, answer))
        # Who goes away does not take the item back.
        return await asyncio.shield(answer)

    def close(self) -> None:
        """Settle all submitted requests, and end. Nothing may be submitted any more."""
        self._queue.put(None)
        self._thread.join()

    def _run_or_die(self) -> None:
        try:
            self._run()
        except BaseException:  # noqa: BLE001 - whatever it is
            _log.critical("The journal cannot be written any more; the process ends", exc_info=True)
            os._exit(os.EX_SOFTWARE)

    def _run(self) -> None:
        wait: float | None = None
        closing = False
        while not closing:
            group, closing = self._next_group(wait)
            if group:
                _give([each.answer for each in group], self._work.settle([each.item for each in group]))
            wait = self._work.rest(closing=closing)

    def _next_group(self, wait: float | None) -> tuple[list[_Submitted[Item, Answer]], bool]:
        """What was submitted meanwhile, and whether it is the last; empty if nothing comes in time."""
        group: list[_Submitted[Item, Answer]] = []
        size = 0
        with suppress(queue.Empty):
            while size < self._most:
                each = self._queue.get_nowait() if group else self._queue.get(timeout=wait)
                if each is None:
                    return group, True
                group.append(each)
                size += self._size(each.item)
        return group, False


def _give(futures: Sequence[Future[Answer] | asyncio.Future[Answer]], answers: Sequence[Answer | Exception]) -> None:
    in_loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Answer], Answer | Exception]]] = {}
    for future, answer in zip(futures, answers, strict=True):
        if isinstance(future, asyncio.Future):
            in_loops.setdefault(future.get_loop(), []).append((future, answer))
        elif future.set_running_or_notify_cancel():
            _resolve(future, answer)
    for loop, given in in_loops.items():
        with suppress(RuntimeError):  # the loop was closed meanwhile, and nobody waits for the answers
            loop.call_soon_threadsafe(_give_in_loop, given)


def _give_in_loop(given: Sequence[tuple[asyncio.Future[Answer], Answer | Exception]]) -> None:
    for future, answer in given:
        if not future.cancelled():
            _resolve(future, answer)


def _resolve(future: Future[Answer] | asyncio.Future[Answer], answer: Answer | Exception) -> None:
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
