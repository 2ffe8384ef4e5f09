"""What a service says about flows: from what is known of slots, from storage, and from Dagster's runs.

Here: the port of `dependencies.gate` for a project. Nothing is changed. Not here: the decision (`dependencies.gate`),
and the answer for one partition (`gate_answers`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import dagster as dg

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.errors import UnknownFlowError
from feed_assets.dependencies.gate.decision import InputState, Verdict, decide
from feed_assets.dependencies.gate.flow_port import Run
from feed_assets.dependencies.http.calendar import Progress, Shown
from feed_assets.dependencies.service import Dependencies
from feed_assets.late_data.day_phases import lookback_days
from feed_assets.operations.gate_answers import explain_flow, flow_named
from feed_assets.operations.witness_files import wrong_files
from feed_assets.partitions.slots import partition_of
from feed_assets.sensors.busy import UNDER_WAY, busy_partitions
from feed_assets.sensors.flows import Begun, Flows, raw_inputs
from feed_assets.sources.spec import Source
from feed_assets.starts.graph import affected

RUNS_SHOWN: Final = 10
RUNS_LOOKED_AT: Final = 300
"""How many of the newest runs say which partitions have failed."""
LOOK_SECONDS: Final = 3.0
"""How long an answer of Dagster about all runs is used."""
LOAD_SECONDS: Final = 30.0
"""How long the partitions that there are now stay known."""
EMPTY: Final = "its raw data has no records, so there is nothing to compute"
NEVER: Final = "its inputs are there, and it was never computed"


@dataclass(slots=True)
class ProjectFlows:
    """The flows of a project, which `load` loads: partitions come and go. `instance` is Dagster's; None without one."""

    load: Callable[[], Flows]
    states: Dependencies
    board: Blackboard
    sources: Sequence[Source]
    now: Callable[[], datetime]
    instance: dg.DagsterInstance | None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _flows: Flows | None = None
    _loaded: float = 0.0
    _looked: float = 0.0
    _under_way: Mapping[tuple[str, str], Shown] = field(default_factory=dict)

    @property
    def flows(self) -> Flows:
        """The flows, and the partitions that there are now."""
        if self._flows is None or time.monotonic() > self._loaded + LOAD_SECONDS:
            self._flows, self._loaded = self.load(), time.monotonic()
        return self._flows

    def made_by(self, dataset: str) -> str | None:
        """See `FlowAnswers.made_by`."""
        return self.flows.feeds.feeds[dataset].name if self.flows.triggered(dataset) else None

    def reads(self, dataset: str) -> Sequence[str]:
        """See `FlowAnswers.reads`."""
        return self.flows.reads(dataset) if self.flows.triggered(dataset) else ()

    def dataset_of(self, flow: str) -> str:
        """See `FlowAnswers.dataset_of`."""
        return flow_named(self.flows, flow)

    def partition(self, slot: Slot) -> str | None:
        """See `FlowAnswers.partition`."""
        if not self.flows.triggered(slot.dataset) or slot.grain is not self._dataset(slot).base:
            return None
        partition = partition_of(self.flows.feeds.partitions(slot.dataset), slot)
        return partition if partition is not None and self.flows.feeds.has(slot.dataset, partition) else None

    def explain(self, flow: str, partition: str) -> Verdict:
        """See `FlowAnswers.explain`."""
        return explain_flow(self.board, self.flows, self.states, self.sources, flow, partition, now=self.now())

    def wrong_files(self, slot: Slot) -> str:
        """See `FlowAnswers.wrong_files`."""
        return wrong_files(self.board, self.flows, self.states, self.sources, slot, now=self.now())

    def progress(self, slots: Sequence[Slot]) -> Mapping[Slot, Progress]:
        """See `FlowAnswers.progress`."""
        found: dict[Slot, Progress] = {}
        if not slots or not self.flows.triggered(slots[0].dataset):
            return found
        runs, begun = self._runs_of_all(), Begun.of(self.states, self.now)
        for slot in slots:
            if (partition := self.partition(slot)) is None:
                continue
            if (shown := runs.get((slot.dataset, partition))) is not None:
                found[slot] = Progress(shown)
            elif not self.states.answer(slot).complete:
                found[slot] = self._waiting(slot, partition, begun)
        return found

    def inputs(self, slot: Slot) -> Sequence[InputState]:
        """See `FlowAnswers.inputs`."""
        partition = self.partition(slot)
        if partition is None:
            return ()
        return self.flows.case(self.states, slot.dataset, partition, in_force=None, behind="").inputs

    def consumers(self, slot: Slot) -> Sequence[Slot]:
        """See `FlowAnswers.consumers`."""
        return sorted(set(self._consumers(slot)))

    def runs(self, slot: Slot) -> Sequence[Run] | None:
        """See `FlowAnswers.runs`."""
        partition = self.partition(slot)
        if self.instance is None:
            return None
        if partition is None:
            return ()
        key = self.flows.feeds.keys[slot.dataset]
        filters = dg.RunsFilter(tags={"dagster/partition": partition})
        records = self.instance.get_run_records(filters, limit=5 * RUNS_SHOWN)
        return [_run(each) for each in records if _computes(each.dagster_run, key)][:RUNS_SHOWN]

    def _consumers(self, slot: Slot) -> Iterator[Slot]:
        flows, dataset = self.flows, self._dataset(slot)
        if slot.dataset in flows.feeds.feeds:
            if slot.grain is dataset.base:
                node = flows.feeds.feeds[slot.dataset]
                partition = partition_of(flows.feeds.partitions(slot.dataset), slot)
                for feed, name in affected(flows.feeds, node, partition):
                    if feed in flows.datasets:
                        yield flows.slot(feed, name)
            return
        begin = slot.start if slot.grain.seconds else dataset.window(slot)[0]
        for feed in flows.triggers:
            if slot.dataset in raw_inputs(flows.feeds.feeds[feed]):
                reader = flows.datasets[feed].dataset
                if slot.grain.divides(reader.base):
                    try:
                        yield reader.slot_at(begin, reader.base, NO_MEMBER)
                    except DatasetError:
                        continue  # before the first day of the flow

    def _waiting(self, slot: Slot, partition: str, begun: Begun) -> Progress:
        """Whether a slot that was never made may start, by what is in memory."""
        node = self.flows.feeds.feeds[slot.dataset]
        read = [slot._replace(dataset=name) for name in raw_inputs(node)] if not node.upstream else []
        if read and all("empty" in self.states.answer(each).flags for each in read):
            return Progress(Shown.INCOMPLETE, EMPTY)
        case = self.flows.case(self.states, slot.dataset, partition, in_force=None, behind=NEVER, begun=begun)
        lookback = timedelta(days=lookback_days(self.sources))
        verdict = decide(case, self.flows.triggers[slot.dataset], now=self.now(), lookback=lookback)
        return Progress(Shown.WAITING if verdict.held else Shown.DUE, verdict.sentence)

    def _runs_of_all(self) -> Mapping[tuple[str, str], Shown]:
        """The partitions that runs compute now, and those whose newest run failed."""
        if self.instance is None:
            return {}
        with self._lock:
            if time.monotonic() > self._looked + LOOK_SECONDS:
                self._under_way = self._look(self.instance)
                self._looked = time.monotonic()
            return self._under_way

    def _look(self, instance: dg.DagsterInstance) -> Mapping[tuple[str, str], Shown]:
        feeds, found = self.flows.feeds, dict[tuple[str, str], Shown | None]()
        for partition, keys in busy_partitions(instance, feeds).items():
            found.update({(feeds.locations[key], partition): Shown.RUNNING for key in keys if key in feeds.locations})
        for run in instance.get_runs(limit=RUNS_LOOKED_AT):
            partition = run.tags.get("dagster/partition", "")
            if not partition or run.status in UNDER_WAY:
                continue
            failed = Shown.FAILED if run.status is dg.DagsterRunStatus.FAILURE else None
            for key in run.asset_selection or feeds.locations:
                if (location := feeds.locations.get(key)) is not None:
                    found.setdefault((location, partition), failed)
        return {place: shown for place, shown in found.items() if shown is not None}

    def _dataset(self, slot: Slot) -> Dataset:
        if (found := self.flows.datasets.get(slot.dataset)) is None:
            raise UnknownFlowError(f"{slot.dataset} is no dataset of this project.")
        return found.dataset


def _computes(run: dg.DagsterRun, key: dg.AssetKey) -> bool:
    return run.asset_selection is None or key in run.asset_selection


def _run(record: dg.RunRecord) -> Run:
    run = record.dagster_run
    begun, ended = (
        None if each is None else datetime.fromtimestamp(each, UTC) for each in (record.start_time, record.end_time)
    )
    assets = tuple(sorted(key.to_user_string() for key in run.asset_selection or ()))
    return Run(run.run_id, run.status.value.lower(), begun, ended, assets)
