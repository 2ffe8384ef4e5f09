"""Renewing leases while work goes on: short leases for long work, so that a killed process is soon missed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Final, Self

from feed_assets.leases.port import Lease, Leases

RENEWALS: Final = 4
"""How often a lease is renewed in its length."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Holding:
    """Leases of one length that are renewed until they are released, or the block ends. For one thread.

    A lease is renewed `renewals` times in its length.
    """

    leases: Leases
    length: timedelta
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    renewals: int = RENEWALS
    _held: dict[str, Lease] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._renew_until_over, name="leases", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        for name in list(self._held):
            self.release(name)

    def take(self, name: str) -> bool:
        """Take a lease and hold it; False if somebody else does."""
        lease = self.leases.take(name, self.length, now=self.clock())
        if lease is not None:
            self.hold(lease)
        return lease is not None

    def hold(self, lease: Lease) -> None:
        """Renew a lease that was taken before, perhaps in a transaction."""
        with self._lock:
            self._held[lease.name] = lease

    def let_go(self, name: str) -> None:
        """Renew a lease no longer, and leave it as it is."""
        with self._lock:
            self._held.pop(name, None)

    def release(self, name: str) -> None:
        """Give a lease back that is held, and may have been lost."""
        with self._lock:
            lease = self._held.pop(name, None)
        if lease is not None:
            self.leases.release(lease)

    def _renew_until_over(self) -> None:
        while not self._over.wait(self.length.total_seconds() / self.renewals):
            for name, lease in list(self._held.items()):
                try:
                    renewed = self.leases.renew(lease, self.length, now=self.clock())
                except Exception as error:  # noqa: BLE001 - the next renewal may succeed, and the work goes on
                    _log.warning("The lease of %s was not renewed: %s", name, error)
                    continue
                with self._lock:
                    if name in self._held and renewed is not None:
                        self._held[name] = renewed
