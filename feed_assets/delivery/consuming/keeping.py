"""What a consumer does beside its shards: it closes the accounts of deliveries, and lets a store forget.

Here: how often, and what the figures show of it. Not here: the accounts (`audit`), and the stores.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from feed_assets.delivery.audit import summarize, unsettled
from feed_assets.delivery.consuming.figures import Figures
from feed_assets.delivery.destination import Destination
from feed_assets.delivery.ledger import Clock, Ledger
from feed_assets.delivery.stores.port import Store

SWEEP_SECONDS: Final = 3600.0
LATE_RECORDS: Final = timedelta(days=1)
"""How much longer than the stream keeps its records the store keeps tombstones."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Keeping:
    """Keeps the ledger and the store of a destination small. Call it about once a minute, in one process."""

    ledger: Ledger
    to: Destination
    store: Store | None
    figures: Figures
    now: Clock
    retention: timedelta
    _swept: float = float("-inf")
    _overdue: set[int] = field(default_factory=set)

    def __call__(self) -> None:
        """Summarize what has settled, tell what is overdue, and sweep.

        Raises LedgerError, BlackboardError, StoreUnusableError.
        """
        oldest = None
        for edition, found in unsettled(self.ledger, self.to, now=self.now()):
            summarize(self.ledger, edition, found)
            if found.state in {"delivered", "overdue"}:
                ended = self.ledger.ended(edition).at
                oldest = min(oldest or ended, ended)
            if found.state == "overdue" and edition.number not in self._overdue:
                self._overdue.add(edition.number)
                _log.error(
                    "%s: edition %s %s was delivered, and is not settled: `feed-assets deliver audit %s` says what is "
                    "missing.",
                    self.to.name, edition.number, edition.partition or "", self.to.name,
                )  # fmt: skip
        self.figures.oldest = oldest
        if self.store is not None and time.monotonic() - self._swept > SWEEP_SECONDS:
            self._swept = time.monotonic()
            self.store.sweep(before=(self.now() - self.retention - LATE_RECORDS).timestamp())
