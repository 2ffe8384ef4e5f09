"""The records in quarantine: where, why, how many, with an example.

Here: counting them with DuckDB, from storage alone. Not here: writing them (`sources.landing`, `steps.quarantining`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import Blackboard
from feed_assets.engine.fetched_files import fetch, with_uris
from feed_assets.engine.queried_files import local_files
from feed_assets.file_feed.control import read_record, recorded_digests
from feed_assets.file_feed.discovery import feed_locations
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.names import begun
from feed_assets.file_feed.quarantine import FOLDER
from feed_assets.file_feed.reading import latest
from feed_assets.file_feed.scanning import latest_of_all
from feed_assets.file_feed.wording import first_line
from feed_assets.sources.layout import quarantine_key
from feed_assets.sources.ledger import counting, entries

LANDING = "landing"

_Counted = tuple[str, str, int, str, int | None, str]

_BY_REASON = """
    SELECT coalesce(source, '') AS source, reason, count(*) AS records,
           coalesce(first(file ORDER BY file, line), '') AS file, first(line ORDER BY file, line) AS line,
           coalesce(first(record ORDER BY file, line), '') AS record
    FROM read_json($files, format = 'newline_delimited', hive_partitioning = false,
        maximum_object_size = 268435456, columns = {
        source: 'VARCHAR', file: 'VARCHAR', line: 'BIGINT', reason: 'VARCHAR', record: 'VARCHAR'})
    GROUP BY ALL ORDER BY records DESC, source, reason
"""


@dataclass(frozen=True, slots=True)
class SetAside:
    """The number of records with one reason in one quarantine, and the first record as an example.

    If the cleaning of a feed wrote them, `where` is the feed's location, and `state` is the update's state, such as
    `valid` or `rejected`. If landing wrote them, `where` is `landing/<kind>/<name>`; these records have no usable time,
    so they belong to no partition. `file` and `line` locate the example in the partner's file.
    """

    where: str
    partition: str | None
    update: str | None
    state: str
    source: str
    reason: str
    records: int
    file: str
    line: int | None
    example: str


def set_aside(
    blackboard: Blackboard,
    *,
    now: datetime,
    partition: str | None = None,
    where: str | None = None,
    unreadable: Callable[[FeedError], None],
) -> Iterator[SetAside]:
    """The present quarantine: first the records from cleaning, by feed and partition, then those from landing.

    With `partition`, only records of that partition. With `where`, only of that feed's location, of locations below it,
    or of `landing`. Calls `unreadable` for each update, and each file of a landing, that cannot be read, and goes on.
    """
    for location in feed_locations(blackboard, below=FOLDER, leave_out={LANDING}):
        name = location.removeprefix(f"{FOLDER}/")
        if where is not None and not f"{name}/".startswith(f"{where.strip('/')}/"):
            continue
        for state, update in _updates(Feed(blackboard, location), partition, now):
            try:
                yield from _of_update(name, state, update)
            except FeedError as error:
                unreadable(error)
    if partition is None:
        yield from _of_landings(blackboard, where, unreadable)


def _updates(feed: Feed, partition: str | None, now: datetime) -> Iterator[tuple[str, Update]]:
    """For each partition, the quarantine of the update in force, and a newer quarantine of a rejected or staged update.

    An update's quarantine is published and invalidated after the update. A run can stop in between, and users
    invalidate updates by hand. So the update in force decides which quarantine counts.
    """
    of = Feed(feed.blackboard, feed.location.removeprefix(f"{FOLDER}/"))
    first, last = partition or "", partition
    read = latest_of_all(of, now=now, first=first, last=last)
    kept = latest_of_all(feed, now=now, first=first, last=last)
    in_force = {
        day: named
        for day, update in read.items()
        if (named := _named(feed, day, update.name, kept.get(day))) is not None
    }
    recorded = recorded_digests(feed, first=first, last=last)
    for day in sorted(in_force.keys() | recorded.keys()):
        update = in_force.get(day)
        if update is not None:
            yield "valid", update
        newest = max(recorded.get(day, {}), default="")
        record = read_record(feed, day or None, newest) if newest > (update.name if update else "") else None
        if record is not None:
            # Retention may have removed the files.
            prefix = feed.update_prefix(record.partition, record.update)
            existing = {entry.key.removeprefix(prefix) for entry in list_all(feed.blackboard, prefix)}
            files = tuple(file for file in record.files if file.path in existing)
            yield record.state, Update(feed, record.partition, record.update, files)


def _named(feed: Feed, day: str, name: str, newest: Update | None) -> Update | None:
    """The valid quarantine of this name, or None. `newest` is the newest valid quarantine."""
    if newest is None or newest.name <= name:
        return newest if newest is not None and newest.name == name else None
    found = latest(feed, day or None, now=begun(name), as_of=begun(name))
    return found if found is not None and found.name == name else None


def _of_update(name: str, state: str, update: Update) -> Iterator[SetAside]:
    with local_files(update) as files:
        for counted in _by_reason(files):
            yield SetAside(name, update.partition, update.name, state, *counted)


def _of_landings(
    blackboard: Blackboard, where: str | None, unreadable: Callable[[FeedError], None]
) -> Iterator[SetAside]:
    prefix = f"{FOLDER}/{LANDING}/"
    files: dict[str, list[str]] = {}
    for entry in list_all(blackboard, prefix):
        source = entry.key.removeprefix(prefix).rpartition("/")[0]
        if where is None or f"{LANDING}/{source}/".startswith(f"{where.strip('/')}/"):
            files.setdefault(source, []).append(entry.key)
    for source, keys in sorted(files.items()):
        # A killed or superseded landing may have left its quarantine behind.
        counts = {quarantine_key(source, landing) for landing in counting(entries(blackboard, source))}
        with TemporaryDirectory() as folder:
            uris = fetch(blackboard, dict.fromkeys(key for key in keys if key in counts), Path(folder) / "files")
            for counted in _of_sound(uris, unreadable):
                yield SetAside(f"{LANDING}/{source}", None, None, "", source, *counted[1:])


def _of_sound(uris: Mapping[Path, str], unreadable: Callable[[FeedError], None]) -> list[_Counted]:
    """`_by_reason` of all files that DuckDB can read; the others are reported and left out."""
    try:
        return _by_reason([str(path) for path in uris])
    except duckdb.Error:
        sound = []
        for path, uri in uris.items():
            try:
                _by_reason([str(path)])
            except duckdb.Error as error:
                reason = with_uris(first_line(error), uris)
                unreadable(FeedError(f"{uri} cannot be read: {reason} Restore it, or remove it."))
            else:
                sound.append(str(path))
        return _by_reason(sound)


def _by_reason(files: Sequence[str]) -> list[_Counted]:
    """Source, reason, count, and file, line and text of the first record. The most frequent reason comes first."""
    if not files:
        return []
    with duckdb.connect() as connection:
        return connection.execute(_BY_REASON, {"files": list(files)}).fetchall()
