"""What the operations of the HTTP API share: the service, the flows, who asks, and the newest events.

Not here: the operations (`http`, `reports`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from starlette.requests import Request

from feed_assets.datasets.slots import Slot
from feed_assets.dependencies import rows, tables
from feed_assets.dependencies.errors import UnknownDatasetError
from feed_assets.dependencies.gate.flow_port import FlowAnswers
from feed_assets.dependencies.http.answers import SlotSays
from feed_assets.dependencies.http.listing import said
from feed_assets.dependencies.http.recent_events import RecentEvents
from feed_assets.dependencies.http.verbs import Verb
from feed_assets.dependencies.parts import StoredPart
from feed_assets.dependencies.quality.marks import QualityState
from feed_assets.dependencies.rules import Basis, Declared
from feed_assets.dependencies.service import Dependencies
from feed_assets.dependencies.slot_states import SlotStates
from feed_assets.dependencies.windows import Windows
from feed_assets.serving.access import Access, Caller
from feed_assets.state.store import Store

ROOT: Final = "/v1/dependencies"
AT_ONCE: Final = 4
"""How many requests may ask the database, storage or Dagster at a time; others wait."""


@dataclass(slots=True)
class DependencyApi:
    """What the operations need. `base` is the URI of the feeds' base; `now` is the time of the installation."""

    store: Store
    base: str
    states: Dependencies
    flows: FlowAnswers
    access: Access
    recent: RecentEvents
    now: Callable[[], datetime]
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    def view(self, dataset: str) -> SlotStates:
        """The states of a dataset's slots. Raises UnknownDatasetError."""
        return self.states.kept.view(dataset)  # a calendar needs no whole answers

    def windows(self, dataset: str) -> Windows:
        """The windows of a dataset's slots. Raises UnknownDatasetError."""
        return self.view(dataset).windows

    def declared(self, name: str) -> Declared:
        """The declared dataset of this name. Raises UnknownDatasetError."""
        if (found := self.states.datasets.get(name)) is None:
            raise UnknownDatasetError(f"There is no dataset {name!r}: {ROOT}/datasets lists those that there are.")
        return found

    def allowed(self, request: Request, verb: Verb, dataset: str) -> tuple[Caller, Declared]:
        """The caller and the dataset. Raises HTTPException if the caller may not do this; UnknownDatasetError."""
        caller = self.access.caller(request)
        caller.require(verb, dataset)
        return caller, self.declared(dataset)

    def quality(self, slot: Slot, revision: int) -> QualityState:
        """The quality of a slot whose present revision is known."""
        return self.states.quality.state(slot, revision)

    async def asked(self, work: Callable[[], Any]) -> Any:
        """Do `work` in a thread: it asks the database, storage or Dagster."""
        async with self._places:
            return await asyncio.to_thread(work)

    def says(self, slot: Slot) -> SlotSays:
        """All about a slot."""
        return said(self.states, self.windows(slot.dataset), slot)

    def parts(self, slot: Slot) -> list[StoredPart] | None:
        """The parts with records in a base slot; None if the slot takes no parts. Asks the database."""
        windows = self.windows(slot.dataset)
        if not windows.is_base(slot) or windows.rule_of(slot).basis not in {Basis.COUNTED, Basis.COVERED}:
            return None
        if not self.store.exists():
            return []
        with self.store.reading() as connection:
            stored = tables.read_parts_of(connection, (self.base, slot.dataset), slot.member)
        parts = [rows.part_of(each) for each in stored]
        return [each for each in parts if not each.retracted and dict(each.records).get(slot.start) is not None]
