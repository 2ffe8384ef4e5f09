"""A view in memory of what a log tells, kept up to date by the log's events.

Here: the cursor, loading the view anew where the log does not reach back, and waking up whoever waits. Not here: what
the view is, which the caller says by `load` and `apply`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from sqlalchemy.engine import Connection

from feed_assets.state.event_log import MAIN, Event, newest_number, read_events
from feed_assets.state.store import Store

LOOK_SECONDS: Final = 0.5
"""How often a waiter looks for events of other processes."""
AT_ONCE: Final = 1000

View = TypeVar("View")


@dataclass(slots=True)
class Followed(Generic[View]):
    """A view of a log. Any thread may use it.

    `load` makes the view from the tables, in the transaction that tells the newest event; `apply` returns the view
    after one more event, or None if the event does not tell it: then it is loaded anew. A view that is changed in place
    is returned as it is.
    """

    store: Store
    load: Callable[[Connection], View]
    apply: Callable[[View, Event], View | None]
    empty: Callable[[], View]
    """The view of a database that does not exist yet."""
    log: str = MAIN
    _view: View | None = None
    _cursor: int = -1
    """The number of the last event in the view; -1 without a view."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def current(self) -> View:
        """The view after the newest event. One query if there is none that is new. Raises StoreError."""
        with self._lock:
            return self._catch_up()

    @property
    def cursor(self) -> int:
        """The number of the last event that the view has."""
        return max(self._cursor, 0)

    def wait(self, after: int, seconds: float) -> bool:
        """Wait until there is an event after this number; False if none came in time. Raises StoreError.

        `wake` ends the wait at once; other processes' events are seen within LOOK_SECONDS.
        """
        deadline = time.monotonic() + seconds
        while True:
            self.current()
            if self.cursor > after:
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            with self._changed:
                self._changed.wait(min(left, LOOK_SECONDS))

    def wake(self) -> None:
        """Let waiters look now: this process has just committed an event."""
        with self._changed:
            self._changed.notify_all()

    def _catch_up(self) -> View:
        if not self.store.exists():
            self._view, self._cursor = None, -1
            return self.empty()
        view = self._view
        with self.store.reading() as connection:
            while view is not None:
                events = read_events(connection, self.log, self._cursor, AT_ONCE)
                # A gap: those events are deleted. A lower newest number: the database was lost, or replaced.
                if (events and events[0].sequence != self._cursor + 1) or (
                    not events and newest_number(connection, self.log) != self._cursor
                ):
                    break
                for each in events:
                    view = self.apply(view, each)
                    if view is None:
                        break
                    self._view, self._cursor = view, each.sequence
                if view is not None and len(events) < AT_ONCE:
                    return view
            loaded, self._cursor = self.load(connection), newest_number(connection, self.log)
            self._view = loaded
            return loaded
