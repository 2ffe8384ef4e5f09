"""An act of the demo: a day that starts when its partner's counts say that it is complete, and not before.

Here: the sources with counts, the order of events, and the lines about them. Not here: what every act does (`story`),
and the deliveries (`logs`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import dagster as dg

from feed_assets.ads.demo import logs
from feed_assets.ads.demo.daemon import IN_THIS_PROCESS
from feed_assets.ads.demo.story import Demo
from feed_assets.ads.partners import partners_directory
from feed_assets.ads.schemas import ADS, CLEAN_ADS_FEED, EFFECTIVENESS_FEED
from feed_assets.blackboard.port import AlreadyExistsError
from feed_assets.dependencies.declared.loading import load_datasets
from feed_assets.dependencies.quality.marks import Author
from feed_assets.dependencies.service import Dependencies
from feed_assets.operations.day_runs import instance_at
from feed_assets.operations.gate_answers import explain_flow
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.flows import Flows
from feed_assets.sensors.raw_facts import raw_name
from feed_assets.state.store import Store

BAD_HOUR: Final = f"{logs.LATE_DAY}T{logs.BAD_HOUR}"
COUNTS: Final = "counts/{kind}/{{yyyy}}-{{mm}}-{{dd}}.csv"
"""Where the partner puts the control files of a kind, below the base."""


def write_counted_sources(directory: Path) -> None:
    """Write the partners' descriptions, each with the control files that count its records."""
    directory.mkdir(parents=True, exist_ok=True)
    for source in partners_directory().glob("*.yaml"):
        witness = COUNTS.format(kind=source.stem)
        text = source.read_text(encoding="utf-8")
        (directory / source.name).write_text(f"{text}complete: {{witness: '{witness}'}}\n", encoding="utf-8")


