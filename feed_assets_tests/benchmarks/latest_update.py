"""How long it takes to find the latest update, by the number of updates before it.

Here: histories of any length as a plain program writes them, on a disk and in a bucket. Not here: whether the answer
is right in every case (see the tests of `file_feed`), though each answer is compared with what was written.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import boto3
from moto import mock_aws
from moto.s3.models import s3_backends

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.port import Blackboard
from feed_assets.blackboard.s3 import S3Blackboard
from feed_assets.file_feed import Feed, latest, update_name
from feed_assets_tests.benchmarks.results import Comparison, Report, Row, timed, under_way
from feed_assets_tests.blackboard.recording import RecordingBlackboard

LOCATION, PARTITION, BUCKET = "clean-ads/v1.0", "2019-11-24", "benchmark"
NOW = datetime(2019, 12, 1, tzinfo=UTC)
SIZES = (10, 1_000, 10_000)
QUICK_SIZES = (10, 100)
REPEATS = 21
FRESH_PROCESSES = 5
FLAT = 2.5
"""The search starts a day back: there the shortest history has 10 updates, and longer ones 24."""
RECENT, OLD = timedelta(hours=1), timedelta(days=60)
"""How long ago the newest update was begun: the search starts a day back, so an old one takes it further."""

FRESH = """
import sys
from datetime import datetime
from pathlib import Path
from time import perf_counter
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.file_feed import Feed, latest
base, location, partition, now = sys.argv[1:]
start = perf_counter()
latest(Feed(LocalBlackboard(Path(base)), location), partition, now=datetime.fromisoformat(now))
print(perf_counter() - start)
"""


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """Seconds on a disk, warm and in a new process, and requests on a disk and in a bucket."""
    sizes = QUICK_SIZES if quick else SIZES
    rows, warm = [], {}
    for age, word in ((RECENT, "an hour"), (OLD, "60 days")):
        for size in sizes:
            under_way(f"{size:,} updates, the newest begun {word} ago")
            updates = _history(size, age)
            base = scratch / f"{size}-{age.days}"
            _write_files(base, updates, age)
            warm[age, size] = _warm(LocalBlackboard(base), updates)
            rows.append(
                Row(
                    f"{size:,} updates",
                    f"newest begun {word} ago",
                    {
                        "same_process_seconds": warm[age, size],
                        "new_process_seconds": _in_new_processes(base, 1 if quick else FRESH_PROCESSES),
                        "requests_on_disk": _requests(LocalBlackboard(base), updates),
                        "requests_to_S3": _requests_to_s3(updates),
                    },
                )
            )
    small, *_, large = sizes
    comparisons = [
        Comparison(
            f"requests to S3 for {large:,} updates, as a multiple of those for {small:,}",
            int(rows[len(sizes) - 1].values["requests_to_S3"]) / int(rows[0].values["requests_to_S3"]),
            "1",
            rows[len(sizes) - 1].values["requests_to_S3"] == rows[0].values["requests_to_S3"],
        ),
        Comparison(
            f"seconds on a disk for {large:,} updates, as a multiple of those for {small:,}",
            warm[RECENT, large] / warm[RECENT, small],
            f"flat: <= {FLAT:g}",
            warm[RECENT, large] / warm[RECENT, small] <= FLAT,
        ),
    ]
    notes = [
        "One update an hour, each of one file. Seconds are medians; files are in the system's cache.",
        "S3 is moto, whose listing looks at every key of the bucket: its requests count, its seconds say nothing.",
    ]
    return Report("latest", "finding the latest update of a partition", rows, comparisons, notes)


def _history(size: int, age: timedelta) -> list[str]:
    """The names of so many updates, one an hour, oldest first; the newest is this old."""
    return [update_name(NOW - age - timedelta(hours=back)) for back in range(size - 1, -1, -1)]


def _objects(updates: list[str]) -> dict[str, bytes]:
    prefix = f"{LOCATION}/{PARTITION}"
    return {
        f"{prefix}/{update}/{name}": content
        for update in updates
        for name, content in (("part-0.parquet", b"x"), ("_SUCCESS", b"1"))
    }


def _write_files(base: Path, updates: list[str], age: timedelta) -> None:
    for key, content in _objects(updates).items():
        path = base / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    # A directory that changed this very second is not remembered; here the last change was as long ago as it says.
    changed = (datetime.now(UTC) - age).timestamp()
    os.utime(base / LOCATION / PARTITION, (changed, changed))


def _ask(board: Blackboard, updates: list[str]) -> None:
    found = latest(Feed(board, LOCATION), PARTITION, now=NOW)
    if found is None or found.name != updates[-1]:
        message = f"The latest update is {updates[-1]}, and {found} was found."
        raise AssertionError(message)


def _warm(board: Blackboard, updates: list[str]) -> float:
    _ask(board, updates)
    return median(timed(lambda: _ask(board, updates)) for _ in range(REPEATS))


def _in_new_processes(base: Path, times: int) -> float:
    """The first question of a process, without its start and its imports."""
    command = [sys.executable, "-c", FRESH, str(base), LOCATION, PARTITION, NOW.isoformat()]
    return median(
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(times)
    )


def _requests(board: Blackboard, updates: list[str]) -> int:
    recording = RecordingBlackboard(board)
    _ask(recording, updates)
    return len(recording.requests)


def _requests_to_s3(updates: list[str]) -> int:
    with mock_aws():
        client: Any = boto3.client(
            "s3", region_name="us-east-1", aws_access_key_id="testing", aws_secret_access_key="testing"
        )
        client.create_bucket(Bucket=BUCKET)
        # Put there directly: over HTTP, a long history takes minutes.
        (store,) = (account["aws"] for account in s3_backends.values())
        for key, content in _objects(updates).items():
            store.put_object(BUCKET, key, content)
        return _requests(S3Blackboard(client, BUCKET, ""), updates)
