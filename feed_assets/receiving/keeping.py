"""The thread that looks after sealed segments: answers into the store, the lander, and removal once all has landed.

Here: the lander as a supervised child process. Not here: what it does (`landing_segments`), and the open segment
(`committing`). A segment is removed after the ledger has all of it, and the store the answers to its requests, the
counts of its records, and what became of them.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from typing import Any

from feed_assets.journal.segments import MEDIUM_ERRORS, Segments, age
from feed_assets.processes.child import Child
from feed_assets.processes.restarts import Restarts
from feed_assets.receiving.committing import REPEATS, Sealed
from feed_assets.receiving.entries import encode_header
from feed_assets.receiving.landing_segments import Outcome, Place, SourceOutcome, work
from feed_assets.receiving.tables import record_answers, record_landed, record_received
from feed_assets.receiving.tallies import Tallies
from feed_assets.sources.scratch import TOGETHER
from feed_assets.state.address import StoreError
from feed_assets.state.store import Store

LOOK_EVERY = 0.2
"""Seconds between two looks at new segments and at the lander."""
AGAIN_AFTER, MOST_AGAIN_AFTER = 30.0, 600.0
"""Seconds until a segment that did not land is tried again; each pause is twice as long as the one before."""
COUNTED = timedelta(days=7)
"""How long the counts of what partners sent are kept."""
FIRST_PAUSE, MOST_PAUSE = 1.0, 60.0
"""The pauses in seconds before the lander is started again; each is twice as long as the one before."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Kept:
    sealed: Sealed
    recorded: bool = False
    sent: bool = False
    landed: bool = False
    due: float = 0.0
    pause: float = AGAIN_AFTER
    failed_at: float | None = None
    outcome: Outcome | None = None
    unrecorded: dict[str, SourceOutcome] = field(default_factory=dict)
    """What became of the sources that have landed, until the store has it."""

    @property
    def is_done(self) -> bool:
        """Whether the segment can be removed."""
        return self.landed and self.recorded and not self.unrecorded

    def stuck_sources(self, landed: Mapping[str, float]) -> list[str]:
        """The sources that alone keep this segment; none if something else may keep it, too.

        `landed` has the time at which each source landed last. If others landed since the first problem of this
        segment, the problem is not theirs.
        """
        if self.outcome is None or self.failed_at is None:
            return []
        of_all = len(self.outcome.problems) - len(self.outcome.stuck)
        others = any(time >= self.failed_at for key, time in landed.items() if key not in self.outcome.failed)
        if of_all > (len(self.outcome.failed) if others else 0):
            return []
        return [*self.outcome.stuck, *self.outcome.failed]


@dataclass(slots=True)
class Backlog:
    """What has not landed: sealed segments, the name of the oldest, and problems, with names of sources.

    `stuck` has for each source that does not land, while others do, the name of its oldest segment. `moving` is the
    oldest segment that waits for no such source, and `general` says whether a problem may be that of all sources.
    """

    segments: int = 0
    oldest: str = ""
    problems: tuple[str, ...] = ()
    lander_alive: bool = False
    stuck: Mapping[str, str] = field(default_factory=dict)
    stuck_segments: int = 0
    moving: str | None = None
    general: bool = False

    @property
    def oldest_seconds(self) -> float:
        """The age of the oldest segment in seconds, also after a restart: no event in it has waited longer."""
        return age(self.oldest)

    @property
    def moving_seconds(self) -> float:
        """The age of the oldest segment that waits for no stuck source."""
        return age(self.oldest if self.moving is None else self.moving)


