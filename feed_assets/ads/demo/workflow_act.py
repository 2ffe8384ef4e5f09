"""An act of the demo: workers compute hours and days as they land, while processes are killed and stopped.

Here: the order of events, what is measured, and the lines about it. Not here: what every act does (`story`), the
deliveries (`logs`), and the processes that are killed (`workflow_processes`).
"""

from __future__ import annotations

import importlib
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import dagster as dg
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

import feed_assets as fa
from feed_assets.ads.definitions import build_definitions
from feed_assets.ads.demo import logs
from feed_assets.ads.demo.daemon import IN_THIS_PROCESS, MODULE
from feed_assets.ads.demo.story import Demo
from feed_assets.ads.demo.workflow_processes import SHORT_LEASE, Master, Processes, client_of
from feed_assets.ads.demo.workflow_worker import WorkerThread
from feed_assets.ads.schemas import (
    AD_EFFECTIVENESS,
    ADS,
    CATALOG_FEED,
    CLEAN_ADS,
    CLEAN_ADS_FEED,
    CLEAN_CLICKS,
    CLEAN_CLICKS_FEED,
    EFFECTIVENESS_FEED,
)
from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.days import hour_name
from feed_assets.engine.jvm import make_default
from feed_assets.engine.update_files import read_updates
from feed_assets.file_feed.control import records
from feed_assets.file_feed.reading import require_latest
from feed_assets.file_feed.wording import counted
from feed_assets.operations.day_runs import backfill, instance_at
from feed_assets.resources.settings import AS_OF_FILE, STATE_FILE
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.state.address import sqlite_url
from feed_assets.workers.assembly import WORKFLOWS, ProjectWorkflows
from feed_assets.workflow.applying import apply, differences
from feed_assets.workflow.calls import Refused
from feed_assets.workflow.client import Client
from feed_assets.workflow.flow import COMPUTE, Workflow
from feed_assets.workflow.places import Place, create_workflow, open_board, open_workflow
from feed_assets.workflow.stories import check_journal, story_of
from feed_assets.workflow.worker import AGAIN

NAME: Final = "ads"
HOURS_OVER: Final = datetime.fromisoformat("2019-11-28T00:10:00+00:00")
"""All hours of the day are over, and the day is not due yet."""
DAY_DUE: Final = datetime.fromisoformat("2019-11-28T03:10:00+00:00")
LATER: Final = DAY_DUE + timedelta(hours=2)
COMPARED: Final = {
    CLEAN_ADS_FEED: CLEAN_ADS,
    CLEAN_CLICKS_FEED: CLEAN_CLICKS,
    EFFECTIVENESS_FEED: AD_EFFECTIVENESS,
}
CHANGE_AFTER: Final = 3
"""Tasks that are done before the configuration changes."""
STOP_AFTER: Final = 10
"""Tasks that are done before the master is stopped."""


@dataclass(frozen=True, slots=True)
class Masters:
    """The one that reigns first, and the one that waits."""

    first: Master
    second: Master


