"""Where the records of a pushed request are: received, landed in which raw files, and read by which updates in force.

Here: following a request from its id, from storage alone. Not here: the receipts that lead from the id to the records
(`receiving.receipts`), and printing (`cli.receive`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from feed_assets.blackboard.port import Blackboard
from feed_assets.engine.fetched_files import fetch
from feed_assets.file_feed.read_sets import in_full
from feed_assets.file_feed.reading import latest
from feed_assets.file_feed.record import RawInput
from feed_assets.late_data.inputs_read import inputs_read
from feed_assets.operations.quarantined import BadRecord, Quarantines
from feed_assets.receiving.receipts import Followed
from feed_assets.receiving.resubmission import Place, batches
from feed_assets.sources.layout import content_digest
from feed_assets.sources.ledger import Landing, newest_landing
from feed_assets.starts.graph import FeedGraph

_COUNT = """
    SELECT filename, count(*) FROM read_parquet($files, filename = true, union_by_name = true)
    WHERE _file = $file AND list_contains($lines, _line) GROUP BY filename
"""


@dataclass(frozen=True, slots=True)
class Reader:
    """A partition of a feed, and its update in force, if that has read a raw file."""

    feed: str
    partition: str
    update: str | None


@dataclass(frozen=True, slots=True)
class InRaw:
    """Records of a request in a raw file, with the feeds that read it. `resubmitted` records were corrected first."""

    day: str
    key: str
    records: int
    resubmitted: bool
    readers: tuple[Reader, ...]


@dataclass(frozen=True, slots=True)
class PushedRequest:
    """A request whose records have landed, and where they are.

    `rejected` are the records that the answer rejected, each with its index and the reason.
    """

    request_id: str
    partner: str
    source: str
    received: datetime
    accepted: int
    rejected: tuple[tuple[int, str], ...]
    file: str
    first_line: int
    landed: datetime | None
    raw: tuple[InRaw, ...]
    quarantined: tuple[BadRecord, ...]

    @property
    def elsewhere(self) -> int:
        """How many accepted records are neither in a raw file nor in quarantine: the source's filter left them out."""
        landed = sum(each.records for each in self.raw if not each.resubmitted)
        rejected = {index for index, _ in self.rejected}
        own = (each for each in self.quarantined if each.partition is None and each.file == self.file)
        not_landed = {each.index for each in own} - rejected
        return max(0, self.accepted - landed - len(not_landed))


def follow(
    board: Blackboard, graph: FeedGraph, quarantines: Quarantines, found: Followed, *, now: datetime
) -> PushedRequest:
    """The story of a request. Reads the line numbers of its file's raw files, and the records of updates in force."""
    receipt = found.receipt
    lines = range(receipt.first_line, receipt.first_line + receipt.records)
    landing = newest_landing(board, found.source, found.landing)
    raw: list[InRaw] = []
    if landing is not None:
        raw += _in_raw(board, graph, landing, found.file, lines, now, resubmitted=False)
    own = {Place(found.file, line) for line in lines}
    for file, batch in batches(board, found.source):
        corrected = [number for number, place in enumerate(batch.places, start=1) if place in own]
        own |= {Place(file, number) for number in corrected}
        if corrected:
            raw += _of_batch(
                board, graph, found.source, file, content_digest(found.source, batch.sha256), corrected, now
            )
    return PushedRequest(
        receipt.request_id,
        receipt.partner,
        found.source,
        receipt.at,
        receipt.accepted,
        receipt.rejected,
        found.file,
        receipt.first_line,
        landing.landed_at if landing else None,
        tuple(raw),
        tuple(quarantines.of_request(found)),
    )


def _of_batch(
    board: Blackboard,
    graph: FeedGraph,
    source: str,
    file: str,
    digest: str,
    lines: Sequence[int],
    now: datetime,
) -> Iterator[InRaw]:
    landing = newest_landing(board, source, digest)
    if landing is not None:
        yield from _in_raw(board, graph, landing, file, lines, now, resubmitted=True)


def _in_raw(
    board: Blackboard,
    graph: FeedGraph,
    landing: Landing,
    file: str,
    lines: Iterable[int],
    now: datetime,
    *,
    resubmitted: bool,
) -> Iterator[InRaw]:
    """The raw files of a landing that have some of these lines."""
    keys = {key: hour for hour, key in landing.raw_keys.items()}
    if not keys:
        return
    with TemporaryDirectory() as folder, duckdb.connect() as connection:
        paths = fetch(board, dict.fromkeys(keys), Path(folder) / "files")
        by_path = dict(zip(map(str, paths), keys, strict=True))
        values = {"files": list(by_path), "file": file, "lines": list(lines)}
        counts = {by_path[name]: count for name, count in connection.execute(_COUNT, values).fetchall()}
    for key, count in sorted(counts.items()):
        day = keys[key][:10]
        yield InRaw(day, key, count, resubmitted, tuple(_readers(board, graph, landing.source, day, key, now)))


def _readers(board: Blackboard, graph: FeedGraph, source: str, day: str, key: str, now: datetime) -> Iterator[Reader]:
    """The feeds that read the raw data of a day, each with the update in force if that has read the file.

    A day has one line for each feed, or one for each partition of it whose update has read the file.
    """
    date_ = datetime.fromisoformat(day).date()
    path = key.partition(f"{source}/{day}/")[2]
    for node in graph.feeds.values():
        if not node.made_here or source not in node.raw_sources:
            continue
        feed, partitions = node.declaration.on(board), graph.of_day(node.location, date_)
        found: list[Reader] = []
        for partition in partitions:
            update = latest(feed, partition, now=now)
            known = inputs_read(feed, partition, update.name) if update else None
            inputs = known.inputs if known else ()
            own = [
                each for each in inputs if isinstance(each, RawInput) and (each.source, each.partition) == (source, day)
            ]
            if update and any(
                path == file.path for each in own for file in in_full(feed, partition, update.name, each).files
            ):
                found.append(Reader(node.location, partition, update.name))
        yield from found or [Reader(node.location, day, None)]
