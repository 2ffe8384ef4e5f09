"""Who reigns: the objects that name each epoch's master, and the heartbeats that show that it lives.

Neither decides anything: what ends a reign is the seal of its journal (`reigns`). A heartbeat only tells candidates how
long to wait. Not here: taking over.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Final, Self

from feed_assets.blackboard.port import AlreadyExistsError, BlackboardError, ConflictError, NotFoundError
from feed_assets.processes.identity import Identity, is_dead, this_process
from feed_assets.workflow.errors import JournalDamagedError
from feed_assets.workflow.places import Place


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between two heartbeats, and without a new one until a candidate takes over."""

    heartbeat: float
    failover_after: float


ON_DISK: Final = Pace(heartbeat=1, failover_after=5)
ON_S3: Final = Pace(heartbeat=5, failover_after=20)
"""Each second would cost 172,800 requests a day."""


@dataclass(frozen=True, slots=True)
class Address:
    """The master of an epoch: where it answers, and which process it is."""

    epoch: int
    url: str
    nonce: str
    host: str
    pid: int
    machine: str = ""
    started: str = ""

    def is_dead(self) -> bool:
        """Whether its process has certainly ended: only the same machine can know."""
        return is_dead(Identity(self.machine, self.pid, self.started))

    def encode(self) -> bytes:
        """The bytes of the epoch's object."""
        return json.dumps(asdict(self), sort_keys=True).encode()


def pace_of(place: Place) -> Pace:
    """The usual pace on this store."""
    return ON_S3 if place.board.uri("").startswith("s3:") else ON_DISK


def own_address(epoch: int, url: str, nonce: str) -> Address:
    """The address of this process as the master of an epoch."""
    process = this_process()
    return Address(epoch, url, nonce, socket.gethostname(), process.pid, process.machine, process.started)


def newest_epoch(place: Place, *, known: int = 0) -> int:
    """The number of the newest epoch; 0 without one. A listing, which begins at an epoch that is known to exist."""
    found = place.epochs.listed(after=known - 1 if known else 0)
    return place.epochs.number(found[-1]) if found else 0


def address_of(place: Place, epoch: int) -> Address:
    """Who created an epoch. Raises JournalDamagedError, NotFoundError."""
    content = place.board.read(place.epochs.key(epoch))
    try:
        return Address(**json.loads(content.data))
    except (ValueError, TypeError):
        raise JournalDamagedError(
            f"{place.board.uri(content.entry.key)} does not name the master of an epoch. Restore the object, or end "
            'all masters of this workflow and put {"epoch": 0, "url": "", "nonce": "", "host": "", "pid": 0} into it.'
        ) from None


def newest_address(place: Place) -> Address | None:
    """The address of the newest epoch, whose master may not serve yet; None if nobody ever reigned."""
    epoch = newest_epoch(place)
    return address_of(place, epoch) if epoch else None


def heartbeat_tag(place: Place, epoch: int) -> str:
    """Differs after each heartbeat of an epoch; "" before the first."""
    try:
        return place.board.read(place.heartbeat(epoch)).entry.tag
    except NotFoundError:
        return ""


class Heart:
    """Shows that the master of an epoch lives, and looks for a newer epoch as often. As a context: until its end."""

    def __init__(self, place: Place, epoch: int, every: float) -> None:
        self._place, self._epoch, self._every = place, epoch, every
        self._tag = ""
        self._count = 0
        self._lost: Callable[[int], None] | None = None
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="heart", daemon=True)
        self.newer = 0
        """The newer epoch that was seen; 0 if none."""

    def start(self) -> None:
        """Begin to beat, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Beat no more."""
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def tell(self, lost: Callable[[int], None]) -> None:
        """Call `lost` once, with the newer epoch, when one is seen; at once if it was seen before."""
        with self._lock:
            self._lost = lost
        self._tell()

    def look(self) -> bool:
        """Whether there is a newer epoch. A listing, until one was seen. Raises BlackboardError."""
        if not self.newer:
            newest = newest_epoch(self._place, known=self._epoch)
            if newest > self._epoch:
                self.newer = newest
                self._tell()
        return bool(self.newer)

    def beat(self) -> None:
        """Replace the heartbeat once. Raises BlackboardError."""
        self._count += 1
        board, key, data = self._place.board, self._place.heartbeat(self._epoch), str(self._count).encode()
        try:
            entry = board.replace(key, data, tag=self._tag) if self._tag else board.create(key, data)
            self._tag = entry.tag
        except (AlreadyExistsError, ConflictError):  # the answer to the last one was lost
            self._tag = board.read(key).entry.tag

    def _run(self) -> None:
        while not self._stopped.is_set() and not self.newer:
            # A store that fails now may answer the next beat.
            with suppress(BlackboardError):
                self.beat()
            with suppress(BlackboardError):
                self.look()
            self._stopped.wait(self._every)

    def _tell(self) -> None:
        with self._lock:
            lost, told = self._lost, bool(self.newer)
            if told:
                self._lost = None
        if lost and told:
            lost(self.newer)
