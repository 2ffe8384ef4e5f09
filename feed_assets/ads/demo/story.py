"""The story of the demo: a week of logs lands and is processed; then late and broken data arrive.

Here: the order of events and the lines about them. Not here: the deliveries (`logs`), the tick (`daemon`), the receiver
(`pushing`).
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dagster as dg

import feed_assets as fa
from feed_assets.ads.demo import logs
from feed_assets.ads.demo.daemon import IN_THIS_PROCESS, tick_sensors
from feed_assets.ads.demo.pushing import RunningReceiver, receiver
from feed_assets.ads.partners import partners_directory
from feed_assets.ads.report import effectiveness_report as report
from feed_assets.ads.schemas import (
    ADS,
    CATALOG_FEED,
    CLEAN_ADS_FEED,
    CLEAN_CLICKS_FEED,
    CLICKS,
    EFFECTIVENESS_FEED,
    KINDS,
)
from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.location import local_directory
from feed_assets.blackboard.port import AlreadyExistsError, Blackboard
from feed_assets.cli.installation import OWN_HOME
from feed_assets.datasets.days import days_between
from feed_assets.engine.jvm import make_default
from feed_assets.environment import SettingsError
from feed_assets.file_feed.wording import counted
from feed_assets.late_data.raw_growth import growth_decisions
from feed_assets.notices.keeping import kept_reports
from feed_assets.notices.messages import ENDED, Table, notice_of
from feed_assets.notices.pictures import before_and_after
from feed_assets.operations import explanation
from feed_assets.operations.day_runs import Execute, PartitionResult, backfill, instance_at
from feed_assets.operations.side_by_side import Load, execution
from feed_assets.polling.poller import Poller, landing_by, open_index
from feed_assets.resources.settings import AS_OF_FILE
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sources.ledger import Landing
from feed_assets.sources.poll_spec import Poll
from feed_assets.state.store import Store

AS_OF = "2019-12-01T06:00:00+00:00"
FIRST, LAST = date(2019, 11, 24), date(2019, 11, 30)
MARKER = ".demo"
TICKS = 5
"""Turns of the sensors within which a report is kept."""
PUSHED = "open_bandit_ads.yaml"
"""The description of the log whose events are pushed at last."""


@dataclass(frozen=True, slots=True)
class Teller:
    """Prints the story: `step` opens a chapter, `say` adds a line, `table` shows rows, `progress` shows a bar.

    `blocks` adds the sentences and tables of a notice.
    """

    step: Callable[[str], None]
    say: Callable[[str], None]
    table: Callable[[Sequence[dict[str, Any]]], None]
    blocks: Callable[[Sequence[str | Table]], None]
    progress: Callable[[str, int], Any]


@dataclass(frozen=True, slots=True)
class NextSteps:
    """The commands to try next: `program` stands before each command's name, `ui` opens the UI."""

    program: str
    ui: str


def prepare_base(base: str, as_of: str = AS_OF) -> None:
    """Empty the base and fix its time. Raises SettingsError if it holds other data."""
    folder = local_directory(base)
    board = fa.open_blackboard(base)
    if folder is None:
        keys = [entry.key for entry in list_all(board, "")]
        _require_demo(base, MARKER in keys or not keys)
        board.delete(*(key for key in keys if key != MARKER))
    elif folder.exists() and any(folder.iterdir()):
        _require_demo(base, (folder / MARKER).exists())
        for each in folder.iterdir():
            if each.name in {MARKER, OWN_HOME}:
                continue  # an open UI keeps its runs there
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
    with suppress(AlreadyExistsError):
        board.create(MARKER, b"What is here belongs to the demo: the next demo removes it.\n")
    board.create(AS_OF_FILE, f"{as_of}\n".encode())


def _require_demo(base: str, is_demo: bool) -> None:  # noqa: FBT001 - reads as a sentence
    if not is_demo:
        raise SettingsError(f"{base} holds other data: unset FEED_ASSETS_BASE, or set it to another place.")