@dataclass(slots=True)
class Keeper:
    """Looks after the sealed segments of a journal. `start` and `stop` it once; `add` is for any thread.

    `place` is called in the lander's process, so it must be picklable. `recorded` gets the keys of answers that the
    store has; `landed` gets each outcome without a problem. `processes` is the context of multiprocessing. `tallies`
    has the counts of segments, and loses those that have landed.
    """

    journal: Segments
    store: Store
    place: Callable[[], Place]
    recorded: Callable[[list[str]], None] = lambda _: None
    landed: Callable[[Outcome], None] = lambda _: None
    processes: Any = None
    tallies: Tallies = field(default_factory=Tallies)
    backlog: Backlog = field(default_factory=Backlog)
    _new: queue.SimpleQueue[Sealed] = field(default_factory=queue.SimpleQueue)
    _kept: dict[str, _Kept] = field(default_factory=dict)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _lander: Child | None = None
    _restarts: Restarts = field(default_factory=lambda: Restarts(FIRST_PAUSE, MOST_PAUSE))
    _landed: dict[str, float] = field(default_factory=dict)

    def add(self, sealed: Sealed) -> None:
        """Look after this segment."""
        self._new.put(sealed)

    def start(self) -> None:
        """Start the thread, and the lander."""
        self._thread = threading.Thread(target=self._run, name="keeper")
        self._thread.start()

    def stop(self) -> None:
        """Record the answers of all segments; end the lander. Segments that have not landed wait for the next start."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        if self._lander is not None:
            self._lander.kill()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._turn()
            except Exception:  # noqa: BLE001 - nobody else looks after the lander
                _log.exception("Looking after the segments failed; it is tried again")
            self._stopping.wait(LOOK_EVERY)
        self._take_new()
        self._record()

    def _turn(self) -> None:
        self._take_new()
        self._supervise()
        self._record()
        self._exchange()
        self._record_landed()
        self._remove()
        self._tell()

    def _take_new(self) -> None:
        with suppress(queue.Empty):
            while True:
                sealed = self._new.get_nowait()
                self._kept[sealed.name] = _Kept(sealed)

    def _supervise(self) -> None:
        if self._lander is not None and self._lander.is_alive:
            return
        if self._lander is not None:
            _log.error("The lander ended with exit code %s; it starts again", self._lander.exit_code)
            self._lander, now = None, time.monotonic()
            self._restarts.ended()
            in_hand = [each for each in self._kept.values() if each.sent and not each.landed]
            for each in in_hand:
                # A lone segment may have crashed the lander, so delay it; the others go first.
                each.sent, each.due = False, now + (AGAIN_AFTER if len(in_hand) == 1 else 0)
        if self._restarts.is_due:
            context = self.processes or get_context("spawn")
            self._lander = Child.start(work, self.place, name="lander", context=context, daemon=True)

    def _record(self) -> None:
        """Put the answers of segments, and the counts of their records, into the store, in one transaction."""
        due = [each for each in self._kept.values() if not each.recorded]
        if not due:
            return
        given = {
            key: (header.at, encode_header(header).decode())
            for each in due
            for key, header in each.sealed.repeatable.items()
        }
        tallies = {each.sealed.name: each.sealed.tallies for each in due if each.sealed.tallies}
        if given or tallies:
            now = datetime.now(UTC)
            try:
                with self.store.writing() as transaction:
                    record_answers(transaction, given, forget=now - REPEATS)
                    record_received(transaction, tallies, forget=now - COUNTED)
            except StoreError as error:
                _log.error("Segments are kept until their answers are recorded: %s", error)
                self._stopping.wait(1)
                return
            self.recorded(list(given))
        for each in due:
            each.recorded, each.sealed = True, replace(each.sealed, repeatable={}, tallies={})

    def _record_landed(self) -> None:
        """Put into the store what became of the sources that have landed, in one transaction."""
        due = {name: each for name, each in self._kept.items() if each.unrecorded and each.recorded}
        if not due:
            return
        try:
            with self.store.writing() as transaction:
                for name, each in due.items():
                    for source, became in each.unrecorded.items():
                        record_landed(transaction, name, source, became.later, at=datetime.now(UTC))
        except StoreError as error:
            _log.error("Segments are kept until their landing is recorded: %s", error)
            self._stopping.wait(1)
            return
        for name, each in due.items():
            self.tallies.landed(name, each.unrecorded)
            each.unrecorded = {}

    def _exchange(self) -> None:
        """Take outcomes, and send the lander what is due: after it died, one segment at a time until one has landed."""
        now, most = time.monotonic(), 1 if self._restarts.failures else 2 * TOGETHER
        if self._lander is None:
            return
        for outcome in self._lander.received():
            self._take(outcome)
        sent = sum(each.sent for each in self._kept.values())
        # New segments have never been due, so those that fail again and again do not keep them back.
        for name, each in sorted(self._kept.items(), key=lambda item: item[1].due):
            if sent < most and not each.sent and not each.landed and now >= each.due:
                self._lander.send(name)
                each.sent = True
                sent += 1

    def _take(self, outcome: Outcome) -> None:
        each, now = self._kept[outcome.segment], time.monotonic()
        each.outcome = outcome
        self._landed |= dict.fromkeys(outcome.done, now)
        each.unrecorded |= outcome.sources
        if outcome.problems:
            each.sent, each.due = False, now + each.pause
            each.failed_at = now if each.failed_at is None else each.failed_at
            each.pause = min(2 * each.pause, MOST_AGAIN_AFTER)
            for problem in outcome.problems:
                _log.error("Segment %s of %s is kept, and tried again: %s", outcome.segment, self.journal, problem)
            return
        each.sent, each.landed = False, True
        self._restarts.worked()
        self.landed(outcome)

    def _remove(self) -> None:
        for name in [name for name, each in self._kept.items() if each.is_done]:
            try:
                self.journal.remove(name)
            except MEDIUM_ERRORS as error:
                _log.error("Segment %s has landed, and is removed later: %s", name, error)
                return
            del self._kept[name]
            self.tallies.forget(name)

    def _tell(self) -> None:
        problems: list[str] = []
        stuck: dict[str, str] = {}
        moving, general = [], False
        for name, each in sorted(self._kept.items()):
            problems += each.outcome.problems if each.outcome else ()
            sources = each.stuck_sources(self._landed)
            for source in sources:
                stuck.setdefault(source, name)
            if not sources:
                moving.append(name)
                general = general or bool(each.outcome and each.outcome.problems)
        self.backlog = Backlog(
            len(self._kept),
            min(self._kept, default=""),
            tuple(problems),
            self._lander is not None and self._lander.is_alive,
            stuck,
            len(self._kept) - len(moving),
            min(moving, default=""),
            general,
        )
