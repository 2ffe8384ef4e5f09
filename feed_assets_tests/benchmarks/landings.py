"""Landing large files in a bucket: throughput, memory, the driver's disk and the requests that copy.

Here: the command `land` in a process of its own, and a look at its processes and folders while it works. Not here:
what landing does to records.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch
from uuid import uuid4

import psutil

from feed_assets.ads.demo.logs import LOG
from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.location import open_blackboard
from feed_assets_tests.benchmarks.results import Report, Row
from feed_assets_tests.listening import family
from feed_assets_tests.servers.counting import counting
from feed_assets_tests.servers.versitygw import Versitygw

MB = 10**6
SIZES = (1_000 * MB, 10_000 * MB)
COUNTED, QUICK_COUNTED = 20 * MB, 4 * MB
"""The size of a file whose requests are counted: the proxy that counts holds each body in memory. Quick: only this, and
its hours are ten."""
SOURCE = "open_bandit_ads"
HOURS, QUICK_HOURS = 168, 10
TEN_HOURS = b",2019-11-24 1"
"""In each line of the log from 10 to 20 o'clock of its first day."""
A_LOOK = 0.5


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """Megabytes a second, peaks of memory and disk of files of several sizes; the requests of a small one."""
    size, part, span, hours = COUNTED, b"", "a week", HOURS
    if quick:
        size, part, span, hours = QUICK_COUNTED, TEN_HOURS, "ten hours", QUICK_HOURS
    server = Versitygw(scratch / "data")
    server.start()
    try:
        with counting(server.port) as (endpoint, sent):
            counted = _land(server, scratch, size, endpoint, part)
            requests = ", ".join(f"{count:,} {kind}" for kind, count in sorted(sent.items()))
        rows = [Row(f"{size // MB:,} MB", "land, through a proxy that counts", counted)]
        rows += [
            Row(f"{large // MB:,} MB", "land", _land(server, scratch, large, server.endpoint))
            for large in (() if quick else SIZES)
        ]
    finally:
        server.kill()
    notes = [
        f"A file of {size // MB} MB and {hours} hours takes these requests: {requests}. COPY is on the server.",
        f"Real logs of {span}, repeated to the size. Seconds and peaks are of the whole command, with its start.",
        "Memory is resident, of Python and of Java: driver and executors together on local[2].",
        "Disk: `temporary` is the driver's, `spark` the executors' shuffle. The server has the same disk.",
    ]
    return Report("landing", "one large file in a bucket", rows, (), notes)


def write_log(path: Path, size: int, part: bytes = b"") -> None:
    """A CSV file of at least this size: the header of the real log, then its lines with `part` again and again."""
    header, *all_lines = gzip.decompress(LOG.read_bytes()).splitlines(keepends=True)
    lines = b"".join(line for line in all_lines if part in line)
    with path.open("wb") as file:
        file.write(header)
        while file.tell() < size:
            file.write(lines)


def _land(server: Versitygw, scratch: Path, size: int, endpoint: str, part: bytes = b"") -> Mapping[str, float | int]:
    """What landing a file of `write_log` in a new bucket takes. Nothing of it stays."""
    name, file, home = f"landing-{uuid4().hex}", scratch / "log.csv", scratch / "home"
    temporary, spark = home / "temporary", home / "spark"
    for folder in (temporary, spark):
        folder.mkdir(parents=True)
    server.client().create_bucket(Bucket=name)
    write_log(file, size, part)
    environment = {
        **os.environ,
        **server.environment,
        "AWS_ENDPOINT_URL_S3": endpoint,
        "FEED_ASSETS_BASE": f"s3://{name}",
        "FEED_ASSETS_SPARK_MASTER": "local[2]",
        "DAGSTER_HOME": str(home),
        "TMPDIR": str(temporary),
        "SPARK_LOCAL_DIRS": str(spark),
    }
    command = [sys.executable, "-m", "feed_assets.cli", "land", SOURCE, str(file)]
    peaks: dict[str, int] = {}
    start = time.perf_counter()
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        while process.poll() is None:
            seen = {**_resident(process.pid), "temporary_MB": _below(temporary), "spark_MB": _below(spark)}
            peaks = {key: max(value, peaks.get(key, 0)) for key, value in {**peaks, **seen}.items()}
            time.sleep(A_LOOK)
    seconds = time.perf_counter() - start
    if process.returncode:
        raise AssertionError((home / "log").read_text(encoding="utf-8"))
    actual = file.stat().st_size
    with patch.dict(os.environ, server.environment):
        stored = sum(entry.size for entry in list_all(open_blackboard(f"s3://{name}"), "raw/ads/"))
    for folder in (home, server.data / name):
        # Java may still be removing its shuffle.
        shutil.rmtree(folder, ignore_errors=True)
    file.unlink()
    values = {key: value // MB if key.endswith("_MB") else value for key, value in sorted(peaks.items())}
    return {"seconds": seconds, "MB_per_second": actual / MB / seconds, **values, "raw_MB": stored // MB}


def _resident(process_id: int) -> dict[str, int]:
    """Bytes of memory that a process and its Java hold now."""
    found = {"python_MB": 0, "java_MB": 0}
    with suppress(psutil.NoSuchProcess):
        for each in family(process_id):
            with suppress(psutil.NoSuchProcess):
                found["java_MB" if each.name() == "java" else "python_MB"] += each.memory_info().rss
    return found


def _below(folder: Path) -> int:
    """Bytes of the files below a folder, in which files come and go."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.stat().st_size
    return total