@dataclass(slots=True)
class Demo:
    """The demo on a prepared base. `home` is the DAGSTER_HOME; the plots are written into `directory`.

    `load` loads the definitions in another process.
    """

    settings: fa.Settings
    definitions: dg.Definitions
    load: Load
    home: Path
    directory: Path
    tell: Teller
    next_steps: NextSteps

    def run(self) -> None:
        """Tell the whole story. Raises RuntimeError if a step ends in another way than the story expects."""
        started = time.monotonic()
        pushed = partners_directory() / PUSHED
        processes = min(os.cpu_count() or 1, 2)
        with (
            instance_at(self.home, IN_THIS_PROCESS) as instance,
            TemporaryDirectory() as folder,
            receiver(Path(folder), pushed, self.settings.base) as running,
            ThreadPoolExecutor(1, "start-spark") as thread,
        ):
            with execution(processes, self.settings.spark, self.load, instance, self.settings.run_config) as execute:
                spark = thread.submit(lambda: self.settings.spark.spark_session)  # which takes seconds
                self.wipe_earlier_demo(instance)
                deliveries = logs.cut(Path(folder))
                self.publish_catalog(instance)
                make_default(spark.result())
                self._land_the_week(deliveries.on_time)
                self._process_the_week(instance, execute)
            self._late(instance, deliveries.late)
            self._broken(instance, deliveries.broken, running)
            self._end(time.monotonic() - started)

    def publish_catalog(self, instance: dg.DagsterInstance) -> None:
        """Publish the ad catalog as another team does, and let Dagster learn of it."""
        self.tell.step("Others publish the ad catalog")
        feed = fa.Feed(self.board, CATALOG_FEED)
        update = fa.publish_files(feed, None, [logs.CATALOG], now=self.settings.clock.now(), owner="campaigns team")
        self.tell.say(f"{feed.location}: update {update.name}, {len(update.files)} file, published without Dagster.")
        # Dagster shows an asset as out of date if it learns of an input later.
        runs = self.tick(instance)
        self.expect(not runs, runs)

    def _land_the_week(self, delivery: Path) -> None:
        self.tell.step("A partner's log lands. A tenth of the impressions of 2019-11-27 is still missing")
        self.land(delivery)

    def _process_the_week(self, instance: dg.DagsterInstance, execute: Execute | None) -> None:
        days = days_between(FIRST, LAST)
        self.tell.step(f"Backfill of {len(days)} days with one Spark: clean ads, clean clicks, then ad effectiveness")
        failed = []
        with self.tell.progress("runs", 2 * len(days)) as bar:
            for result in backfill(
                self.definitions,
                instance,
                days,
                run_config=self.settings.run_config,
                starting=lambda day, assets: bar.under_way(f"{day} {', '.join(assets)}"),
                execute=execute,
            ):
                bar()
                failed += [] if result.success else [result]
        if failed:
            raise RuntimeError(f"The backfill failed: {_reasons(failed)}")
        self.show_days(days)

    def _late(self, instance: dg.DagsterInstance, delivery: Path) -> None:
        self.tell.step(
            "The missing tenth arrives days late, where the partner is polled. late_growth compares every day"
        )
        self.poll(delivery)
        self._show_growth()
        runs = self.tick(instance)
        self.expect({(run.tags["dagster/partition"], run.is_success) for run in runs} == {(logs.LATE_DAY, True)}, runs)
        self.show_days([logs.LATE_DAY])
        self._show_mail(instance, logs.LATE_DAY)

    def _broken(self, instance: dg.DagsterInstance, delivery: Path, running: RunningReceiver) -> None:
        self.tell.step(f"Broken events for {logs.BROKEN_DAY} are pushed to a receiver: they have no item")
        answer = running.push(delivery)
        running.stop()
        self.tell.say(
            f"POST /v1/events/{Path(PUSHED).stem}: {answer['status']}, {answer['accepted']:,} accepted, "
            f"{answer['rejected']:,} rejected. The receiver has them on disk."
        )
        for outcome in running.land(lambda: self.settings.spark.spark_session, self.board, self.settings.clock):
            if outcome.problems:
                raise RuntimeError(f"The events did not land: {'; '.join(outcome.problems)}")
            self.tell.say(f"Its segment -> ads/{Path(PUSHED).stem}: {outcome.landed:,} records landed.")
        self._show_growth()
        runs = self.tick(instance)
        self.expect(
            {(run.tags["dagster/partition"], run.is_failure) for run in runs} == {(logs.BROKEN_DAY, True)}, runs
        )
        for story in self._stories(date.fromisoformat(logs.BROKEN_DAY))[:1]:
            rejected = story.updates[0]
            self.tell.say(f"Checks rejected {story.location} {rejected.name}: {'; '.join(rejected.failed_checks)}")
            self.tell.say(f"Readers keep {story.latest}. The rejected files stay for inspection.")

    def _end(self, seconds: float) -> None:
        days = days_between(FIRST, LAST)
        self.tell.step("The week as every reader sees it now")
        rows = self._day_rows(days)
        self.tell.table(rows)
        impressions, clicks = sum(row["impressions"] for row in rows), sum(row["clicks"] for row in rows)
        figures = report.day_figures(self._feed, now=self.settings.clock.now())
        plot = self._write("effectiveness.png", report.days_picture(figures))
        self.tell.say(f"{impressions:,} impressions, {clicks:,} clicks in all; the plot is {plot}")
        self.tell.say(f"{seconds:.0f} s from the first delivery to here.")
        if (impressions, clicks) != (30_000, 157):
            raise RuntimeError(f"The log has 30,000 impressions and 157 clicks, not {impressions:,} and {clicks:,}.")
        program = self.next_steps.program
        self.tell.step("What to type next")
        for command, what in (
            (self.next_steps.ui, "the Dagster UI with all of it: http://127.0.0.1:3000"),
            (f"{program} explain {logs.BROKEN_DAY}", "why that day is as it is"),
            (f"{program} late", "each day of each source: what was sent, growth, decision"),
            (f"{program} quarantine {logs.BROKEN_DAY}", "the records in quarantine"),
            (f"{program} report -o report.html", "the week as a table, and as a page to show to others"),
            (f"{program} feeds", "every feed; `feed-assets feed ls` shows every update and its state"),
        ):
            self.tell.say(f"# {what}")
            self.tell.say(command)

    @property
    def board(self) -> Blackboard:
        """The storage below the base."""
        return self.settings.blackboard.blackboard

    @property
    def _feed(self) -> fa.Feed:
        return fa.Feed(self.board, EFFECTIVENESS_FEED)

    @property
    def sources(self) -> tuple[fa.Source, ...]:
        """The partners' sources."""
        return fa.load_sources(self.settings.sources_directory, KINDS)

    def land(self, delivery: Path) -> None:
        """Land a file for every source, and say what landed."""
        from feed_assets.sources.landing import land  # noqa: PLC0415 - loads Spark

        spark, now = self.settings.spark.spark_session, self.settings.clock.now()
        for source in self.sources:
            landing = land(spark, self.board, source, delivery, now=now)
            self.say_landed(landing)

    def say_landed(self, landing: Landing) -> None:
        """Tell what has landed."""
        records = f"{landing.landed:,} of {landing.read:,} records"
        self.tell.say(f"{landing.file} -> {landing.source}: {records} into {counted(len(landing.partitions), 'hour')}.")

    def poll(self, delivery: Path, name: str = "") -> None:
        """Put a file where the partner puts files, below the day on which it comes, and poll that place."""
        now = self.settings.clock.now
        folder = delivery.parent / "partner" / str(now().date())
        folder.mkdir(parents=True, exist_ok=True)
        shutil.move(delivery, folder / (name or delivery.name))
        poll = Poll(place=str(folder.parent), pattern="{yyyy}-{mm}-{dd}/*.csv", every="*/15 * * * *", settle_seconds=0)

        land = landing_by(lambda: self.settings.spark.spark_session, self.board, now)
        for source in self.sources:
            polled_source = source.model_copy(update={"poll": poll})
            polled = Poller(self.board, open_index(self.board), land, now).poll(polled_source)
            if polled.problems:
                raise RuntimeError(f"The poll failed: {'; '.join(polled.problems)}")
            for landing in polled.landings:
                self.say_landed(landing)

    def _show_mail(self, instance: dg.DagsterInstance, day: str) -> None:
        """The mail about the day's last report, and its plot."""
        for turn in range(TICKS):
            if kept := kept_reports(self.board, day, now=self.settings.clock.now()):
                break
            # Dagster evaluates the sensors of a turn in any order: the report may come with the next turn. That may
            # come at once: the run took longer than the time between two.
            if turn:
                time.sleep(self.settings.sensor_seconds)
            self.expect(not (runs := self.tick(instance)), runs)
        else:
            raise RuntimeError(f"The sensor late_reports kept no report on {day}.")
        notice = notice_of(kept[-1], ENDED)
        self.tell.step("The mail about it, which FEED_ASSETS_SMTP would send. The report is kept in any case")
        self.tell.say(f"Subject: {notice.subject}")
        self.tell.blocks(notice.body)
        for feed in (kept[-1].result or {})["feeds"]:
            if feed["figures"]:
                plot = self._write("late-data.png", before_and_after(feed, day))
                self.tell.say(f"Its plot: {plot}")

    def _write(self, name: str, picture: bytes) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)  # a base in a bucket has none, nor has a home elsewhere
        path = self.directory / name
        path.write_bytes(picture)
        return path

    def tick(self, instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
        """A turn of the sensors: execute the runs that they request, say which, and return them."""
        runs = tick_sensors(instance)
        for run in runs:
            assets = ", ".join(sorted(key.to_user_string() for key in run.asset_selection or ()))
            self.tell.say(
                f"{run.tags['dagster/sensor_name']} requested {run.tags['dagster/partition']} "
                f"({assets}): {run.status.value.lower()}"
            )
        return runs

    def expect(self, holds: bool, runs: Sequence[dg.DagsterRun]) -> None:  # noqa: FBT001 - reads as a sentence
        """Raise RuntimeError with these runs, unless it holds what the story expects of them."""
        if not holds:
            got = [(run.tags.get("dagster/partition"), run.status.value) for run in runs]
            raise RuntimeError(f"The sensors requested other runs than the story expects: {got}")

    def _show_growth(self) -> None:
        feeds = AssetFeedGraph.of(self.definitions.get_repository_def())
        for kind, location in ((ADS, CLEAN_ADS_FEED), (CLICKS, CLEAN_CLICKS_FEED)):
            sources = [source for source in self.sources if source.kind == kind.name]
            now = self.settings.clock.now()
            for decision in growth_decisions(self.board, sources, feeds.feeds[location], now=now):
                if decision.decision.kind != "unchanged":
                    self.tell.say(decision.sentence())

    def _stories(self, day: date) -> list[explanation.AssetStory]:
        feeds = AssetFeedGraph.of(self.definitions.get_repository_def())
        store, now = Store(self.settings.state), self.settings.clock.now()
        return explanation.explain(self.board, feeds, self.sources, day, now=now, store=store)

    def show_days(self, days: Sequence[str]) -> None:
        """A table of these days."""
        self.tell.table(self._day_rows(days))

    def _day_rows(self, days: Sequence[str]) -> list[dict[str, Any]]:
        now = self.settings.clock.now()
        figures = report.day_figures(self._feed, now=now, first=days[0], last=days[-1])
        rows = []
        for day in figures:
            stories = self._stories(date.fromisoformat(day.day))
            rows.append(
                {
                    "day": day.day,
                    "impressions": day.impressions,
                    "clicks": day.clicks,
                    "CTR": report.percent(day.ctr),
                    "updates": sum(len(story.updates) for story in stories),
                    "why": stories[0].summary,
                }
            )
        return rows

    def wipe_earlier_demo(self, instance: dg.DagsterInstance) -> None:
        """Remove what Dagster stores about an earlier demo: its data is gone."""
        ours = {spec.key for spec in self.definitions.resolve_all_asset_specs()}
        instance.wipe_assets([key for key in instance.get_asset_keys() if key in ours])
        sensors = {sensor.name for sensor in self.definitions.sensors or ()}
        for state in instance.all_instigator_state():
            if state.name in sensors:
                instance.delete_instigator_state(state.instigator_origin_id, state.selector_id)


def _reasons(failed: Sequence[PartitionResult]) -> str:
    return "; ".join(f"{result.partition}: {', '.join(result.failures)}" for result in failed)