@dataclass(slots=True)
class WorkflowAct(Demo):
    """The act on a prepared base, with FEED_ASSETS_CONTINUOUS=1 and FEED_ASSETS_HOURLY=1."""

    _known: set[int] = field(default_factory=set)
    """The units that a master has acknowledged."""
    _outcomes: Counter[str] = field(default_factory=Counter)
    _turned: float = 0.0
    """When the last turn of the sensors ended."""

    def run(self) -> None:
        """Tell the act. Raises RuntimeError if a step ends in another way than the story expects."""
        started = time.monotonic()
        with (
            instance_at(self.home, IN_THIS_PROCESS) as instance,
            TemporaryDirectory() as folder,
            ThreadPoolExecutor(1, "start-spark") as thread,
            ExitStack() as closing,
        ):
            self.wipe_earlier_demo(instance)
            create_workflow(open_board(self.settings.base), NAME)
            processes = Processes(self.settings.base, NAME, self.settings.state, closing)
            master = processes.master()
            spark = thread.submit(lambda: self.settings.spark.spark_session)  # which takes seconds
            deliveries = logs.cut_hours(Path(folder))
            self.publish_catalog(instance)
            make_default(spark.result())
            self._hours_land(deliveries.shuffled)
            client = self._serve(master)
            self._hours(instance, client, processes, Masters(master, processes.master()))
            self._day(instance, client)
            self._late_file(instance, client, deliveries.late)
            self._compare(deliveries.whole, Path(folder) / "other")
            self._nothing_is_lost()
        self._what_next(time.monotonic() - started)

    def _hours_land(self, files: Sequence[Path]) -> None:
        self.tell.step(
            f"{logs.LATE_DAY} lands from {logs.HOURS[0]}:00 on, its hours shuffled, without {logs.LATE_RECORDS} "
            f"records of {logs.LATE_HOUR}:00. It is {self._time}, and the day is due at 03:00"
        )
        self._land(self.board, self.sources, files)

    def _serve(self, master: Master) -> Client:
        epoch = master.epoch()
        client = client_of(self.settings.base, NAME, "the demo")
        apply(client, differences(client, self._flow)[0])
        self.tell.step("A worker checks each hour that is over. There are two task masters, and no run of Dagster")
        self.tell.say(f"The master reigns in epoch {epoch}. A second process waits to take over.")
        return client

    def _hours(self, instance: dg.DagsterInstance, client: Client, processes: Processes, masters: Masters) -> None:
        units = self._turn(instance, client)
        compute = self._flow.stages[COMPUTE]
        killed = processes.killed_worker(COMPUTE, compute.digest)
        self.tell.say(f"A worker leased unit {killed} for {SHORT_LEASE:g} s, and was killed: SIGKILL.")
        with self._working(client) as worker, self.tell.progress("hours", len(units)) as bar:
            reigning, changes, done = True, [4, 3, 2], 0
            while done < len(units):
                done += self._step(worker, bar)
                if done >= CHANGE_AFTER and changes and not self._outcomes[AGAIN]:
                    self._change_in_flight(client, changes.pop(0), bar)
                if reigning and done >= STOP_AFTER and is_back(client, killed):
                    self._fail_over(masters, bar)
                    reigning = False
        self.expect_that(not reigning, "The killed worker's task did not come back.")
        again = self._outcomes[AGAIN]
        self.expect_that(again > 0, "No commit was refused.")
        self.tell.say(f"{counted(again, 'commit')} refused, as the configuration had changed, and the work done again.")
        self._tell_of_killed(killed)
        self.tell.say(f"{self._updates_by_hour()}.")

    def _step(self, worker: WorkerThread, bar: Any) -> int:
        """Wait for an outcome; returns how many tasks are done by it."""
        unit, outcome = worker.outcome()
        self._outcomes[outcome] += 1
        self.expect_that(outcome in ("done", AGAIN), f"Unit {unit} was {outcome}.")
        if outcome == AGAIN:
            bar(f"  Unit {unit}: its commit is refused, it is done again.", steps=0)
            return 0
        bar()
        return 1

    def _change_in_flight(self, client: Client, attempts: int, bar: Any) -> None:
        """Bring another number of attempts into force while the worker does a task."""
        while not client.read("tasks", status="leased")["tasks"]:
            time.sleep(0.01)
        changed = Workflow(NAME)
        changed.computes(*self._flow.computed, attempts=attempts)
        apply(client, differences(client, changed)[0])
        bar(f"  While a task is under way, `compute` gets attempts={attempts}.", steps=0)

    def _fail_over(self, masters: Masters, bar: Any) -> None:
        """Stop the master until the other one reigns, and let it go on."""
        bar("  The master is stopped: SIGSTOP.", steps=0)
        masters.first.stand_still()
        stopped = time.monotonic()
        epoch = masters.second.epoch()
        bar(f"  The other one reigns in epoch {epoch}, {time.monotonic() - stopped:.1f} s later.", steps=0)
        bar(f"  The first one goes on, and ends: {masters.first.go_on()}", steps=0)

    def _tell_of_killed(self, unit: int) -> None:
        """What the journal says of a task whose worker was killed: made, leased, given back, leased, committed."""
        events = story_of(self._place, unit)
        what = [each.what.split()[0].rstrip(",") for each in events]
        self.expect_that(what == ["made", "leased", "failed", "leased", "committed"], f"Unit {unit}: {what}")
        _, leased, back, _, done = events
        self.tell.say(
            f"Unit {unit}, whose worker was killed, was back {back.at - leased.at:.1f} s later: {back.what}. "
            f"Attempt 2 was committed {done.at - back.at:.1f} s later."
        )

    def _day(self, instance: dg.DagsterInstance, client: Client) -> None:
        self._at(DAY_DUE)
        self.tell.step(f"It is {self._time}: the day is due. A worker assembles it from its hours")
        self._work_off(instance, client, "day")
        self._tell_updates()

    def _late_file(self, instance: dg.DagsterInstance, client: Client, late: Path) -> None:
        self._at(LATER)
        self.tell.step(f"It is {self._time}: a late file comes for {logs.LATE_HOUR}:00")
        self._land(self.board, [each for each in self.sources if each.kind == ADS.name], [late])
        self._work_off(instance, client, "late file")
        left = self._turn(instance, client)
        self.expect_that(not left, f"The turn handed over {left}.")
        self.tell.say(f"{self._updates_by_hour()}.")
        self._tell_updates()

    def _compare(self, whole: Path, other: Path) -> None:
        self.tell.step("The same day elsewhere: in one file, by runs of Dagster, without hours and workflow")
        settings = replace(
            self.settings, base=str(other), state=sqlite_url(other / STATE_FILE), continuous=False, hourly=False
        )
        board = settings.blackboard.blackboard
        fa.publish_files(fa.Feed(board, CATALOG_FEED), None, [logs.CATALOG], now=settings.clock.now(), owner="others")
        self._land(board, self.sources, [whole])
        with dg.DagsterInstance.ephemeral() as instance:
            results = list(
                backfill(build_definitions(settings), instance, [logs.LATE_DAY], run_config=settings.run_config)
            )
        self.expect_that(all(each.success for each in results), f"A run failed: {results}")
        for location, schema in COMPARED.items():
            mine, theirs = (self._rows(each, location, schema) for each in (self.board, board))
            differ = mine.exceptAll(theirs).count() + theirs.exceptAll(mine).count()
            self.tell.say(f"{location}: {differ} of {mine.count():,} rows differ.")
            self.expect_that(not differ, f"{differ} rows of {location} differ.")

    def _nothing_is_lost(self) -> None:
        self.tell.step("What the journal says")
        checked = check_journal(self._place)
        self.tell.say(checked.sentence)
        commits = {
            unit: sum(each.what.startswith("committed") for each in story_of(self._place, unit)) for unit in self._known
        }
        lost = sum(not each for each in commits.values())
        twice = sum(each > 1 for each in commits.values())
        self.tell.say(
            f"{counted(len(commits), 'task')} acknowledged by two masters; acknowledged and lost: {lost}, "
            f"committed twice: {twice}. The worker's commits: {self._outcomes['done']}."
        )
        self.expect_that(not lost and not twice, "The journal lacks tasks.")

    def _what_next(self, seconds: float) -> None:
        self.tell.say(f"{seconds:.0f} s from the first delivery to here.")
        self.tell.step("What to type next")
        program = f"FEED_ASSETS_CONTINUOUS=1 FEED_ASSETS_HOURLY=1 {self.next_steps.program}"
        for command, what in (
            (f"{program} workflow check", "the journal and its snapshots"),
            (f"{program} workflow serve", "a task master, which goes on where the last one ended"),
            (f"{program} explain {logs.LATE_DAY}", "why the day is as it is"),
        ):
            self.tell.say(f"# {what}")
            self.tell.say(command)

    # --- what is measured ----------------------------------------------------------------------------------------

    def _updates_by_hour(self) -> str:
        """How many hours have how many updates."""
        feeds = AssetFeedGraph.of(self.definitions.get_repository_def())
        found = Counter[int]()
        for asset in self._flow.computed:
            location = feeds.locations[asset.key]
            if location not in COMPARED:
                feed = feeds.feeds[location].declaration.on(self.board)
                names = (hour_name(logs.LATE_DAY, f"{hour:02}") for hour in range(24))
                found.update(number for name in names if (number := len(records(feed, name))))
        return ", ".join(
            f"{counted(hours, 'checked hour')} with {counted(number, 'update')}"
            for number, hours in sorted(found.items())
        )

    def _tell_updates(self) -> None:
        for location, schema in COMPARED.items():
            feed = fa.Feed(self.board, location)
            update = require_latest(feed, logs.LATE_DAY, now=self.settings.clock.now())
            rows = self._rows(self.board, location, schema).count()
            made = len(records(feed, logs.LATE_DAY))
            self.tell.say(f"{location} {logs.LATE_DAY}: {update.name}, {rows:,} rows; updates so far: {made}.")

    def _rows(self, board: Blackboard, location: str, schema: StructType) -> DataFrame:
        update = require_latest(fa.Feed(board, location), logs.LATE_DAY, now=self.settings.clock.now())
        return read_updates(self.settings.spark.spark_session, [update], schema)

    def expect_that(self, holds: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as a sentence
        """Raise RuntimeError with this message, unless it holds what the story expects."""
        if not holds:
            raise RuntimeError(f"The story expects something else: {otherwise}")

    # --- what is done --------------------------------------------------------------------------------------------

    def _at(self, moment: datetime) -> None:
        """Let the base, the sensors and the workers be at another time."""
        entry = self.board.read(AS_OF_FILE).entry
        self.board.replace(AS_OF_FILE, f"{moment.isoformat()}\n".encode(), tag=entry.tag)
        sys.modules.pop(MODULE, None)
        self.settings = replace(self.settings, as_of=moment)
        self.definitions = importlib.import_module(MODULE).defs

    @property
    def _time(self) -> str:
        return f"{self.settings.clock.now():%Y-%m-%d %H:%M}"

    @property
    def _place(self) -> Place:
        return open_workflow(open_board(self.settings.base), NAME)

    @property
    def _workflows(self) -> ProjectWorkflows:
        found: ProjectWorkflows = (self.definitions.resources or {})[WORKFLOWS]
        return found

    @property
    def _flow(self) -> Workflow:
        return self._workflows.flows[0]

    def _land(self, board: Blackboard, sources: Sequence[fa.Source], files: Sequence[Path]) -> None:
        from feed_assets.sources.landing import land_files  # noqa: PLC0415 - loads Spark

        spark, now = self.settings.spark.spark_session, self.settings.clock.now()
        for source in sources:
            for landing in land_files(spark, board, source, files, now=now):
                if isinstance(landing, Exception):
                    raise landing
                self.say_landed(landing)

    def _turn(self, instance: dg.DagsterInstance, client: Client) -> set[int]:
        """A turn of the sensors; returns the units of the tasks that it handed over."""
        # A sensor runs only when its interval is over.
        time.sleep(max(0.0, self._turned + self.settings.sensor_seconds - time.monotonic()))
        runs = self.tick(instance)
        self._turned = time.monotonic()
        self.expect(not runs, runs)
        new = {int(each["unit"]) for each in client.read("tasks")["tasks"]} - self._known
        self._known |= new
        what = counted(len(new), "task") if new else "nothing"
        self.tell.say(f"A turn of the sensors handed over {what}, and requested no run.")
        return new

    def _work_off(self, instance: dg.DagsterInstance, client: Client, what: str) -> None:
        """A turn of the sensors, and the work that it hands over."""
        units = self._turn(instance, client)
        with self._working(client) as worker, self.tell.progress(what, len(units)) as bar:
            done = 0
            while done < len(units):
                done += self._step(worker, bar)

    def _working(self, client: Client) -> WorkerThread:
        flow = self._flow
        return WorkerThread(
            lambda done: self._workflows.worker(
                self.settings, self.definitions, flow, list(flow.stages.values()), client, done
            )
        )


def is_back(client: Client, unit: int) -> bool:
    """Whether nobody does this task any more who has leased it first."""
    try:
        return bool(client.read("unit", unit=unit)["task"].get("attempt"))
    except Refused:
        return True  # it is done
