"""The records in quarantine: where, why, how many, with an example; or one by one, each with its request.

Here: reading them with DuckDB, from storage alone. Not here: writing them (`sources.landing`, `steps.quarantining`),
and from which request a record came (`record_origins`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TypeAlias

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
from feed_assets.operations.record_origins import Origins
from feed_assets.receiving.receipts import SEGMENT_FILE, Followed
from feed_assets.receiving.rejections import kind_of, read_line, unmarked
from feed_assets.receiving.resubmission import Place, batches
from feed_assets.sources.layout import quarantine_key
from feed_assets.sources.ledger import counting, entries
from feed_assets.sources.reasons import MALFORMED, with_columns
from feed_assets.sources.spec import Source

LANDING = "landing"

_Counted: TypeAlias = tuple[str, str, int, str, int | None, str]
_Read: TypeAlias = Callable[[Sequence[str]], list[_Counted]]

_RECORDS = f"""
    SELECT coalesce(source, '') AS source, coalesce(file, '') AS file, line, coalesce(record, '') AS record,
           CASE WHEN reason = '{MALFORMED}' AND record LIKE '["%' AND json_valid(record)
                     AND regexp_full_match(file, '{SEGMENT_FILE}')
                THEN json_extract_string(record, '$[0]') ELSE reason END AS reason
    FROM read_json($files, format = 'newline_delimited', hive_partitioning = false,
        maximum_object_size = 268435456, columns = {{
        source: 'VARCHAR', file: 'VARCHAR', line: 'BIGINT', reason: 'VARCHAR', record: 'VARCHAR'}})
"""  # noqa: S608 - of constants
"""The reason for which the receiver rejected a record is in its line: see `receiving.rejections`."""
_BY_REASON = f"""
    SELECT source, reason, count(*) AS records, first(file ORDER BY file, line) AS file,
           first(line ORDER BY file, line) AS line, first(record ORDER BY file, line) AS record
    FROM ({_RECORDS}) GROUP BY ALL ORDER BY records DESC, source, reason
"""  # noqa: S608 - as above
_ONE_BY_ONE = f"""
    SELECT source, reason, 1, file, line, record FROM ({_RECORDS})
    WHERE $wanted IS NULL OR list_contains($wanted, file)
    ORDER BY source, file, line
"""  # noqa: S608 - as above


@dataclass(frozen=True, slots=True)
class SetAside:
    """The number of records with one reason in one quarantine, and the first record as an example.

    If the cleaning of a feed wrote them, `where` is the feed's location, and `state` is the update's state, such as
    `valid` or `rejected`. If landing wrote them, `where` is `landing/<kind>/<name>`; these records have no usable time,
    so they belong to no partition. `file` and `line` locate the example in the partner's file; of a pushed record,
    `request_id`, `partner` and `index` say which record of which request it is. Reasons of records that the receiver
    rejected are without what differs from record to record.
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
    request_id: str | None = None
    partner: str | None = None
    index: int | None = None


@dataclass(frozen=True, slots=True)
class BadRecord:
    """One record in quarantine; the fields are as those of `SetAside`.

    `source` is the key of its source, or its name if nobody knows the kind. `record` is as the partner sent it, or in
    the quarantine of a feed its fields as a JSON object. A `resubmitted` record was corrected, and landed again.
    """

    where: str
    partition: str | None
    update: str | None
    state: str
    source: str
    file: str
    line: int | None
    request_id: str | None
    partner: str | None
    index: int | None
    resubmitted: bool
    reason: str
    record: str


