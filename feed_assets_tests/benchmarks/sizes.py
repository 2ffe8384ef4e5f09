"""How operations grow: time, requests and memory at three sizes, where only the code of the project counts.

Here: a feed, its inputs and a source with landings, as objects that no program wrote and that a listing computes. Not
here: a disk or a network, Dagster, and whether the requests are as many as they may be (see the tests called
`test_sizes`).
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import process_time, thread_time

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import Blackboard, Content, Page
from feed_assets.datasets.days import days_between
from feed_assets.file_feed import (
    Facts,
    Feed,
    File,
    Policy,
    Record,
    Transition,
    Watch,
    carry_out,
    continue_scan,
    histories,
    latest,
    latest_of_all,
    log_page,
    look_at_logged,
    plan,
    update_name,
    verify,
)
from feed_assets.file_feed.changes import Position, log_act
from feed_assets.late_data.raw_growth import growth_decisions
from feed_assets.late_data.staleness import staleness
from feed_assets.operations.explanation import explain
from feed_assets.sources.absence import absences
from feed_assets.sources.layout import landed_path, ledger_key, raw_file_key, touched_key
from feed_assets.sources.ledger import Landing, entry_json, newest_landing
from feed_assets.sources.loading import load_source
from feed_assets.sources.raw import read_set
from feed_assets.sources.spec import Source
from feed_assets.state.store import Store
from feed_assets_tests.benchmarks.results import Report, Row, under_way
from feed_assets_tests.blackboard.computed import ComputedBlackboard, Objects
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.harness import SHOP_ADS, write_sources
from feed_assets_tests.late_data.plain_process import ADS, EFFECTIVENESS, Days, node

PARTITIONS = (100, 1_000, 10_000)
QUICK_PARTITIONS = (10,)
UPDATES, FILES = 50, 40
FEEDS = (1, 10, 100)
QUICK_FEEDS = (2,)
NEWS = 20
LANDING_DAYS = (1, 30, 365)
QUICK_LANDING_DAYS = (1,)
A_DAY = 1_440
RAW_FILES = (500, 5_000, 50_000)
QUICK_RAW_FILES = (50,)
NOW = datetime(2019, 12, 1, tzinfo=UTC)
LAST = NOW.date() - timedelta(days=1)
POLICY = Policy(keep=1, younger_than=timedelta(0), longest_write=timedelta(0))
SOURCE = "ads/shop_ads"
MIB = 2**20
NAMES = [update_name(NOW - timedelta(days=30 + number)) for number in reversed(range(UPDATES))]
Operation = Callable[[Blackboard], object]


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """Milliseconds, requests, and by how much the process grew, of each operation in a process of its own."""
    rows = []
    store = Store(f"sqlite:///{scratch}/state.db")
    source = load_source(write_sources(scratch, SHOP_ADS) / "0.yaml", KINDS)
    for size in QUICK_PARTITIONS if quick else PARTITIONS:
        graph = _LongHistory(size)
        groups = [group for location in sorted(graph.feeds) for group in _feed(location, graph.days)]
        rows += _rows(f"{size:,} partitions", ComputedBlackboard(groups), _feed_operations(graph, store))
    for feeds in QUICK_FEEDS if quick else FEEDS:
        locations = [f"feed-{number:03}/v1.0" for number in range(feeds)]
        board = ComputedBlackboard([group for location in locations for group in _feed(location, graph.days)])
        rows += _rows(f"{feeds} feeds", board, {"new_manifests, a tick without news": _tick(locations)})
        _publish(board, locations, graph.days)
        rows += _rows(f"{feeds} feeds", board, {f"new_manifests, {NEWS} updates": _tick(locations)})
    for count in QUICK_LANDING_DAYS if quick else LANDING_DAYS:
        days = days_between(LAST - timedelta(days=count - 1), LAST)
        operations = _raw_operations(source, date.fromisoformat(days[0]))
        rows += _rows(f"{count * A_DAY:,} landings", ComputedBlackboard(_landings(days)), operations)
    for files in QUICK_RAW_FILES if quick else RAW_FILES:
        there = Objects(files, lambda n: raw_file_key(SOURCE, str(LAST), f"12/other-{n:06}.parquet"), lambda _: b"x")
        one_day: dict[str, Operation] = {"the raw files of a day": lambda board: read_set(board, SOURCE, LAST)}
        rows += _rows(f"{files:,} raw files", ComputedBlackboard([there]), one_day)
    notes = [
        f"A partition has {UPDATES} updates of {FILES} files, each with claim, record and entry in the change log.",
        f"A source has a landing a minute, {A_DAY:,} a day. Objects are computed when they are listed or read.",
        "Milliseconds are of processor time; computing the objects has a column of its own.",
        f"The load of this machine was {os.getloadavg()[0]:.1f} at the end.",
    ]
    return Report("sizes", "how operations grow", rows, (), notes)


class _LongHistory(Days):
    """The feeds of the example over so many days."""

    def __init__(self, count: int) -> None:
        super().__init__(NOW)
        self.days = days_between(LAST - timedelta(days=count - 1), LAST)
        self.known = frozenset(self.days)

    def has(self, feed: str, partition: str) -> bool:
        """As before, without a search through all days: it would be most of what is measured."""
        return feed in self.feeds and partition in self.known


def _feed_operations(graph: _LongHistory, store: Store) -> dict[str, Operation]:
    one, week = graph.days[0], [graph.days[0], *graph.days[-7:]]

    def feed(board: Blackboard) -> Feed:
        return Feed(board, EFFECTIVENESS)

    def remove(board: Blackboard) -> object:
        return carry_out(feed(board), plan(feed(board), POLICY, now=NOW, within=one), now=NOW)

    return {
        "latest of a partition": lambda board: latest(feed(board), one, now=NOW),
        "latest of all": lambda board: latest_of_all(feed(board), now=NOW),
        "staleness, a week and an old day": lambda board: list(
            staleness(board, graph, graph.feeds[EFFECTIVENESS], week, now=NOW)
        ),
        "explain a day": lambda board: explain(board, graph, [], date.fromisoformat(one), now=NOW, store=store),
        "feed ls": lambda board: sum(len(statuses) for _, statuses in histories(feed(board), now=NOW)),
        "feed verify": lambda board: verify(feed(board), now=NOW),
        "feed verify, a partition": lambda board: verify(feed(board), now=NOW, within=one),
        "feed gc, the plan": lambda board: plan(feed(board), POLICY, now=NOW),
        "feed gc, of a partition": remove,
        "new_manifests, a scan": lambda board: _scan(feed(board), dict.fromkeys(graph.days, NAMES[-1])),
    }


def _raw_operations(source: Source, first: date) -> dict[str, Operation]:
    return {
        "late_growth, the lookback": lambda board: list(
            growth_decisions(board, [source], node(ADS, raw=SOURCE), now=NOW)
        ),
        "the raw files of an old day": lambda board: read_set(board, SOURCE, first),
        "a landing by its content": lambda board: newest_landing(board, SOURCE, f"{1:016x}"),
        "why an old day is empty": lambda board: absences(board, source, [first]),
    }


def _scan(feed: Feed, known: dict[str, str]) -> None:
    """A whole scan; the sensor takes it in ticks."""
    watch = Watch(Position.at(NOW), scan_begun=NOW - timedelta(hours=1), everything=False)
    for look in continue_scan(feed, watch.scanning(timedelta(minutes=10), now=NOW), known, now=NOW):
        assert not look.changes


def _tick(locations: Sequence[str]) -> Operation:
    """What a tick does with the change log of each feed."""

    def tick(board: Blackboard) -> int:
        changes, position = 0, Position.at(NOW - timedelta(minutes=1))
        for location in locations:
            feed = Feed(board, location)
            page = log_page(feed, position, now=NOW)
            known = {entry.partition or "": NAMES[-1] for entry in page.new}
            changes += sum(len(look.changes) for look in look_at_logged(feed, page.new, known, now=NOW))
        return changes

    return tick


def _publish(board: Blackboard, locations: Sequence[str], partitions: Sequence[str]) -> None:
    """As many updates as are news, spread over the feeds."""
    for number in range(NEWS):
        feed, partition = Feed(board, locations[number % len(locations)]), partitions[number // len(locations)]
        board.create(f"{feed.update_prefix(partition, update_name(NOW))}_SUCCESS", b"0")
        log_act(feed, partition, update_name(NOW), "published", at=NOW)


def _rows(size: str, board: Blackboard, operations: dict[str, Operation]) -> list[Row]:
    under_way(size)
    return [Row(size, name, _measured(board, operation)) for name, operation in operations.items()]


def _measured(board: Blackboard, operation: Operation) -> dict[str, float | int]:
    """The figures of an operation in a forked process, in which no other has left caches or free memory."""
    forked = get_context("fork")
    receiver, sender = forked.Pipe(duplex=False)
    process = forked.Process(target=_run, args=(board, operation, sender))
    process.start()
    sender.close()
    values: dict[str, float | int] = receiver.recv()
    process.join()
    return values


def _run(board: Blackboard, operation: Operation, sender: Connection) -> None:
    measured = _Timed(board)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    before, start = _memory("VmRSS"), process_time()
    operation(measured)
    milliseconds = 1000 * (process_time() - start)
    grown = (_memory("VmHWM") - before) / MIB
    computing = 1000 * measured.seconds
    sender.send(
        {
            "milliseconds": milliseconds - computing,
            "computing_objects": computing,
            "requests": len(measured.requests),
            "peak_MB": max(0.0, grown),
        }
    )


def _memory(name: str) -> int:
    """Bytes of this process, by a line of its status."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


