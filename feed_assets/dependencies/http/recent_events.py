"""The newest events in memory, for all who wait for one: one look at the log a moment, however many wait.

Here: following the log of a service that runs, and letting its time pass. Not here: what an event means (`rows`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Final

from feed_assets.datasets.slots import Slot, parse_start
from feed_assets.dependencies.errors import EventsGoneError
from feed_assets.dependencies.service import Dependencies
from feed_assets.state.address import StoreError
from feed_assets.state.event_log import Event

KEPT: Final = 20_000
"""How many events stay in memory, for the history of a slot."""
LOOK_SECONDS: Final = 1.0
"""How often time passes, and how long the end of the service may wait for a look."""

_log = logging.getLogger(__name__)


class RecentEvents:
    """Follows the log. `follow` runs in the event loop, where all waiters are."""

    def __init__(self, states: Dependencies, now: Callable[[], datetime]) -> None:
        self._states, self._now = states, now
        self._events: deque[Event] = deque(maxlen=KEPT)
        self._changed = asyncio.Event()
        self.newest = -1
        """The number of the newest event that is known; -1 before the first look."""
        self.is_current = False
        """Whether the last look saw the log."""

    async def follow(self) -> None:
        """Look until this is cancelled. Each problem is logged once."""
        problem = ""
        while True:
            before, problem, known = problem, "", self.newest
            try:
                self.newest, self.is_current = await asyncio.to_thread(self.look), True
            except StoreError as error:
                problem, self.is_current = str(error), False
                if problem != before:
                    _log.error("No new events are seen: %s", problem)
                await asyncio.sleep(LOOK_SECONDS)
            if self.newest != known:
                self._changed.set()
                self._changed = asyncio.Event()

    def look(self) -> int:
        """Let time pass, and wait a moment for events. The newest number. Raises StoreError."""
        self._states.tick(self._now())
        newest = self.newest
        if newest >= 0 and not self._states.wait(newest, LOOK_SECONDS):
            there = self._states.newest()
            if there == newest:
                return newest
            newest = -1  # the database was lost, or replaced
        if newest < 0:
            self._events.clear()
            newest = self._first()
        try:
            found = self._states.events(newest, KEPT)
        except EventsGoneError as gone:
            self._events.clear()
            return gone.newest
        self._events.extend(found)
        return max(self._states.newest(), newest) if not found else found[-1].sequence

    async def wait(self, after: int, seconds: float) -> None:
        """Wait until an event after this number is known, or so many seconds are over."""
        deadline = asyncio.get_running_loop().time() + seconds
        while 0 <= self.newest <= after and (left := deadline - asyncio.get_running_loop().time()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                return

    def of(self, slot: Slot, most: int) -> list[Event]:
        """The newest events about a slot, newest first."""
        found: list[Event] = []
        for each in reversed([*self._events]):
            if len(found) == most:
                break
            if _is_about(each, slot):
                found.append(each)
        return found

    def _first(self) -> int:
        """The number after which the events begin that are kept in memory."""
        newest = self._states.newest()
        back = KEPT
        while back:
            after = max(newest - back, 0)
            try:
                self._states.events(after, 1)
            except EventsGoneError:
                back //= 2
            else:
                return after
        return newest


def _is_about(event: Event, slot: Slot) -> bool:
    details = event.details
    if (details.get("dataset"), details.get("member"), details.get("grain")) != (
        slot.dataset,
        slot.member,
        slot.grain.value,
    ):
        return False
    first, last = (parse_start(str(details[end]), slot.grain)[1] for end in ("first", "last"))
    return first <= slot.start <= last
