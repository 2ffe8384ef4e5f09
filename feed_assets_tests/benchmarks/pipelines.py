"""The three pipelines over a generated day, beside a bare Spark script and beside DuckDB.

Here: taking turns in one warm process, and holding the results against each other. Not here: what the others do (see
`bare_script` and `duckdb_script`).
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from time import process_time
from typing import Any
from uuid import uuid4

import dagster as dg
import duckdb

from feed_assets.file_feed import require_latest
from feed_assets.resources.event_log import keep_open
from feed_assets_tests.benchmarks import bare_script, duckdb_script
from feed_assets_tests.benchmarks.generated import portal, portal_sources, write_day
from feed_assets_tests.benchmarks.results import Comparison, Report, Rounds, Row, progress, timed
from feed_assets_tests.harness import ADS, ALL, CLICKS, EFFECTIVENESS, Installation, messages, settings_below

DAY = date(2019, 11, 24)
SMALL = 20_000
SIZES = {SMALL: 3, 1_000_000: 6, 5_000_000: 6}
"""Impressions of the day, and how often each subject has its turn: a multiple of the subjects that take turns.

Before these, each subject has `UNCOUNTED` turns, because Java interprets what is new and then compiles it: a second
turn over 5 million rows still takes a tenth longer than the third.
"""
UNCOUNTED = 2
QUICK_SIZES = {SMALL: 1}
THREADS = 2
"""As many as the Spark of the tests has."""

GOALS = {1_000_000: 1.10, 5_000_000: 1.05}
"""What the project may take without its audit, against the bare script."""
AUDIT_GOAL, DUCKDB_GOAL, JOBS_GOAL = 0.08, 2.5, 12
WHOLE, WORK, BARE, DUCKDB = "feed_assets, with audit", "feed_assets, without audit", "bare Spark script", "DuckDB"
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """Seconds for a whole day, by size and subject, and what the project adds to the bare script."""
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    with dg.DagsterInstance.local_temp(str(_made(scratch / "dagster"))) as instance:
        keep_open(instance)  # as the project's own processes do
        for size, turns in (QUICK_SIZES if quick else SIZES).items():
            rounds, steps, jobs = _rounds(scratch, instance, size, turns, 0 if quick else UNCOUNTED)
            label = f"{size:,} impressions"
            rows += rounds.rows(label)
            rows += [
                Row(label, f"  of it {step}", {"median_seconds": steps.median(step), "rounds": turns})
                for step in steps.seconds
            ]
            if size == SMALL:
                comparisons.append(Comparison.at_most(f"{label}: Spark jobs, with audit", jobs, JOBS_GOAL))
            else:
                comparisons += _comparisons(label, rounds, GOALS[size])
    notes = [
        (
            "A day of one partner: 5 % clicks, hot users and ads, re-delivered, repeated, orphan and broken records. "
            "Subjects take turns in one process, on files in the system's cache, after two turns of each that do not "
            "count; row counts are the same."
        ),
        (
            "Without audit: the whole run without its audit steps, which read what was written again. It still has "
            "Dagster's steps and events on SQLite, counting, manifests, records, and the plots of effectiveness."
        ),
        "DuckDB runs SQL written for this one partner, on as many threads.",
    ]
    return Report("pipelines", "clean ads, clean clicks and effectiveness of a day", rows, comparisons, notes)


def _comparisons(label: str, rounds: Rounds, goal: float) -> list[Comparison]:
    """The ratios of a size; `goal` is that of the project without audit against the bare script."""
    whole, work, bare = (rounds.median(subject) for subject in (WHOLE, WORK, BARE))
    ratios: list[tuple[str, float, float | None]] = [
        (f"{WORK} / {BARE}", work / bare, goal),
        ("the audit / all else", (whole - work) / work, AUDIT_GOAL),
        (f"{WHOLE} / {BARE}", whole / bare, None),
        (f"{BARE} / {DUCKDB}", bare / rounds.median(DUCKDB), DUCKDB_GOAL),
    ]
    if rounds.cpu:
        ratios.append((f"{WHOLE} / {BARE}, processor time", rounds.median_cpu(WHOLE) / rounds.median_cpu(BARE), None))
    return [Comparison.at_most(f"{label}: {name}", ratio, limit) for name, ratio, limit in ratios]


def _rounds(
    scratch: Path, instance: dg.DagsterInstance, size: int, turns: int, uncounted: int
) -> tuple[Rounds, Rounds, int]:
    """So many turns of each subject over a day of this size, after others that do not count.

    The result is the seconds of each, those of each step of the project's, and its Spark jobs in the last turn.
    """
    base = _made(scratch / f"base-{size}")
    directory = portal_sources(scratch / "sources")
    write_day(base, DAY, size)
    sources = portal(directory)
    installation = Installation(settings_below(base, directory), instance)
    spark = installation.definitions.resources["spark"].spark_session
    rounds, steps = Rounds(), Rounds()

    def ours() -> None:
        result = installation.run(*ALL, day=str(DAY), config=QUIET)
        if not result.success:
            raise AssertionError(messages(result))
        for name, step in _seconds_of_steps(result).items():
            steps.add(name, step)

    bare, small = scratch / "bare", scratch / "duckdb"
    subjects: dict[str, Callable[[], object]] = {
        WHOLE: ours,
        BARE: lambda: bare_script.run(spark, base, sources, DAY, bare),
        DUCKDB: lambda: duckdb_script.run(base, DAY, small, threads=THREADS),
    }
    order = deque(subjects)
    jobs = 0
    with progress(f"pipelines, {size:,} impressions", (uncounted + turns) * len(subjects)) as step_done:
        for turn in range(uncounted + turns):
            for subject in order:
                seconds, cpu, count = _measured(spark, subjects[subject])
                rounds.add(subject, seconds, cpu)
                jobs = count if subject == WHOLE else jobs
                step_done(f"{subject}: {seconds:.1f} s")
            order.rotate()
            taken = {name: each[-1] for name, each in steps.seconds.items()}
            whole = rounds.seconds[WHOLE][-1]
            rounds.add(WORK, whole - sum(step for name, step in taken.items() if name.endswith("_audit")))
            _require_equal(_counts_of(installation), _counts_below(bare), _counts_below(small))
            for used in (bare, small):
                shutil.rmtree(used)
            if turn < uncounted:
                rounds, steps = Rounds(), Rounds()
    shutil.rmtree(base)
    return rounds, steps, jobs


def _measured(spark: Any, what: Callable[[], object]) -> tuple[float, float | None, int]:
    """What a call takes: seconds, processor time of this process and its Spark if the system tells it, Spark's jobs."""
    group, before = uuid4().hex, _cpu_seconds(spark)
    spark.sparkContext.setJobGroup(group, group)
    seconds = timed(what)
    after = _cpu_seconds(spark)
    jobs = len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))
    return seconds, None if before is None or after is None else after - before, jobs


