"""A stream: its shards, what it stores, and what it gives back.

Here: storing records within the limits of shards, reading them, splits and merges, retention. Not here: the API's
requests and answers (see `operations`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from feed_assets_tests.delivery.judge.faults import MESSAGES, Live
from feed_assets_tests.delivery.judge.limits import READ_BYTES, SECOND, Settings
from feed_assets_tests.delivery.judge.log import (
    HEADER,
    RECORD,
    UNANSWERED,
    LogWriter,
    sequence_number,
    sequence_prefix,
)
from feed_assets_tests.delivery.judge.refusals import RefusedError
from feed_assets_tests.delivery.judge.shards import HASH_KEYS, OpenShards, Shard, uniform_starts

ACCOUNT: Final = "123456789012"
REGION: Final = "us-east-1"
_PREFIX_DIGITS = 24
_SHARD_DIGITS = 12


class Record(NamedTuple):
    """A record to be stored."""

    key: str
    key_bytes: bytes
    data: bytes
    hash_key: int


class Outcome(NamedTuple):
    """What became of the records of a request."""

    answers: list[str]
    """For each record, JSON."""
    failures: list[tuple[str, str]]
    """The code and message of each record that has an error."""
    stored: int
    unanswered: int
    """How many were stored, and are not acknowledged."""


class Event(NamedTuple):
    """What is done to the stream when it has stored so many records."""

    after_records: int
    operation: str
    parameters: dict[str, Any]


class Stream:
    """A stream. All times are nanoseconds since 1970 by the judge's clock."""

    def __init__(self, name: str, number: int, arn: str, now: int, log: LogWriter, settings: Settings) -> None:
        self.name = name
        self.number = number
        self.arn = arn
        self.status = "CREATING"
        self.created = now
        self.mode = "PROVISIONED"
        self.retention_hours = 24
        self.record_kib = 1024
        self.stored = 0
        self.shards: list[Shard] = []
        """In the order of their numbers, closed ones included."""
        self.open = OpenShards()
        self.events: list[Event] = []
        self._log = log
        self._settings = settings
        self._prefix = sequence_prefix(now // 1_000_000, number)
        self._answer = f'{{"SequenceNumber":"{self._prefix}'
        log.note(number, 0, now / SECOND, what="stream created", stream=name, prefix=self._prefix)

    def make_shards(self, count: int, now: int) -> None:
        """Open the first shards."""
        starts = uniform_starts(count)
        ends = [*(start - 1 for start in starts[1:]), HASH_KEYS - 1]
        self.open.replace((), [self._opened(start, end, (), now) for start, end in zip(starts, ends, strict=True)])

    def put(
        self, records: Sequence[Record], now: int, failing: list[Live], *, unanswered: bool, first: int = 0
    ) -> Outcome:
        """Store records, each on its own: one that fails stops no other.

        `unanswered` says that the connection is going to be cut, or the answer is an error; `first` is the position of
        the first record in its request.
        """
        settings, second = self._settings, now // SECOND
        most_records, most_bytes = settings.shard_records, settings.shard_bytes
        arrived, answer, pack = now / SECOND, self._answer, HEADER.pack
        answers: list[str] = []
        failures: list[tuple[str, str]] = []
        parts: list[bytes] = []
        tallies: dict[Shard, list[int]] = {}
        offset, hidden, of = self._log.end, 0, self.open.of
        for position, (key, key_bytes, data, hash_key) in enumerate(records, first):
            shard = of(hash_key)
            tally = tallies.get(shard)
            if tally is None:
                tally = tallies[shard] = shard.tally(second)
            error = next((live for live in failing if live.hits_record(position, key)), None) if failing else None
            if error is not None and error.rule.fault == "record_error_before":
                failures.append((error.rule.error, MESSAGES.get(error.rule.error, "")))
                answers.append(_failure(*failures[-1]))
                continue
            size = len(data) + len(key_bytes)
            if not shard.writes.admit(now, size, most_records, most_bytes):
                tally[2] += 1
                failures.append(("ProvisionedThroughputExceededException", self._exceeded(shard)))
                answers.append(_failure(*failures[-1]))
                continue
            tally[0] += 1
            tally[1] += size
            flags = UNANSWERED if unanswered or error is not None else 0
            hidden += flags
            parts += (
                pack(RECORD, flags, self.number, shard.index, len(data), len(key_bytes), arrived),
                key_bytes,
                data,
            )
            shard.offsets.append(offset)
            shard.sizes.append(size)
            if error is None:
                answers.append(f"{answer}{offset:020d}{shard.success}")
            else:
                failures.append((error.rule.error, MESSAGES.get(error.rule.error, "")))
                answers.append(_failure(*failures[-1]))
            offset += HEADER.size + size
        self._log.append(parts)
        stored = len(parts) // 3
        self.stored += stored
        return Outcome(answers, failures, stored, hidden)

    def shard(self, shard_id: str) -> Shard:
        """The shard with this id. Raises RefusedError."""
        for shard in self.shards:
            if shard.id == shard_id:
                return shard
        raise RefusedError(
            "ResourceNotFoundException",
            f"Could not find shard {shard_id} in stream {self.name} under account {ACCOUNT}.",
        )

    def listed(self, now: int) -> list[Shard]:
        """All shards except those that were closed longer ago than the retention."""
        horizon = self._horizon(now)
        return [shard for shard in self.shards if shard.closed_at is None or shard.closed_at >= horizon]

    def check_split(self, shard: Shard, start: int) -> None:
        """Raises RefusedError if the shard cannot be split there."""
        self._check_open(shard)
        if not shard.start + 1 < start < shard.end:
            raise RefusedError(
                "InvalidArgumentException",
                f"NewStartingHashKey {start} used in SplitShard() on shard {shard.id} in stream {self.name} under "
                f"account {ACCOUNT} is not both greater than one plus the shard's StartingHashKey {shard.start} and "
                f"less than the shard's EndingHashKey {shard.end}.",
            )

    def split(self, shard: Shard, start: int, now: int) -> None:
        """Close a shard, and open two: below `start`, and from there on."""
        self._close(shard, now)
        children = [
            self._opened(shard.start, start - 1, (shard,), now),
            self._opened(start, shard.end, (shard,), now),
        ]
        self.open.replace((shard,), children)

    def check_merge(self, shard: Shard, adjacent: Shard) -> None:
        """Raises RefusedError if the shards cannot be merged. AWS takes them in the order of their ranges only."""
        for each in (shard, adjacent):
            self._check_open(each)
        if not shard.is_before(adjacent):
            raise RefusedError(
                "InvalidArgumentException",
                f"Shards {shard.id} and {adjacent.id} in stream {self.name} under account {ACCOUNT} are not an "
                "adjacent pair of shards eligible for merging",
            )

    def merge(self, shard: Shard, adjacent: Shard, now: int) -> None:
        """Close two shards, and open one with the ranges of both."""
        self._close(shard, now)
        self._close(adjacent, now)
        self.open.replace((shard, adjacent), [self._opened(shard.start, adjacent.end, (shard, adjacent), now)])

    def resize(self, count: int, now: int) -> None:
        """Split and merge until there are so many equal shards. Short-lived shards are opened on the way."""
        starts = [self._near(start, count) for start in uniform_starts(count)]
        for start in starts:
            holder = self.open.of(start)
            if holder.start != start:
                self.split(holder, start, now)
        for start, after in zip(starts, [*starts[1:], HASH_KEYS], strict=True):
            while (shard := self.open.of(start)).end + 1 < after:
                self.merge(shard, self.open.of(shard.end + 1), now)

    def _near(self, start: int, count: int) -> int:
        """The begin of a shard that differs from this hash key by a remainder only, or the key itself."""
        near = (shard.start for shard in self.open.shards if abs(shard.start - start) <= count)
        return next(near, start)

    def offset(self, shard: Shard, sequence: str) -> int:
        """The offset in the log that a sequence number of this shard contains. Raises RefusedError."""
        tail = sequence[_PREFIX_DIGITS:]
        if sequence[:_PREFIX_DIGITS] != self._prefix or tail[-_SHARD_DIGITS:] != f"{shard.index:012d}":
            raise RefusedError(
                "InvalidArgumentException",
                f"StartingSequenceNumber {sequence} used in GetShardIterator on shard {shard.id} in stream "
                f"{self.name} under account {ACCOUNT} is invalid.",
            )
        return int(tail[:-_SHARD_DIGITS])

    def offset_at(self, shard: Shard, at: float) -> int:
        """The offset of the first record that arrived at this second or later."""
        index = bisect_left(shard.offsets, at, shard.first, key=self._log.arrival)
        return shard.offsets[index] if index < len(shard.offsets) else self._log.end

    def read(self, shard: Shard, start: int, limit: int, now: int) -> tuple[list[dict[str, Any]], int, int, int]:
        """Records from an offset on: the records in the form before JSON, their bytes, where to go on, and the
        milliseconds from there to now, 0 at the tip. Trimmed records are skipped, as AWS does, without a word.
        """
        self.trim_old(shard, now)
        index = max(bisect_left(shard.offsets, start), shard.first)
        records, total = [], 0
        while index < len(shard.offsets) and len(records) < limit:
            offset, size = shard.offsets[index], shard.sizes[index]
            if records and total + size > READ_BYTES:
                break
            arrived, key, data = self._log.read(offset, size)
            total += size
            index += 1
            records.append(
                {
                    "SequenceNumber": sequence_number(self._prefix, offset, shard.index),
                    "ApproximateArrivalTimestamp": round(arrived, 3),
                    "Data": data,
                    "PartitionKey": key.decode(),
                }
            )
        if index == len(shard.offsets):
            return records, total, max(start, self._log.end), 0
        behind = now / SECOND - self._log.arrival(shard.offsets[index])
        return records, total, shard.offsets[index], max(1, round(behind * 1000))

    def at_end(self, shard: Shard, offset: int) -> bool:
        """Whether there will never be anything from this offset on."""
        return shard.closed is not None and bisect_left(shard.offsets, offset) >= len(shard.offsets)

    def trim_old(self, shard: Shard, now: int) -> None:
        """Trim what is older than the retention."""
        horizon = self._horizon(now)
        while shard.first < len(shard.offsets) and self._log.arrival(shard.offsets[shard.first]) < horizon:
            shard.first += 1

    def _check_open(self, shard: Shard) -> None:
        if not shard.open:
            raise RefusedError(
                "InvalidArgumentException",
                f"Shard {shard.id} in stream {self.name} under account {ACCOUNT} has already been merged or split, "
                "and thus is not eligible for merging or splitting.",
            )

    def _horizon(self, now: int) -> float:
        return now / SECOND - self.retention_hours * 3600

    def _opened(self, start: int, end: int, parents: tuple[Shard, ...], now: int) -> Shard:
        index, at = len(self.shards), now / SECOND
        shard_id = f"shardId-{index:012d}"
        born = self._log.note(
            self.number,
            index,
            at,
            what="shard opened",
            stream=self.name,
            shard=shard_id,
            parents=[parent.id for parent in parents],
            range=[str(start), str(end)],
        )
        shard = Shard(self._prefix, index, start, end, parents, born)
        shard.opened_at = at
        self.shards.append(shard)
        for parent in parents:
            parent.children.append(shard)
        return shard

    def _close(self, shard: Shard, now: int) -> None:
        at = now / SECOND
        shard.closed_at = at
        shard.closed = self._log.note(
            self.number, shard.index, at, what="shard closed", stream=self.name, shard=shard.id
        )

    def _exceeded(self, shard: Shard) -> str:
        return f"Rate exceeded for shard {shard.id} in stream {self.name} under account {ACCOUNT}."


def _failure(code: str, message: str) -> str:
    return f'{{"ErrorCode":"{code}","ErrorMessage":"{message}"}}'


def in_use(stream: Stream) -> RefusedError:
    """The error of a stream that is not ACTIVE."""
    return RefusedError(
        "ResourceInUseException",
        f"Stream {stream.name} under account {ACCOUNT} not ACTIVE, instead in state {stream.status}",
    )
