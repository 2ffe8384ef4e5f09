"""The records that were set aside: where, why, how many, and one to look at.

Here: counting them with DuckDB, from storage alone. Not here: setting them aside (`sources.landing`, `io_manager`), and
printing (`cli`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from feed_assets.blackboard import Blackboard, list_all
from feed_assets.file_feed import Feed, FeedError, Update, begun, latest, latest_of_all, read_record, recorded_digests
from feed_assets.file_feed.discovery import feed_locations
from feed_assets.file_feed.quarantine import FOLDER
from feed_assets.operations.effectiveness_report import local_files, readable
from feed_assets.sources.layout import quarantine_key
from feed_assets.sources.ledger import counting, entries

LANDING = "landing"

_Counted = tuple[str, str, int, str | None, int | None, str | None]

_BY_REASON = """
    SELECT coalesce(source, '') AS source, reason, count(*) AS records, first(file ORDER BY file, line) AS file,
           first(line ORDER BY file, line) AS line, first(record ORDER BY file, line) AS record
    FROM read_json($files, format = 'newline_delimited', maximum_object_size = 268435456, columns = {
        source: 'VARCHAR', file: 'VARCHAR', line: 'BIGINT', reason: 'VARCHAR', record: 'VARCHAR'})
    GROUP BY ALL ORDER BY records DESC, source, reason
"""


@dataclass(frozen=True, slots=True)
class SetAside:
    """Records of one reason that were set aside together, and the first of them.

    By a feed's cleaning: `where` is the feed's location, with the partition, the update and its state (`valid`: in
    force; `rejected`: set aside by an update that was rejected). By landing: `where` is
    `landing/<kind>/<name>`; such records have no usable time, so they belong to no partition. `file` and `line` are
    where the example stood in what the partner sent.
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
    """All that is in quarantine now: first what cleaning set aside by feed and partition, then what landing did.

    `partition` leaves the others and landing out; `where` is a feed's location, or the start of it, or `landing`.
    `unreadable` is called with each update, and each file of a landing, that cannot be read; the others still come.
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
    """Of each partition the quarantine of the update in force, and a newer one, whose update was rejected or waits.

    The quarantine of an update is published and invalidated after it. A run may stop in between, and people invalidate
    updates by hand: so the update that is in force says which quarantine is.
    """
    of = Feed(feed.blackboard, feed.location.removeprefix(f"{FOLDER}/"))
    read = latest_of_all(of, now=now, first=partition or "", last=partition)
    kept = latest_of_all(feed, now=now, first=partition or "", last=partition)
    in_force = {
        day: named
        for day, update in read.items()
        if (named := _named(feed, day, update.name, kept.get(day))) is not None
    }
    recorded = recorded_digests(feed, first=partition or "", last=partition)
    for day in sorted(in_force.keys() | recorded.keys()):
        update = in_force.get(day)
        if update is not None:
            yield "valid", update
        newest = max(recorded.get(day, {}), default="")
        record = read_record(feed, day or None, newest) if newest > (update.name if update else "") else None
        if record is not None:
            # Retention may have removed the files of what nobody reads.
            prefix = feed.update_prefix(record.partition, record.update)
            there = {entry.key.removeprefix(prefix) for entry in list_all(feed.blackboard, prefix)}
            files = tuple(file for file in record.files if file.path in there)
            yield record.state, Update(feed, record.partition, record.update, files)


def _named(feed: Feed, day: str, name: str, newest: Update | None) -> Update | None:
    """The valid quarantine of this name, where there is one; `newest` is the newest valid one."""
    if newest is None or newest.name <= name:
        return newest if newest is not None and newest.name == name else None
    found = latest(feed, day or None, now=begun(name), as_of=begun(name))
    return found if found is not None and found.name == name else None


def _of_update(name: str, state: str, update: Update) -> Iterator[SetAside]:
    with readable(update), ExitStack() as stack:
        for source, reason, count, file, line, record in _by_reason(local_files(update, stack)):
            yield SetAside(
                name, update.partition, update.name, state, source, reason, count, file or "", line, record or ""
            )


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
        # A landing that was killed, or superseded by another one, may have left its quarantine.
        counts = {quarantine_key(source, landing) for landing in counting(entries(blackboard, source))}
        with ExitStack() as stack:
            copies = _copies(blackboard, [key for key in keys if key in counts], stack)
            for _, reason, records, file, line, record in _of_sound(blackboard, copies, unreadable):
                yield SetAside(
                    f"{LANDING}/{source}", None, None, "", source, reason, records, file or "", line, record or ""
                )


def _copies(blackboard: Blackboard, keys: Sequence[str], stack: ExitStack) -> dict[str, str]:
    """Key -> path of a copy."""
    folder = Path(stack.enter_context(TemporaryDirectory()))
    copies = {}
    for number, key in enumerate(keys):
        copy = folder / f"{number}.json"
        copy.write_bytes(blackboard.read(key).data)
        copies[key] = str(copy)
    return copies


def _of_sound(
    blackboard: Blackboard, copies: Mapping[str, str], unreadable: Callable[[FeedError], None]
) -> list[_Counted]:
    """`_by_reason` of all files; where DuckDB refuses some of them, each of these is reported and left out."""
    try:
        return _by_reason(list(copies.values()))
    except duckdb.Error:
        sound = []
        for key, copy in copies.items():
            try:
                _by_reason([copy])
            except duckdb.Error as error:
                uri = blackboard.uri(key)
                reason = str(error).partition("\n")[0].replace(copy, uri)
                unreadable(FeedError(f"{uri} cannot be read: {reason} Restore it, or remove it to leave it out."))
            else:
                sound.append(copy)
        return _by_reason(sound)


def _by_reason(files: Sequence[str]) -> list[_Counted]:
    """Source, reason, records, file, line and record of the first, the most frequent reason first."""
    if not files:
        return []
    with duckdb.connect() as connection:
        return connection.execute(_BY_REASON, {"files": list(files)}).fetchall()