class _Timed(RecordingBlackboard):
    """Keeps account of the processor time in which objects are listed and read, too, in any thread."""

    def __init__(self, inner: Blackboard) -> None:
        super().__init__(inner)
        self.seconds = 0.0

    def page(self, prefix: str, *, after: str = "", folders: bool = False) -> Page:
        """See `Blackboard.page`."""
        start = thread_time()
        page = super().page(prefix, after=after, folders=folders)
        self.seconds += thread_time() - start
        return page

    def read(self, key: str, *, limit: int | None = None) -> Content:
        """See `Blackboard.read`."""
        start = thread_time()
        content = super().read(key, limit=limit)
        self.seconds += thread_time() - start
        return content


def _feed(location: str, days: Sequence[str]) -> list[Objects]:
    """A feed with a long history: its change log, claims and records, and its updates."""
    control, of_update = f"{location}/.feed", FILES + 1
    paths = ["_SUCCESS", *(f"part-{number:02}" for number in range(FILES))]
    files = tuple(File(path, 0, MemoryBlackboard().tag_of(b"") or "") for path in paths[1:])
    history = (Transition("published", NOW),)
    template = Record("<partition>", "<update>", "me", "token", files, Facts(), history=history).to_json()
    manifest = str(FILES).encode()

    def place(number: int) -> tuple[str, str]:
        return days[number // UPDATES], NAMES[number % UPDATES]

    def logged(number: int) -> str:
        update, day = NAMES[number // len(days)], days[number % len(days)]
        return f"{control}/changes/{update.replace('.', '/')}/{day}/{update}.published"

    def recorded(number: int) -> bytes:
        day, update = place(number)
        return template.replace(b"<partition>", day.encode()).replace(b"<update>", update.encode())

    def file(number: int) -> str:
        update, path = divmod(number, of_update)
        return f"{location}/{days[update // UPDATES]}/{NAMES[update % UPDATES]}/{paths[path]}"

    updates = len(days) * UPDATES
    return [
        Objects(updates, logged, lambda _: b""),
        Objects(updates, lambda number: "{}/claims/{}/{}".format(control, *place(number)), lambda _: b"{}"),
        Objects(updates, lambda number: "{}/records/{}/{}.0.json".format(control, *place(number)), recorded),
        Objects(updates * of_update, file, lambda number: b"" if number % of_update else manifest),
    ]


def _landings(days: Sequence[str]) -> list[Objects]:
    """A landing a minute, each with a raw file, its entry, and the day that it touched."""

    def landing(number: int) -> Landing:
        minute = number % A_DAY
        hour, name = f"{days[number // A_DAY]}/{minute // 60:02}", f"log-{minute}.csv"
        return Landing(
            SOURCE, name, "", f"{number:016x}", 1, 1, 0, 0, {}, None, (hour,), days=(hour[:10],), records=(1,)
        )

    def raw(number: int) -> str:
        landed = landing(number)
        day, _, hour = landed.partitions[0].partition("/")
        return raw_file_key(SOURCE, day, landed_path(hour, landed.id, 1))

    def touched(number: int) -> str:
        landed = landing(number)
        return touched_key(SOURCE, landed.days[0], landed.id)

    landings = len(days) * A_DAY
    return [
        Objects(landings, touched, lambda _: b""),
        Objects(landings, lambda number: ledger_key(SOURCE, landing(number).id), lambda n: entry_json(landing(n))),
        Objects(landings, raw, lambda _: b"x"),
    ]
