"""A partner who is polled, and landing without Spark: for tests of polls, and for killing them.

Here: a source, files, and the real landing, of which only Spark's part is replaced: it divides a file by hour. Not
here: any expectation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import yaml

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.port import Blackboard, Entry
from feed_assets.polling.poller import Poller
from feed_assets.polling.port import Place
from feed_assets.polling.taken import BlackboardIndex, TakenIndex
from feed_assets.sources import landing, staging
from feed_assets.sources.layout import (
    attempt_prefix,
    attempted_prefix,
    landed_path,
    raw_file_key,
    sent_key,
)
from feed_assets.sources.ledger import Landing
from feed_assets.sources.loading import load_source
from feed_assets.sources.placing import StagedRecords
from feed_assets.sources.plan import Plan
from feed_assets.sources.raw import raw_days
from feed_assets.sources.spec import Source
from feed_assets_tests.harness import SHOP_ADS

TODAY = datetime(2019, 12, 1, 12, tzinfo=UTC)
LONG_AGO = datetime(2019, 12, 1, tzinfo=UTC).timestamp()
HEADER = "id,time,ad,campaign,user,place,cost\n"
KEY = "ads/shop_ads"


def describe(path: Path, place: Path | str, pattern: str = "{yyyy}-{mm}-{dd}/*.csv", **more: Any) -> Source:
    """A source that is polled; `path` gets its description."""
    fields = {"place": str(place), "pattern": pattern, "every": "*/15 * * * *", "settle_seconds": 0, **more}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SHOP_ADS + yaml.safe_dump({"poll": fields}), encoding="utf-8")
    return load_source(path, KINDS)


def content(*ids: str, day: str = "2019-11-28") -> str:
    """A file with these impressions."""
    return HEADER + "".join(f"{name},{day} 12:00:00,a,c,u,top,0.5\n" for name in ids)


def send(directory: Path, name: str, *ids: str, day: str = "2019-11-28", time: float | None = LONG_AGO) -> Path:
    """Put a file with these impressions there as a partner who knows how: whole at once, in place of an earlier one."""
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = directory / f".{uuid4().hex}"
    fresh.write_text(content(*ids, day=day), encoding="utf-8")
    if time is not None:
        os.utime(fresh, (time, time))
    return fresh.rename(path)


def landed(board: Blackboard, source_key: str = KEY) -> list[str]:
    """The ids of the impressions that readers see, after a landing `without_spark`."""
    days = raw_days(board, [source_key], date.min, date.max)
    keys = [raw_file_key(source_key, each.partition, file.path) for each in days.values() for file in each.files]
    return sorted(line.split(",")[0] for key in keys for line in board.read(key).data.decode().splitlines())


@dataclass
class Watched:
    """A place that counts, and calls `before` before each of its operations."""

    place: Place
    before: Any = lambda *_: None
    downloads: list[str] = field(default_factory=list)

    def entries(self, folder: str) -> Any:
        self.before("entries", folder)
        return self.place.entries(folder)

    def look(self, files: Any) -> Any:
        return self.place.look(files)

    def download(self, file: Any, target: Path) -> None:
        self.before("download", file.name)
        self.downloads.append(file.name)
        self.place.download(file, target)
        self.before("downloaded", file.name)


def poller(board: Blackboard, index: TakenIndex | None = None, **more: Any) -> Poller:
    """A poller for sources whose landing is `without_spark`."""
    return Poller(board, index or BlackboardIndex(board), lander(board), lambda: TODAY, **more)


def lander(board: Blackboard) -> Any:
    def land(source: Source, files: Sequence[Path], seen: Mapping[str, int]) -> Iterator[Landing | Exception]:
        return landing.land_files(None, board, source, files, now=TODAY, seen=seen)  # type: ignore[arg-type]

    return land


@contextmanager
def without_spark() -> Iterator[None]:
    """Landing does all but Spark's part."""
    names = {"_session": lambda _: None, "check_expressions": lambda *_: None, "_check_columns": lambda *_: None}
    with patch.multiple(landing, stage=_stage, **names):
        yield


def _stage(_: Any, board: Blackboard, source: Source, due: Sequence[staging.Due], *, now: datetime) -> list[Plan]:
    attempt = attempt_prefix(source.key, uuid4().hex)
    return [_plan(board, source, each, attempted_prefix(attempt, each.landing), now) for each in due]


def _plan(board: Blackboard, source: Source, due: staging.Due, folder: str, now: datetime) -> Plan:
    sent = due.sent
    board.upload(f"{folder}sent", sent.path)
    hours: dict[str, list[str]] = {}
    for line in sent.path.read_text(encoding="utf-8").splitlines(keepends=True)[1:]:
        hours.setdefault(line.split(",")[1][:13].replace(" ", "/"), []).append(line)
    entries: Mapping[str, Entry] = {
        hour: board.create(f"{folder}{hour}", "".join(lines).encode()) for hour, lines in hours.items()
    }
    withdrawn = staging._withdrawn(StagedRecords(entries, {}), due.before)
    if withdrawn:
        board.create(f"{folder}nothing", b"")
    records = {hour: len(lines) for hour, lines in hours.items()}

    def raw_key(hour: str) -> str:
        return raw_file_key(source.key, hour[:10], landed_path(hour[11:], due.landing, records.get(hour, 0)))

    total = sum(records.values())
    return Plan(
        Landing(
            source=source.key,
            file=sent.name,
            sha256=sent.sha256,
            digest=due.landing.digest,
            generation=due.landing.generation,
            description=source.landing_digest,
            read=total,
            landed=total,
            filtered=0,
            malformed=0,
            quarantined={},
            quarantine_key=None,
            partitions=tuple(records),
            records=tuple(records.values()),
            withdrawn=withdrawn,
            days=tuple({hour[:10] for hour in records}),
        ),
        (
            *((f"{folder}{hour}", raw_key(hour)) for hour in hours),
            *((f"{folder}nothing", raw_key(hour)) for hour in withdrawn),
            (f"{folder}sent", sent_key(source.key, sent.digest(source.key))),
        ),
        folder,
    )
