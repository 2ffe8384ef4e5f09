"""The operations of the Kinesis API on streams: requests in, answers out.

Here: parameters, the order of checks, errors. Not here: HTTP, signatures and faults (see `server`), records that are
put or read (see `putting`, `reading`).
What is missing is refused as unknown: enhanced fan-out (SubscribeToShard), encryption, tags, queues, channels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from feed_assets_tests.delivery.judge.faults import Live
from feed_assets_tests.delivery.judge.limits import (
    CALLS,
    READ_RECORDS,
    SECOND,
    UNLIMITED,
    Settings,
    SlidingSecond,
)
from feed_assets_tests.delivery.judge.log import LogWriter
from feed_assets_tests.delivery.judge.model import check
from feed_assets_tests.delivery.judge.putting import (
    PUT_RECORD,
    PUT_RECORDS,
    check_length,
    decoded,
    record_of,
    records_of,
    refuse_dry_run,
)
from feed_assets_tests.delivery.judge.reading import Reading, Tokens
from feed_assets_tests.delivery.judge.refusals import RefusedError
from feed_assets_tests.delivery.judge.shards import Shard
from feed_assets_tests.delivery.judge.streams import ACCOUNT, REGION, Event, Outcome, Record, Stream, in_use

SHARD_QUOTA: Final = 20_000
TOKEN_SECONDS: Final = 300
_SHARDS_A_PAGE = 1000
_DESCRIBED_SHARDS = 100


class Kinesis:
    """The streams of one account in one region. `after(seconds, call)` runs a call later, with the time of then."""

    def __init__(
        self, log: LogWriter, settings: Settings, after: Callable[[float, Callable[[int], None]], None]
    ) -> None:
        self.settings = settings
        self.streams: dict[str, Stream] = {}
        self._log = log
        self._after = after
        self.made: list[Stream] = []
        """All streams that ever were, in the order of their numbers."""
        self._forcing = False
        self._tokens = Tokens()
        reading = Reading(log, settings, self._tokens)
        self._calls: dict[str, SlidingSecond] = {}
        self._operations: dict[str, Callable[[dict[str, Any], int], Any]] = {
            "CreateStream": self._create_stream,
            "DecreaseStreamRetentionPeriod": self._decrease_retention,
            "DeleteStream": self._delete_stream,
            "DescribeLimits": self._describe_limits,
            "DescribeStream": self._describe_stream,
            "DescribeStreamSummary": self._describe_stream_summary,
            "GetRecords": lambda given, now: reading.get_records(given, self._named, now),
            "GetShardIterator": lambda given, now: reading.get_shard_iterator(given, lambda: self._stream(given), now),
            "IncreaseStreamRetentionPeriod": self._increase_retention,
            "ListShards": self._list_shards,
            "ListStreams": self._list_streams,
            "MergeShards": self._merge_shards,
            "SplitShard": self._split_shard,
            "UpdateMaxRecordSize": self._update_max_record_size,
            "UpdateShardCount": self._update_shard_count,
        }

    def run(self, operation: str, body: bytes, now: int) -> bytes:
        """The answer of any operation but the two that put. Raises RefusedError."""
        run = self._operations.get(operation)
        if run is None:
            raise RefusedError("UnknownOperationException", f"The judge has no {operation}.")
        try:
            given = msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise RefusedError("SerializationException", str(error), violation=True) from None
        if operation == "GetRecords" and (given.get("Limit") or 0) > READ_RECORDS:  # documented for this limit alone
            message = f"Limit must be less than or equal to {READ_RECORDS}."
            raise RefusedError("InvalidArgumentException", message, violation=True)
        check(operation, given)
        if given.get("DryRun"):
            raise RefusedError("DryRunOperationException", "The request would succeed.")
        if operation in CALLS:
            self._limit(operation, CALLS[operation], now)
        answer = run(given, now)
        return b"" if answer is None else msgspec.json.encode(answer)

    # Putting

    def put_records(self, body: bytes, now: int, failing: list[Live], *, unanswered: bool) -> tuple[bytes, Outcome]:
        """PutRecords. Raises RefusedError; then nothing is stored."""
        given = decoded(PUT_RECORDS, body)
        check_length(given.Records)
        stream = self._stream_for_records(given.StreamName, given.StreamARN)
        refuse_dry_run(given.DryRun)
        records = records_of(given.Records, stream)
        outcome = self._put(stream, records, now, failing, unanswered=unanswered)
        answers = ",".join(outcome.answers)
        answer = f'{{"FailedRecordCount":{len(outcome.failures)},"Records":[{answers}]}}'
        return answer.encode(), outcome

    def put_record(self, body: bytes, now: int, *, unanswered: bool) -> tuple[bytes, Outcome]:
        """PutRecord. Raises RefusedError; then nothing is stored."""
        given = decoded(PUT_RECORD, body)
        stream = self._stream_for_records(given.StreamName, given.StreamARN)
        refuse_dry_run(given.DryRun)
        outcome = self._put(stream, [record_of(given, stream, "")], now, [], unanswered=unanswered)
        for code, message in outcome.failures:
            raise RefusedError(code, message)
        return outcome.answers[0].encode(), outcome

    def _put(
        self, stream: Stream, records: list[Record], now: int, failing: list[Live], *, unanswered: bool
    ) -> Outcome:
        """Store; an event of the stream may come between two records."""
        if not stream.events:
            return stream.put(records, now, failing, unanswered=unanswered)
        whole = Outcome([], [], 0, 0)
        while records:
            event = stream.events[0] if stream.events else None
            room = len(records) if event is None else max(event.after_records - stream.stored, 0)
            part = stream.put(records[:room], now, failing, unanswered=unanswered, first=len(whole.answers))
            records = records[room:]
            whole = Outcome(
                whole.answers + part.answers,
                whole.failures + part.failures,
                whole.stored + part.stored,
                whole.unanswered + part.unanswered,
            )
            if event is not None and stream.stored >= event.after_records:
                stream.events.pop(0)
                self.force(event.operation, event.parameters, now)
        return whole

    def force(self, operation: str, parameters: dict[str, Any], now: int) -> None:
        """Run an operation that the test has ordered, without limits of calls. A refusal is noted in the log.

        It may split and merge the shards of an on-demand stream, as AWS does by itself.
        """
        self._forcing = True
        try:
            check(operation, parameters)
            self._operations[operation](parameters, now)
        except RefusedError as refused:
            facts = {"operation": operation, "kind": refused.kind, "message": refused.message}
            self._log.note(0, 0, now / SECOND, what="event refused", **facts)
        finally:
            self._forcing = False

    def add_event(self, stream: str, event: Event) -> None:
        """Do something to a stream when it has stored so many records in all."""
        events = self._named(stream).events
        events.append(event)
        events.sort(key=lambda each: each.after_records)

    def trim(self, stream: str, keep: int) -> int:
        """Trim all but the last records of each shard, as if they were too old. Returns how many are gone."""
        before = after = 0
        for shard in self._named(stream).shards:
            before += shard.first
            shard.first = max(shard.first, len(shard.offsets) - keep)
            after += shard.first
        return after - before

    # Streams

    def _named(self, name: str) -> Stream:
        stream = self.streams.get(name)
        if stream is None:
            raise RefusedError("ResourceNotFoundException", f"Stream {name} under account {ACCOUNT} not found.")
        return stream

    def _stream(self, given: dict[str, Any]) -> Stream:
        return self._stream_of(given.get("StreamName"), given.get("StreamARN"))

    def _stream_of(self, name: str | None, arn: str | None) -> Stream:
        if name is None and arn is None:
            raise RefusedError(
                "InvalidArgumentException", "Either StreamName or StreamARN must be provided.", violation=True
            )
        named = arn.rpartition("/")[2] if arn else name
        if name is not None and name != named:
            raise RefusedError("InvalidArgumentException", "StreamName and StreamARN are of two streams.")
        assert named is not None
        stream = self._named(named)
        if arn not in {None, stream.arn}:
            raise RefusedError("ResourceNotFoundException", f"Stream {arn} not found.")
        return stream

    def _stream_for_records(self, name: str | None, arn: str | None) -> Stream:
        stream = self._stream_of(name, arn)
        if stream.status == "CREATING":
            raise RefusedError("ResourceNotFoundException", f"Stream {name} under account {ACCOUNT} not found.")
        return stream

    def _create_stream(self, given: dict[str, Any], now: int) -> None:
        name = given["StreamName"]
        if name in self.streams:
            raise RefusedError("ResourceInUseException", f"Stream {name} under account {ACCOUNT} already exists.")
        mode = (given.get("StreamModeDetails") or {}).get("StreamMode", "PROVISIONED")
        count = given.get("ShardCount")
        if mode == "ON_DEMAND":
            if count is not None:
                raise RefusedError("ValidationException", "ShardCount is not supported for on-demand streams.")
            count = 4
        elif count is None:
            raise RefusedError("ValidationException", "ShardCount must be provided for provisioned streams.")
        if self._open_shards() + count > SHARD_QUOTA:
            raise RefusedError("LimitExceededException", f"The account may have {SHARD_QUOTA} shards.")
        arn = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{name}"
        stream = Stream(name, len(self.made), arn, now, self._log, self.settings)
        stream.mode = mode
        stream.record_kib = given.get("MaxRecordSizeInKiB") or stream.record_kib
        stream.make_shards(count, now)
        self.streams[name] = stream
        self.made.append(stream)
        self._change(stream, lambda _: None, now)

    def _delete_stream(self, given: dict[str, Any], now: int) -> None:
        stream = self._stream(given)
        if stream.status == "CREATING":
            raise in_use(stream)
        stream.status = "DELETING"

        def gone(at: int) -> None:
            self._log.note(stream.number, 0, at / SECOND, what="stream deleted", stream=stream.name)
            if self.streams.get(stream.name) is stream:
                del self.streams[stream.name]

        self._wait(gone, now)

    def _change(self, stream: Stream, act: Callable[[int], None], now: int) -> None:
        """Act when the stream's transition is over; then it is ACTIVE."""

        def done(at: int) -> None:
            if stream.status != "DELETING":
                act(at)
                stream.status = "ACTIVE"

        self._wait(done, now)

    def _wait(self, done: Callable[[int], None], now: int) -> None:
        if self.settings.transition_seconds:
            self._after(self.settings.transition_seconds, done)
        else:
            done(now)

    def _describe_limits(self, given: dict[str, Any], now: int) -> dict[str, Any]:
        del given, now
        on_demand = sum(stream.mode == "ON_DEMAND" for stream in self.streams.values())
        return {
            "ShardLimit": SHARD_QUOTA,
            "OpenShardCount": self._open_shards(),
            "OnDemandStreamCount": on_demand,
            "OnDemandStreamCountLimit": 50,
        }

    def _open_shards(self) -> int:
        return sum(len(stream.open.shards) for stream in self.streams.values() if stream.mode == "PROVISIONED")

    def _describe_stream_summary(self, given: dict[str, Any], now: int) -> dict[str, Any]:
        del now
        stream = self._stream(given)
        summary = {
            **_described(stream),
            "OpenShardCount": len(stream.open.shards),
            "ConsumerCount": 0,
            "MaxRecordSizeInKiB": stream.record_kib,
        }
        return {"StreamDescriptionSummary": summary}

    def _describe_stream(self, given: dict[str, Any], now: int) -> dict[str, Any]:
        stream = self._stream(given)
        limit = min(given.get("Limit") or _DESCRIBED_SHARDS, _DESCRIBED_SHARDS)
        shards = [shard for shard in stream.listed(now) if shard.id > (given.get("ExclusiveStartShardId") or "")]
        description = {
            **_described(stream),
            "Shards": [shard.description() for shard in shards[:limit]],
            "HasMoreShards": len(shards) > limit,
        }
        return {"StreamDescription": description}

    def _list_streams(self, given: dict[str, Any], now: int) -> dict[str, Any]:
        del now
        limit = min(given.get("Limit") or 100, 100)
        start = given.get("ExclusiveStartStreamName") or self._tokens.opened(given.get("NextToken")).get("after", "")
        names = sorted(name for name in self.streams if name > start)
        answer: dict[str, Any] = {
            "StreamNames": names[:limit],
            "HasMoreStreams": len(names) > limit,
            "StreamSummaries": [_summary(self.streams[name]) for name in names[:limit]],
        }
        if len(names) > limit:
            answer["NextToken"] = self._tokens.sealed(after=names[limit - 1])
        return answer

    def _increase_retention(self, given: dict[str, Any], now: int) -> None:
        stream, hours = self._retention(given, now)
        if hours < stream.retention_hours:
            raise RefusedError(
                "InvalidArgumentException",
                f"Requested retention period ({hours} hours) for stream {stream.name} can not be shorter than existing "
                f"retention period ({stream.retention_hours} hours). Use DecreaseRetentionPeriod API.",
            )
        stream.retention_hours = hours

    def _decrease_retention(self, given: dict[str, Any], now: int) -> None:
        stream, hours = self._retention(given, now)
        if hours > stream.retention_hours:
            raise RefusedError(
                "InvalidArgumentException",
                f"Requested retention period ({hours} hours) for stream {stream.name} can not be longer than existing "
                f"retention period ({stream.retention_hours} hours). Use IncreaseRetentionPeriod API.",
            )
        stream.retention_hours = hours

    def _retention(self, given: dict[str, Any], now: int) -> tuple[Stream, int]:
        stream, hours = self._active(given), given["RetentionPeriodHours"]
        if not 24 <= hours <= 8760:
            bound = (
                "Minimum allowed retention period is 24" if hours < 24 else "Maximum allowed retention period is 8760"
            )
            raise RefusedError("InvalidArgumentException", f"{bound} hours. Requested retention period: {hours} hours.")
        for shard in stream.shards:  # a longer period brings nothing back
            stream.trim_old(shard, now)
        return stream, hours

    def _update_max_record_size(self, given: dict[str, Any], now: int) -> None:
        del now
        self._active(given).record_kib = given["MaxRecordSizeInKiB"]

    # Shards

    def _active(self, given: dict[str, Any]) -> Stream:
        stream = self._stream(given)
        if stream.status != "ACTIVE":
            raise in_use(stream)
        return stream

    def _list_shards(self, given: dict[str, Any], now: int) -> dict[str, Any]:
        token = given.get("NextToken")
        if token is not None:
            if refused := {"StreamName", "StreamARN", "ExclusiveStartShardId", "StreamCreationTimestamp"} & set(given):
                raise RefusedError(
                    "InvalidArgumentException",
                    f"NextToken and {min(refused)} cannot be provided together.",
                    violation=True,
                )
            page = self._tokens.opened(token)
            if now >= page["until"]:
                raise RefusedError("ExpiredNextTokenException", "The NextToken has expired.")
            stream, start, chosen = self._named(page["stream"]), page["after"], page["filter"]
        else:
            stream = self._stream(given)
            start, chosen = given.get("ExclusiveStartShardId") or "", given.get("ShardFilter")
        self._limit(f"ListShards {stream.name}", 1000, now)
        shards = [shard for shard in _filtered(stream, chosen, now) if shard.id > start]
        size = min(given.get("MaxResults") or _SHARDS_A_PAGE, _SHARDS_A_PAGE)
        answer: dict[str, Any] = {"Shards": [shard.description() for shard in shards[:size]]}
        if len(shards) > size:
            until = now + TOKEN_SECONDS * SECOND
            answer["NextToken"] = self._tokens.sealed(
                stream=stream.name, after=shards[size - 1].id, filter=chosen, until=until
            )
        return answer

    def _split_shard(self, given: dict[str, Any], now: int) -> None:
        stream = self._provisioned(given)
        shard, start = stream.shard(given["ShardToSplit"]), int(given["NewStartingHashKey"])
        stream.check_split(shard, start)
        self._reshard(stream, lambda at: stream.split(shard, start, at), now)

    def _merge_shards(self, given: dict[str, Any], now: int) -> None:
        stream = self._provisioned(given)
        shard, adjacent = stream.shard(given["ShardToMerge"]), stream.shard(given["AdjacentShardToMerge"])
        stream.check_merge(shard, adjacent)
        self._reshard(stream, lambda at: stream.merge(shard, adjacent, at), now)

    def _update_shard_count(self, given: dict[str, Any], now: int) -> dict[str, Any]:
        stream, target = self._provisioned(given), given["TargetShardCount"]
        current = len(stream.open.shards)
        if not (current + 1) // 2 <= target <= 2 * current:
            raise RefusedError(
                "LimitExceededException",
                f"UpdateShardCount cannot change {current} shards to {target}: "
                "not below half and not above double the current number.",
            )
        self._reshard(stream, lambda at: stream.resize(target, at), now)
        return {
            "StreamName": stream.name,
            "CurrentShardCount": current,
            "TargetShardCount": target,
            "StreamARN": stream.arn,
        }

    def _provisioned(self, given: dict[str, Any]) -> Stream:
        stream = self._active(given)
        if stream.mode == "ON_DEMAND" and not self._forcing:
            raise RefusedError(
                "ValidationException",
                f"Request is invalid. Stream {stream.name} under account {ACCOUNT} is in On-Demand mode.",
            )
        return stream

    def _reshard(self, stream: Stream, act: Callable[[int], None], now: int) -> None:
        stream.status = "UPDATING"
        self._change(stream, act, now)

    def _limit(self, call: str, most: int, now: int) -> None:
        calls = self._calls.setdefault(call, SlidingSecond())
        if self.settings.calls_limited and not calls.admit(now, 0, most, UNLIMITED):
            raise RefusedError("LimitExceededException", f"Rate exceeded for {call} under account {ACCOUNT}.")


