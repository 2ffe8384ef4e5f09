"""One writer: how a candidate becomes the master of a new epoch, and how a master writes its journal.

Neither needs a clock or a lock. A candidate creates the next epoch, seals the journal of the one before, and replays up
to the seal. The old master's next entry has the number of that seal: it finds the seal there, and ends. Clocks only say
how long to wait before that (`epochs.Pace`): a mistaken takeover costs a failover, never a wrong result. Not here: the
order of calls, and when entries are written (the master's).
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from feed_assets.blackboard.port import NotFoundError, UnavailableError
from feed_assets.journal.numbered import SEAL, FencedError, NumberedEntries, UndecidedError
from feed_assets.workflow.entries import FORMAT, MOST_BYTES, Entry, checksum, decode, encode
from feed_assets.workflow.epochs import Address, Heart, address_of, heartbeat_tag, newest_epoch, own_address, pace_of
from feed_assets.workflow.errors import StoppedError, StoreSilentError, SupersededError, WorkflowError
from feed_assets.workflow.history import BEGINNING, Cursor, HoleError, follow
from feed_assets.workflow.places import Place
from feed_assets.workflow.snapshots import Load, S, listed, load_newest

UNDECIDED_AFTER: Final = 60.0
"""Seconds for which a write is repeated until the store decides it."""
RESIGNING_SECONDS: Final = 5.0
"""Seconds for which a clean stop tries to seal."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0

Result = TypeVar("Result")