@dataclass(slots=True)
class GateAct(Demo):
    """The act on a prepared base, with the sources of `write_counted_sources` and FEED_ASSETS_GATE=1."""

    def run(self) -> None:
        """Tell the act. Raises RuntimeError if a step ends in another way than the story expects."""
        started = time.monotonic()
        with instance_at(self.home, IN_THIS_PROCESS) as instance, TemporaryDirectory() as folder:
            self.wipe_earlier_demo(instance)
            deliveries = logs.cut_counted(Path(folder))
            self.publish_catalog(instance)
            self._waits(instance, deliveries)
            self._starts(instance, deliveries)
            self._turns_bad()
            self._is_corrected(instance, deliveries)
        self._what_next(time.monotonic() - started)

    def _waits(self, instance: dg.DagsterInstance, deliveries: logs.CountedDeliveries) -> None:
        self.tell.step(f"{logs.LATE_DAY} lands without a tenth of its records. The partner has counted them by hour")
        self.land(deliveries.on_time)
        self.poll(deliveries.hour)
        for name, hours in deliveries.counts.items():
            self._put_counts(name, hours)
        self.expect(not (runs := self.tick(instance)), runs)
        self.tell.say("No sensor requested a run. `feed-assets deps explain clean_ads` says why:")
        self.tell.say(self._why("clean_ads"))

    def _starts(self, instance: dg.DagsterInstance, deliveries: logs.CountedDeliveries) -> None:
        self.tell.step("The missing tenth lands. The gate starts the day once, with all that is made from it")
        self.land(deliveries.late)
        runs = self.tick(instance)
        self.expect([(run.tags["dagster/partition"], run.is_success) for run in runs] == [(logs.LATE_DAY, True)], runs)
        self.show_days([logs.LATE_DAY])
        self.expect(not (runs := self.tick(instance)), runs)
        self.tell.say(f"The next tick requested no run. {self._why('ad_effectiveness')}.")

    def _turns_bad(self) -> None:
        self.tell.step(f"Ann finds bots among the ads of {BAD_HOUR} and marks that hour: `feed-assets deps mark`")
        flows, states = self._known()
        raw = states.dataset(raw_name(ADS.name))
        states.quality.mark(
            raw.slot(BAD_HOUR), reason="bots", author=Author.person("ann"), now=self.settings.clock.now()
        )
        for location in (CLEAN_ADS_FEED, EFFECTIVENESS_FEED):
            slot = flows.slot(location, logs.LATE_DAY)
            (path,) = states.quality.why_bad(slot)
            self.tell.say(f"{slot} is {states.quality.state(slot)}: {path.sentence}")

    def _is_corrected(self, instance: dg.DagsterInstance, deliveries: logs.CountedDeliveries) -> None:
        self.tell.step(f"The partner sends {BAD_HOUR} again without the bots, and counts it again")
        self.poll(deliveries.corrected, deliveries.hour.name)
        for name, hours in deliveries.corrected_counts.items():
            self._put_counts(name, hours)
        runs = self.tick(instance)
        self.expect([(run.tags["dagster/partition"], run.is_success) for run in runs] == [(logs.LATE_DAY, True)], runs)
        self.show_days([logs.LATE_DAY])
        self.expect(not (runs := self.tick(instance)), runs)
        flows, states = self._known()
        raw = states.dataset(raw_name(ADS.name)).slot(BAD_HOUR)
        self.tell.say(f"{raw} has revision {states.answer(raw).revision}. Ann's mark stays on revision 1.")
        for location in (CLEAN_ADS_FEED, EFFECTIVENESS_FEED):
            slot = flows.slot(location, logs.LATE_DAY)
            self.tell.say(f"{slot} is {states.quality.state(slot)}, with revision {states.answer(slot).revision}.")

    def _what_next(self, seconds: float) -> None:
        self.tell.say(f"{seconds:.0f} s from the first delivery to here.")
        self.tell.step("What to type next")
        program = f"FEED_ASSETS_GATE=1 FEED_ASSETS_SOURCES={self.settings.sources_directory} {self.next_steps.program}"
        for command, what in (
            (f"{program} deps explain clean_ads {logs.LATE_DAY}", "each condition of the day, and each input"),
            (f"{program} deps explain clean_ads 2019-11-28", "a day that still waits, and for what"),
            (f"{program} deps marks", "what was marked as bad, by whom and why"),
            (f"{program} serve", "the page with all of it: http://127.0.0.1:8090"),
        ):
            self.tell.say(f"# {what}")
            self.tell.say(command)

    def _put_counts(self, source: str, hours: Mapping[int, int]) -> None:
        lines = "".join(f"{hour},{hours.get(hour, 0)}\n" for hour in range(24))
        key = COUNTS.format(kind=source).format(yyyy=logs.LATE_DAY[:4], mm=logs.LATE_DAY[5:7], dd=logs.LATE_DAY[8:])
        content = f"hour,records\n{lines}".encode()
        try:
            self.board.create(key, content)
        except AlreadyExistsError:
            self.board.replace(key, content, tag=self.board.read(key).entry.tag)
        self.tell.say(f"{key}: {sum(hours.values()):,} records")

    def _known(self) -> tuple[Flows, Dependencies]:
        """The flows, and what is known of their slots."""
        feeds = AssetFeedGraph.of(self.definitions.get_repository_def())
        first_day = self.settings.first_day
        datasets = load_datasets(self.settings.datasets_directory, first_day=first_day)
        flows = Flows.of(feeds, self.sources, first_day, datasets)
        states = flows.states(Store(self.settings.state), self.board)
        states.refresh()
        return flows, states

    def _why(self, flow: str) -> str:
        """The gate's answer on the day of a flow."""
        flows, states = self._known()
        now = self.settings.clock.now()
        verdict = explain_flow(self.board, flows, states, self.sources, flow, logs.LATE_DAY, now=now)
        return f"{flow} {logs.LATE_DAY} {verdict.sentence}"