class Quarantines:
    """The present quarantine of a blackboard: first the records from cleaning, by feed and partition, then landing's.

    `keys` has the keys of the sources that a feed reads, by the feed's location. `unreadable` is called with each
    update, and each file of a landing, that cannot be read; the others are read. Reasons of `sources` name columns.
    """

    def __init__(
        self,
        blackboard: Blackboard,
        *,
        now: datetime,
        unreadable: Callable[[FeedError], None],
        keys: Mapping[str, Collection[str]] = MappingProxyType({}),
        sources: Iterable[Source] = (),
    ) -> None:
        self._blackboard, self._now, self._unreadable, self._keys = blackboard, now, unreadable, keys
        self._origins = Origins(blackboard)
        self._described = {source.key: source for source in sources}

    def of_request(
        self, found: Followed, *, partition: str | None = None, where: str | None = None
    ) -> Iterator[BadRecord]:
        """The records of a pushed request, and the corrected ones that are in quarantine again."""
        own = {Place(found.file, found.receipt.first_line + index) for index in range(found.receipt.records)}
        files = {found.file}
        for file, batch in batches(self._blackboard, found.source):
            corrected = {Place(file, number) for number, place in enumerate(batch.places, start=1) if place in own}
            own |= corrected
            files |= {file} if corrected else set()
        for each in self.records(partition=partition, where=where, of=files):
            if each.request_id == found.receipt.request_id:
                yield each

    def by_reason(self, *, partition: str | None = None, where: str | None = None) -> Iterator[SetAside]:
        """The records by reason. With `partition`, only of that partition.

        With `where`, only of that feed's location, of locations below it, or of `landing`.
        """
        for place, found in self._each(partition, where, _by_reason):
            yield from self._counted(place, found)

    def records(
        self, *, partition: str | None = None, where: str | None = None, of: Collection[str] | None = None
    ) -> Iterator[BadRecord]:
        """The records one by one, as `by_reason`; with `of`, only those of landed files with these names."""
        for place, found in self._each(partition, where, partial(_one_by_one, of=of)):
            for name, reason, _, file, line, record in found:
                sources = self._sources(place.where, name)
                origin = self._origins.of(sources, file, line)
                source = origin.source if origin else sources[0] if len(sources) == 1 else name
                known = read_line(record) if origin else None
                yield BadRecord(
                    place.where,
                    place.partition,
                    place.update,
                    place.state,
                    source,
                    file,
                    line,
                    origin.request_id if origin else None,
                    origin.partner if origin else None,
                    origin.index if origin else None,
                    "/" in source and self._origins.is_resubmitted(source, file, line),
                    self._reason(place, reason),
                    known[1] if known else unmarked(record),
                )

    def _each(self, partition: str | None, where: str | None, read: _Read) -> Iterator[tuple[_Place, list[_Counted]]]:
        for location in feed_locations(self._blackboard, below=FOLDER, leave_out={LANDING}):
            name = location.removeprefix(f"{FOLDER}/")
            if where is not None and not f"{name}/".startswith(f"{where.strip('/')}/"):
                continue
            for state, update in _updates(Feed(self._blackboard, location), partition, self._now):
                try:
                    with local_files(update) as files:
                        yield _Place(name, update.partition, update.name, state), read(files)
                except FeedError as error:
                    self._unreadable(error)
        if partition is None:
            yield from _of_landings(self._blackboard, where, self._unreadable, read)

    def _counted(self, place: _Place, found: list[_Counted]) -> list[SetAside]:
        """The groups, with those joined whose reasons are of one kind; the most frequent reason comes first."""
        joined: dict[tuple[str, str], SetAside] = {}
        for name, reason, records, file, line, record in found:
            sources = self._sources(place.where, name)
            key = name, self._reason(place, kind_of(reason))
            if (other := joined.get(key)) is not None:
                joined[key] = replace(other, records=other.records + records)
                continue
            origin = self._origins.of(sources, file, line)
            known = read_line(record) if re.fullmatch(SEGMENT_FILE, file) else None
            joined[key] = SetAside(
                place.where,
                place.partition,
                place.update,
                place.state,
                name if place.update else sources[0],
                key[1],
                records,
                file,
                line,
                known[1] if known else unmarked(record),
                origin.request_id if origin else None,
                origin.partner if origin else None,
                origin.index if origin else None,
            )
        return sorted(joined.values(), key=lambda each: (-each.records, each.source, each.reason))

    def _reason(self, place: _Place, reason: str) -> str:
        source = self._described.get(place.where.removeprefix(f"{LANDING}/"))
        return with_columns(reason, source) if source else reason

    def _sources(self, where: str, name: str) -> list[str]:
        """The keys of the sources that a record may be of."""
        if where.startswith(f"{LANDING}/"):
            return [where.removeprefix(f"{LANDING}/")]
        return sorted(key for key in self._keys.get(where, ()) if key.partition("/")[2] == name)


@dataclass(frozen=True, slots=True)
class _Place:
    where: str
    partition: str | None
    update: str | None
    state: str


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


def _of_landings(
    blackboard: Blackboard, where: str | None, unreadable: Callable[[FeedError], None], read: _Read
) -> Iterator[tuple[_Place, list[_Counted]]]:
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
            yield _Place(f"{LANDING}/{source}", None, None, ""), _of_sound(uris, unreadable, read)


def _of_sound(uris: Mapping[Path, str], unreadable: Callable[[FeedError], None], read: _Read) -> list[_Counted]:
    """What `read` finds in all files that DuckDB can read; the others are reported and left out."""
    try:
        return read([str(path) for path in uris])
    except duckdb.Error:
        sound = []
        for path, uri in uris.items():
            try:
                read([str(path)])
            except duckdb.Error as error:
                reason = with_uris(first_line(error), uris)
                unreadable(FeedError(f"{uri} cannot be read: {reason} Restore it, or remove it."))
            else:
                sound.append(str(path))
        return read(sound)


def _by_reason(files: Sequence[str]) -> list[_Counted]:
    """Source, reason, count, and file, line and text of the first record. The most frequent reason comes first."""
    return _queried(_BY_REASON, files, {})


def _one_by_one(files: Sequence[str], *, of: Collection[str] | None) -> list[_Counted]:
    """The same of each record alone."""
    return _queried(_ONE_BY_ONE, files, {"wanted": None if of is None else sorted(of)})


def _queried(query: str, files: Sequence[str], values: Mapping[str, object]) -> list[_Counted]:
    if not files:
        return []
    with duckdb.connect() as connection:
        return connection.execute(query, {"files": list(files), **values}).fetchall()