class Patience:
    """Repeats a request until the store decides it. `clock` is monotonic, in seconds."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self.clock, self.sleep = clock, sleep
        self.is_waiting = False
        """Whether the last try has decided nothing."""

    def decided(self, request: Callable[[], Result], *, most: float = UNDECIDED_AFTER) -> Result:
        """What the request returns, however often it has to be sent. Raises StoreSilentError after `most` seconds."""
        began, pause = self.clock(), _FIRST_PAUSE
        try:
            while True:
                try:
                    return request()
                except (UndecidedError, UnavailableError) as error:
                    self.is_waiting = True
                    if self.clock() - began >= most:
                        raise StoreSilentError(
                            f"The store has decided nothing for {most:.0f} s: {error} This process ends, and answers "
                            "nobody; the next one finds out what was stored."
                        ) from error
                self.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        finally:
            self.is_waiting = False


class Reign:
    """The right to write the journal of one epoch, after its START. One thread calls `append` and `resign`."""

    def __init__(
        self, place: Place, address: Address, start: Cursor, position: int, heart: Heart, patience: Patience
    ) -> None:
        self.epoch = address.epoch
        self.token = place.token
        self.address = address
        self.heart = heart
        """Beats, and tells of a newer epoch. To be stopped when the process ends the reign."""
        self._place, self._patience = place, patience
        self._last, self._position = start, position
        self._ended: WorkflowError | None = None

    @property
    def is_undecided(self) -> bool:
        """Whether an entry is under way of which the store does not say whether it is stored."""
        return self._patience.is_waiting

    def append(self, first_position: int, mutations: Sequence[bytes]) -> None:
        """Make these mutations durable, the first of which has this position. One PUT for each 4 MiB.

        Raises SupersededError if another master was here, StoreSilentError if the store decides nothing for a minute,
        JournalDamagedError. After an error, the same error is raised for ever: nothing else may be written.
        """
        if self._ended is not None:
            raise self._ended
        if first_position != self._position + 1:
            raise ValueError(f"position {first_position} does not follow {self._position}")
        for group in _groups(mutations):
            entry = Entry(
                FORMAT,
                self.token,
                self.epoch,
                self._last.number + 1,
                self._position + 1,
                self.address.nonce,
                self._last.checksum,
                None,
                group,
            )
            self._store(entry)
            self._position += len(group)

    def resign(self) -> None:
        """End the reign cleanly, so that the next master need not wait: seals the epoch, and stops the heart.

        A store that does not answer is left alone after some seconds. No write may be under way.
        """
        self._ended = self._ended or SupersededError(f"The master of epoch {self.epoch} has resigned.")
        self.heart.stop()
        journal = self._place.journal(self.epoch)
        try:
            self._patience.decided(lambda: journal.seal(_seal_of(self.epoch)), most=RESIGNING_SECONDS)
        except StoreSilentError:
            return

    def _store(self, entry: Entry) -> None:
        data = encode(entry)
        try:
            self._patience.decided(lambda: self._place.journal(self.epoch).append(entry.number, data))
        except FencedError as error:
            self._ended = _fenced(self._place.journal(self.epoch), entry, error)
            raise self._ended from error
        except WorkflowError as error:
            self._ended = error
            raise
        self._last = Cursor(self.epoch, entry.number, checksum(data))


def take_over(
    place: Place,
    load: Load[S],
    *,
    address: str,
    failover_after: float | None = None,
    stop: threading.Event | None = None,
    said: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] | None = None,
    start_heart: Callable[[Heart], None] = Heart.start,
) -> tuple[Reign, S]:
    """Wait until no master lives, become the master, and return the state that the journal gives.

    `address` is the URL where it will serve; `failover_after` is in seconds (see `epochs.Pace`). `said` gets sentences
    on what is waited for. Raises StoppedError if `stop` is set, SupersededError if a later candidate was quicker,
    StoreSilentError, JournalDamagedError.
    """
    stop = stop or threading.Event()
    patience = Patience(clock, sleep or stop.wait)
    candidate = Candidate(place, load, address=address, stop=stop, said=said, patience=patience)
    epoch = candidate.claimed(pace_of(place).failover_after if failover_after is None else failover_after)
    heart = Heart(place, epoch, pace_of(place).heartbeat)
    start_heart(heart)
    try:
        end = candidate.sealed()
        state, cursor = candidate.replayed(end)
        return candidate.started(end, state.position, cursor, heart), state
    except BaseException:
        heart.stop()
        raise


class Candidate(Generic[S]):
    """Somebody who wants to be the next master. Call its steps in order."""

    def __init__(
        self,
        place: Place,
        load: Load[S],
        *,
        address: str,
        stop: threading.Event,
        said: Callable[[str], None],
        patience: Patience,
    ) -> None:
        self._place, self._load, self._stop, self._said = place, load, stop, said
        self._patience = patience
        self._url = address
        self._nonce = secrets.token_hex(16)
        self._address = own_address(0, address, self._nonce)
        self._watch = Watch(place)

    def claimed(self, failover_after: float) -> int:
        """Wait until the newest master is over, and create the next epoch; returns its number."""
        while True:
            epoch = self.waited(failover_after) + 1
            self._address = own_address(epoch, self._url, self._nonce)
            try:
                self._decided(lambda: self._place.epochs.append(epoch, self._address.encode()))  # noqa: B023 - at once
            except FencedError:
                continue  # another candidate was quicker
            return epoch

    def waited(self, failover_after: float) -> int:
        """The newest epoch, once its master is over; 0 if nobody ever reigned."""
        told = ""
        since, seen = 0.0, None
        while True:
            self._go_on()
            sentence = ""
            try:
                epoch = self._watch.newest()
                if not epoch or self._watch.is_over(epoch):
                    return epoch
                sign = (epoch, heartbeat_tag(self._place, epoch))
                now = self._patience.clock()
                if sign != seen:
                    since, seen = now, sign
                if now - since >= failover_after:
                    self._said(f"The master of epoch {epoch} gave no sign of life for {now - since:.1f} s.")
                    return epoch
                sentence = f"Epoch {epoch} of {self._place.name!r} has a master. This one waits, and takes over then."
            except UnavailableError as error:
                seen = None  # who sees nothing does not know that nothing has changed
                sentence = f"{error} This candidate waits."
            if sentence != told:
                told = sentence
                self._said(sentence)
            self._patience.sleep(min(pace_of(self._place).heartbeat, failover_after / 2) or _FIRST_PAUSE)

    def sealed(self) -> tuple[int, int]:
        """Seal the epochs before, down to one with entries; returns its number and its seal's. (0, 0) without one."""
        for epoch in range(self._address.epoch - 1, 0, -1):
            end = self._sealed(epoch)
            if end > 1:
                return epoch, end
        return 0, 0

    def replayed(self, end: tuple[int, int]) -> tuple[S, Cursor]:
        """The state before that seal, and the last entry in it."""
        try:
            return self._decided(lambda: self._replay(end))
        except HoleError:
            self._refuse_newer()
            raise

    def started(self, end: tuple[int, int], position: int, cursor: Cursor, heart: Heart) -> Reign:
        """Create the START of the epoch: from now on it is the one that counts."""
        self._go_on()
        epoch, nonce = self._address.epoch, self._nonce
        entry = Entry(FORMAT, self._place.token, epoch, 1, position + 1, nonce, cursor.checksum, end, ())
        data = encode(entry)
        journal = self._place.journal(epoch)
        try:
            self._decided(lambda: journal.append(1, data))
        except FencedError as error:
            raise _fenced(journal, entry, error) from error
        start = Cursor(epoch, 1, checksum(data))
        return Reign(self._place, self._address, start, position, heart, self._patience)

    def _sealed(self, epoch: int) -> int:
        journal = self._place.journal(epoch)
        while True:
            end = self._decided(lambda: journal.seal(_seal_of(self._address.epoch)))
            if not self._decided(lambda: journal.listed(after=end)):  # noqa: B023 - at once
                return end
            # The seal fell into the place of an entry that was deleted: it ends nothing.

    def _replay(self, end: tuple[int, int]) -> tuple[S, Cursor]:
        self._go_on()
        if end == (0, 0):
            return self._load(None), BEGINNING
        there = [each for each in listed(self._place) if each < end]
        state, cursor, _ = load_newest(self._place, self._load, there, said=self._said)
        return state, follow(self._place, state, cursor, through=end[0])

    def _refuse_newer(self) -> None:
        epoch = self._address.epoch
        if self._decided(lambda: newest_epoch(self._place, known=epoch)) > epoch:
            raise SupersededError(f"A later candidate than epoch {epoch} of {self._place.name!r} is at work.")

    def _decided(self, request: Callable[[], Result]) -> Result:
        def checked() -> Result:
            self._go_on()
            return request()

        return self._patience.decided(checked)

    def _go_on(self) -> None:
        if self._stop.is_set():
            raise StoppedError(f"The candidate for the workflow {self._place.name!r} was stopped.")


