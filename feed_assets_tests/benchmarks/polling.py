"""A poll that finds nothing new among many known files: its time, and its requests on both sides.

Here: a directory, and buckets on a real server, with either index. Not here: downloads and landing (`landings`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter
from unittest.mock import patch

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.location import open_blackboard
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import Blackboard
from feed_assets.polling.dynamodb import DynamoDBIndex
from feed_assets.polling.places import BoardPlace, list_files, polling_of
from feed_assets.polling.poller import Poller
from feed_assets.polling.taken import BlackboardIndex, TakenIndex
from feed_assets.sources.layout import LandingId, name_digest
from feed_assets.sources.ledger import Landing
from feed_assets.sources.spec import Source
from feed_assets_tests.benchmarks.results import Report, Row
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.polling.partners import KEY, describe
from feed_assets_tests.servers.dynalite import Dynalite
from feed_assets_tests.servers.versitygw import Versitygw

TODAY = datetime(2019, 12, 1, tzinfo=UTC)
FILES, FEW = 10_000, 200
DAYS = 8
"""The lookback of seven days, and today."""
TURNS = 5
TABLE = "polled"


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """Seconds and requests of polls of so many known files."""
    count = FEW if quick else FILES
    days = [TODAY.date() - timedelta(days=each) for each in range(DAYS)]
    files = {f"{days[number % DAYS]}/{number:05}.csv": b"x" for number in range(count)}
    source = describe(scratch / "shop_ads.yaml", scratch / "outbox")
    for name, data in files.items():
        path = scratch / "outbox" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    server = Versitygw(scratch / "data")
    dynalite = Dynalite(scratch / "dynalite")
    server.start()
    dynalite.start()
    try:
        with patch.dict("os.environ", server.environment):
            server.place("partner", files)
            bucket = open_blackboard("s3://partner")
            directory = LocalBlackboard(scratch / "outbox")
            local = LocalBlackboard(scratch / "base")
            _note(source, directory, BlackboardIndex(local))
            noted = MemoryBlackboard()
            _note(source, bucket, BlackboardIndex(noted))
            server.place("base", noted.objects())
            base = open_blackboard("s3://base")
            rows = [
                _row(count, "a directory; index on the same disk", source, directory, local, BlackboardIndex),
                _row(count, "a bucket; index in a bucket", source, bucket, base, BlackboardIndex),
            ]
            with patch.dict("os.environ", dynalite.environment):
                DynamoDBIndex(BlackboardIndex(base), TABLE).rebuild(KEY)
                rows.append(_row(count, "a bucket; index in dynalite", source, bucket, base, _table))
    finally:
        dynalite.kill()
        server.kill()
    notes = [
        f"{count:,} files in {DAYS} days; nothing is new, nothing is downloaded. Medians of {TURNS} turns.",
        "Requests: LISTs of the partner's place, a page each, and LISTs and reads on our blackboard.",
        "A query of DynamoDB returns up to 1 MB.",
    ]
    return Report("polling", "a poll of known files", rows, (), notes)


def _table(board: Blackboard) -> TakenIndex:
    return DynamoDBIndex(BlackboardIndex(board), TABLE)


def _note(source: Source, place: Blackboard, index: BlackboardIndex) -> None:
    for file in list_files(BoardPlace(place), polling_of(source), TODAY.date())[0]:
        index.record(KEY, file, LandingId(name_digest(KEY, file.name)), now=TODAY)


def _row(
    count: int,
    subject: str,
    source: Source,
    theirs: Blackboard,
    ours: Blackboard,
    index: Callable[[Blackboard], TakenIndex],
) -> Row:
    place, board = RecordingBlackboard(theirs), RecordingBlackboard(ours)
    poller = Poller(board, index(board), _never, lambda: TODAY)
    seconds = []
    for _ in range(TURNS):
        place.forget()
        board.forget()
        start = perf_counter()
        polled = poller.poll(source, BoardPlace(place))
        seconds.append(perf_counter() - start)
        if (polled.seen, polled.taken, polled.left) != (count, [], {}):
            raise AssertionError(polled)
    requests = {
        "requests_to_partner": sum(place.counts().values()),
        "requests_to_blackboard": sum(board.counts().values()),
    }
    return Row(f"{count:,} files", subject, {"median_seconds": median(seconds), **requests})


def _never(*_: object) -> Iterator[Landing | Exception]:
    raise AssertionError("There is nothing to land.")
