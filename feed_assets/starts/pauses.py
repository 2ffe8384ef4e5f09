"""Paused flows: they start nothing, by nobody but a person. What is due is computed from facts, so nothing is lost.

Here: pausing, resuming, and the last pause of each flow. Not here: which slots of a pause are caught up (the gate).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from feed_assets.starts.attempts import LOG
from feed_assets.starts.tables import read_pauses, save_pause
from feed_assets.state.store import Store


@dataclass(frozen=True, slots=True)
class Pause:
    """The last pause of a flow: since when, by whom and why; `until` is None while it lasts."""

    flow: str
    since: datetime
    by: str
    reason: str
    until: datetime | None = None

    @property
    def lasts(self) -> bool:
        """Whether the flow is paused now."""
        return self.until is None

    @property
    def sentence(self) -> str:
        """The pause, for messages."""
        return f"paused since {self.since:%Y-%m-%d %H:%M} by {self.by}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Pauses:
    """The pauses of the flows below a base. All methods raise StoreError. `now` is the installation's clock."""

    store: Store
    base: str
    now: Callable[[], datetime]

    def all(self) -> dict[str, Pause]:
        """The last pause of each flow that ever was paused."""
        if not self.store.exists():
            return {}
        with self.store.reading() as connection:
            return _pauses(connection, self.base)

    def pause(self, flow: str, *, by: str, reason: str) -> Pause:
        """Pause a flow; if it is paused, that pause goes on as it is, and is returned."""
        with self.store.writing(LOG) as transaction:
            found = _pauses(transaction.connection, self.base).get(flow)
            if found is not None and found.lasts:
                return found
            made = Pause(flow, self.now(), by, reason)
            save_pause(transaction.connection, self.base, asdict(made))
            transaction.append("paused", made.since, {"base": self.base, "flow": flow, "by": by, "reason": reason})
        return made

    def resume(self, flow: str, *, by: str) -> Pause | None:
        """End the pause of a flow, and return it; None if it is not paused."""
        with self.store.writing(LOG) as transaction:
            found = _pauses(transaction.connection, self.base).get(flow)
            if found is None or not found.lasts:
                return None
            ended = replace(found, until=self.now())
            save_pause(transaction.connection, self.base, asdict(ended))
            transaction.append("resumed", self.now(), {"base": self.base, "flow": flow, "by": by})
        return ended


def _pauses(connection: Any, base: str) -> dict[str, Pause]:
    return {row["flow"]: Pause(**row) for row in read_pauses(connection, base)}