def _cpu_seconds(spark: Any) -> float | None:
    """The processor time so far; None if the system does not show it as Linux does."""
    status = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/stat")
    if not status.exists():
        return None
    # The name of the program comes in brackets, and may hold anything.
    user, system = status.read_text(encoding="utf-8").rpartition(")")[2].split()[11:13]
    return process_time() + (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _seconds_of_steps(result: dg.ExecuteInProcessResult) -> dict[str, float]:
    return {
        event.step_key: event.step_success_data.duration_ms / 1000
        for event in result.all_events
        if event.is_step_success and event.step_key
    }


def _counts_of(installation: Installation) -> dict[str, int]:
    """What the updates in force hold, read as the plain files they are."""
    locations = {"ads": ADS, "clicks": CLICKS, "effectiveness": EFFECTIVENESS}
    found = {}
    for name, location in locations.items():
        update = require_latest(installation.feed(location), str(DAY), now=installation.now)
        found[name] = installation.base / location / str(DAY) / update.name
        if name != "effectiveness":
            found[f"{name}-quarantine"] = installation.base / "quarantine" / location / str(DAY) / update.name
    return _counts(found)


def _counts_below(output: Path) -> dict[str, int]:
    return _counts({path.stem: path for path in output.iterdir()})


def _counts(paths: Mapping[str, Path]) -> dict[str, int]:
    """Rows by name, and the sums of effectiveness, which tell whether clicks were attributed alike."""
    counts = {}
    for name, path in paths.items():
        kind = "json" if name.endswith("quarantine") else "parquet"
        where = f"{path}/part-*" if path.is_dir() else str(path)
        table = f"read_{kind}('{where}')"
        counts[name] = _number(f"SELECT count(*) FROM {table}")
        if name == "effectiveness":
            for column in ("impressions", "users", "clicks", "repeat_clicks", "orphan_clicks"):
                counts[f"sum of {column}"] = _number(f"SELECT sum({column})::BIGINT FROM {table}")
            counts["sum of medians"] = _number(
                f"SELECT sum(round(10000 * median_seconds_to_click))::BIGINT FROM {table}"
            )
            counts["sum of cost"] = _number(f"SELECT (1000000 * sum(cost))::BIGINT FROM {table}")
    return counts


def _number(query: str) -> int:
    (row,) = duckdb.sql(query).fetchall()
    return int(row[0])


def _require_equal(ours: Mapping[str, int], *others: Mapping[str, int]) -> None:
    for other in others:
        if other != ours:
            message = f"The results differ: {dict(ours)} against {dict(other)}."
            raise AssertionError(message)


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True)
    return directory