class Watch:
    """What a waiting candidate sees of the newest epoch. Remembers where it looked, so a look is a short listing."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._epoch = 0
        self._seen = 0
        self._address: Address | None = None

    def newest(self) -> int:
        """The newest epoch; 0 without one."""
        newest = newest_epoch(self._place, known=self._epoch)
        if newest != self._epoch:
            self._epoch, self._seen, self._address = newest, 0, None
        return newest

    def is_over(self, epoch: int) -> bool:
        """Whether the epoch is sealed, or its process was of this machine, and is dead."""
        if self._address is None:
            self._address = address_of(self._place, epoch)
        if self._address.is_dead():
            return True
        journal = self._place.journal(epoch)
        found = journal.listed(after=self._seen)
        if not found:
            return False
        self._seen = journal.number(found[-1]) - 1
        return journal.is_seal(found[-1])


def _groups(mutations: Sequence[bytes]) -> Iterator[tuple[bytes, ...]]:
    group: list[bytes] = []
    size = 0
    for each in mutations:
        if group and size + len(each) > MOST_BYTES:
            yield tuple(group)
            group, size = [], 0
        group.append(each)
        size += len(each)
    if group:
        yield tuple(group)


def _seal_of(epoch: int) -> bytes:
    """What a seal says for people: which epoch has made it. Must stay shorter than any entry."""
    return f" by epoch {epoch}".encode()


def _fenced(journal: NumberedEntries, entry: Entry, error: FencedError) -> WorkflowError:
    """The error for a number that somebody else has: SupersededError, or JournalDamagedError if it is no entry."""
    uri = journal.blackboard.uri(journal.key(entry.number))
    try:
        data = journal.blackboard.read(journal.key(entry.number)).data
        if not data.startswith(SEAL):
            decode(data, uri)
    except NotFoundError:
        pass  # removed since, as only a later master does
    except UnavailableError as silent:
        return SupersededError(f"{error}. What it is could not be read: {silent}")
    except WorkflowError as damaged:
        return damaged
    return SupersededError(f"{uri} is of a later master, or its seal: the master of epoch {entry.epoch} ends.")