def _filtered(stream: Stream, chosen: dict[str, Any] | None, now: int) -> list[Shard]:
    shards = stream.listed(now)
    if chosen is None:
        return shards
    kind, at = chosen["Type"], chosen.get("Timestamp")
    if kind == "AFTER_SHARD_ID":
        if not chosen.get("ShardId"):
            raise RefusedError("InvalidArgumentException", "AFTER_SHARD_ID needs a ShardId.", violation=True)
        return [shard for shard in shards if shard.id > chosen["ShardId"]]
    if kind in {"AT_TIMESTAMP", "FROM_TIMESTAMP"} and at is None:
        raise RefusedError("InvalidArgumentException", f"{kind} needs a Timestamp.", violation=True)
    horizon = max(now / SECOND - stream.retention_hours * 3600, stream.created / SECOND)
    if kind == "AT_LATEST":
        return [shard for shard in shards if shard.open]
    if kind == "FROM_TRIM_HORIZON":
        return shards
    moment = horizon if kind == "AT_TRIM_HORIZON" else max(float(at or 0), horizon)
    ended = [shard for shard in shards if shard.closed_at is None or shard.closed_at >= moment]
    return ended if kind == "FROM_TIMESTAMP" else [shard for shard in ended if shard.opened_at <= moment]


def _described(stream: Stream) -> dict[str, Any]:
    return {
        **_summary(stream),
        "RetentionPeriodHours": stream.retention_hours,
        "EnhancedMonitoring": [{"ShardLevelMetrics": []}],
        "EncryptionType": "NONE",
    }


def _summary(stream: Stream) -> dict[str, Any]:
    return {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "StreamStatus": stream.status,
        "StreamModeDetails": {"StreamMode": stream.mode},
        "StreamCreationTimestamp": stream.created // SECOND,
    }
