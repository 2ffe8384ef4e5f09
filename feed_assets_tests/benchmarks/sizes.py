"""How operations grow: time, requests and memory at three sizes, in memory, where only the code of the project counts.

Here: a feed, its inputs and a source with landings, as objects that no program wrote. Not here: a disk or a network,
and whether the requests are as many as they may be (see the tests called `test_sizes`).
"""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from time import perf_counter

from feed_assets.ads import KINDS
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.datasets import days_between
from feed_assets.dependencies.raw_growth import growth_decisions
from feed_assets.dependencies.staleness import staleness
from feed_assets.file_feed import (
    Facts,
    Feed,
    File,
    Policy,
    Record,
    Transition,
    carry_out,
    histories,
    latest,
    latest_of_all,
    plan,
    update_name,
    verify,
)
from feed_assets.operations.explanation import explain
from feed_assets.sources import absences, load_source, read_set
from feed_assets.sources.layout import landed_path, ledger_key, raw_file_key, touched_key
from feed_assets.sources.ledger import Landing, entry_json, landings_of
from feed_assets.state import Store
from feed_assets_tests.benchmarks.results import Report, Row
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.dependencies.plain_process import ADS, CLICKS, EFFECTIVENESS, Days, node
from feed_assets_tests.harness import SHOP_ADS, write_sources

PARTITIONS = (100, 1_000, 10_000)
QUICK_PARTITIONS = (20,)
UPDATES, FILES = 4, 4
LANDING_DAYS = (1, 10, 40)
QUICK_LANDING_DAYS = (1,)
A_DAY = 1_440
MOST = 10**9
NOW = datetime(2019, 12, 1, tzinfo=UTC)
LAST = NOW.date() - timedelta(days=1)
POLICY = Policy(keep=1, younger_than=timedelta(0), longest_write=timedelta(0))
SOURCE = "ads/shop_ads"
MIB = 2**20

Operation = Callable[[RecordingBlackboard], object]


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """Milliseconds, requests and the peak of what each operation allocates."""
    source = load_source(write_sources(scratch, SHOP_ADS) / "0.yaml", KINDS)
    none_asked = Store(f"sqlite:///{scratch}/state.db")
    rows = []
    for size in QUICK_PARTITIONS if quick else PARTITIONS:
        graph = _LongHistory(size)
        feed = f"{size:,} partitions"
        objects = _feed(graph.days)
        rows += _rows(feed, objects, _feed_operations(graph, lambda board: Feed(board, EFFECTIVENESS), none_asked))
    for days in QUICK_LANDING_DAYS if quick else LANDING_DAYS:
        there = days_between(LAST - timedelta(days=days - 1), LAST)
        first = date.fromisoformat(there[0])
        operations: dict[str, Operation] = {
            "late_growth, the lookback": lambda board: list(
                growth_decisions(board, [source], node(ADS, raw=SOURCE), now=NOW)
            ),
            "the raw files of an old day": lambda board, first=first: read_set(board, SOURCE, first),
            "a landing by its content": lambda board, days=days: landings_of(board, SOURCE, f"{days * MOST:016x}"),
            "why an old day is empty": lambda board, first=first: absences(board, source, [first]),
        }
        rows += _rows(f"{days * A_DAY:,} landings", _landings(there), operations)
    notes = [
        f"A feed has {UPDATES} updates of {FILES} files in each partition, each with claim and record.",
        f"A source has a landing a minute, {A_DAY:,} a day. Everything is in memory; MB is what the call allocates.",
        f"The load of this machine was {os.getloadavg()[0]:.1f} at the end.",
    ]
    return Report("sizes", "how operations grow", rows, (), notes)


class _LongHistory(Days):
    """The feeds of the example over so many days."""

    def __init__(self, count: int) -> None:
        super().__init__(NOW)
        self.days = days_between(LAST - timedelta(days=count - 1), LAST)


def _feed_operations(
    graph: _LongHistory, feed: Callable[[RecordingBlackboard], Feed], store: Store
) -> dict[str, Operation]:
    one, week = graph.days[0], [graph.days[0], *graph.days[-7:]]
    next_day = iter(graph.days)

    def remove(board: RecordingBlackboard) -> object:
        return carry_out(feed(board), plan(feed(board), POLICY, now=NOW, within=next(next_day)), now=NOW)

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
    }


def _rows(size: str, objects: dict[str, bytes], operations: dict[str, Operation]) -> list[Row]:
    inner = MemoryBlackboard(dict(sorted(objects.items())))
    rows = []
    for name, operation in operations.items():
        board = RecordingBlackboard(inner)
        start = perf_counter()
        operation(board)
        milliseconds = 1000 * (perf_counter() - start)
        tracemalloc.start()
        operation(RecordingBlackboard(inner))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        values = {"milliseconds": milliseconds, "requests": len(board.requests), "peak_MB": peak / MIB}
        rows.append(Row(size, name, values))
    return rows


def _feed(days: list[str]) -> dict[str, bytes]:
    names = [update_name(NOW - timedelta(days=30, hours=number)) for number in range(UPDATES)]
    tag = MemoryBlackboard().tag_of(b"") or ""
    files = tuple(File(f"part-{number}", 0, tag) for number in range(FILES))
    objects = {}
    for day in days:
        for name in names:
            record = Record(day, name, "me", "token", files, Facts(), history=(Transition("published", NOW),))
            objects[f"{EFFECTIVENESS}/.feed/claims/{day}/{name}"] = b"{}"
            objects[f"{EFFECTIVENESS}/.feed/records/{day}/{name}.0.json"] = record.to_json()
            objects |= {f"{EFFECTIVENESS}/{day}/{name}/{file.path}": b"" for file in files}
            objects[f"{EFFECTIVENESS}/{day}/{name}/_SUCCESS"] = str(FILES).encode()
        objects |= {f"{feed}/{day}/{names[0]}/_SUCCESS": b"0" for feed in (ADS, CLICKS)}
    return objects


def _landings(days: list[str]) -> dict[str, bytes]:
    objects = {}
    # Other contents for each size: what was read of a landing is remembered.
    for number, day in enumerate((day for day in days for _ in range(A_DAY)), start=len(days) * MOST):
        landing = Landing(
            SOURCE, "log.csv", "", f"{number:016x}", 1, 1, 0, 0, {}, None, (f"{day}/{number % 24:02}",), days=(day,)
        )
        objects[raw_file_key(SOURCE, day, landed_path(f"{number % 24:02}", landing.id))] = b"x"
        objects[ledger_key(SOURCE, landing.id)] = entry_json(landing)
        objects[touched_key(SOURCE, day, landing.id)] = b""
    return objects
