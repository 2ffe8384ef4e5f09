"""A stream of Amazon Kinesis.

Records are put by own code: botocore's serializer takes five times as long. All other calls are boto3's. Here: requests
and answers. Not here: rates and retries (`client`), and what a failure means (`kinesis_failures`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import msgspec
from botocore.exceptions import BotoCoreError, ClientError
from urllib3.exceptions import HTTPError

from feed_assets.delivery.errors import StreamError
from feed_assets.delivery.streams.kinesis_account import Account, connections
from feed_assets.delivery.streams.kinesis_failures import answered_failure, botocore_failure, unanswered_failure
from feed_assets.delivery.streams.kinesis_reader import KinesisReader
from feed_assets.delivery.streams.port import (
    Acked,
    AmbiguousError,
    Answer,
    Limits,
    NotSentError,
    Record,
    Refused,
    Shard,
)
from feed_assets.delivery.streams.signing import Keys, signed

if TYPE_CHECKING:
    from types_boto3_kinesis import KinesisClient
    from types_boto3_kinesis.type_defs import ListShardsOutputTypeDef, ShardTypeDef, StreamDescriptionSummaryTypeDef

_TARGET: Final = "Kinesis_20131202.PutRecords"
_THROTTLED: Final = "ProvisionedThroughputExceededException"
_OK: Final = 200

Found = TypeVar("Found")


class _Entry(msgspec.Struct, gc=False):
    Data: bytes
    PartitionKey: str


class _Put(msgspec.Struct):
    Records: list[_Entry]
    StreamName: str


class _Stored(msgspec.Struct, gc=False):
    ShardId: str = ""
    SequenceNumber: str = ""
    ErrorCode: str | None = None
    ErrorMessage: str | None = None


class _PutAnswer(msgspec.Struct):
    Records: list[_Stored]


class _Failure(msgspec.Struct):
    code: str = msgspec.field(name="__type", default="")
    message: str = ""
    Message: str = ""


_encoder = msgspec.json.Encoder()
_answers = msgspec.json.Decoder(_PutAnswer)
_failures = msgspec.json.Decoder(_Failure)


class KinesisStream:
    """A stream of Kinesis, as `streams.port.Stream` describes it. Threads may share it."""

    def __init__(self, region: str, name: str, endpoint: str | None = None, *, limits: Limits | None = None) -> None:
        """Credentials, endpoint, proxy and certificates are found as boto3 finds them. Raises StreamError.

        `limits` are AWS's by default. The stream itself says how large a record may be.
        """
        self.region = region
        self.name = name
        self._takes = limits or Limits()
        try:
            self._account = Account(region, endpoint)
        except (BotoCoreError, ValueError) as error:  # ValueError: an endpoint that is no URL
            raise StreamError(f"{self.title}: {error}") from error
        self._pool = connections(self._account.endpoint)
        port = self._pool.port
        is_usual = port in {None, 80 if self._pool.scheme == "http" else 443}
        self._host = self._pool.host if is_usual else f"{self._pool.host}:{port}"

    @property
    def title(self) -> str:
        """The address."""
        return f"kinesis://{self.region}/{self.name}"

    def limits(self) -> Limits:
        """Its limits, with the record size that the stream states. Raises StreamError, NotSentError."""
        described = self.describe()
        kib = described.get("MaxRecordSizeInKiB")
        return replace(self._takes, bytes_a_record=kib * 1024) if kib else self._takes

    def describe(self) -> StreamDescriptionSummaryTypeDef:
        """What AWS says about the stream. Raises StreamError, NotSentError."""
        answer = self.ask("DescribeStreamSummary", lambda client: client.describe_stream_summary(StreamName=self.name))
        described = answer["StreamDescriptionSummary"]
        if described["StreamStatus"] == "CREATING":
            raise NotSentError(f"{self.title}: the stream is being created.")
        if described["StreamStatus"] == "DELETING":
            raise StreamError(f"{self.title}: the stream is being deleted. Create it again.")
        return described

    def shards(self) -> Sequence[Shard]:
        """The open shards. Raises StreamError, NotSentError."""
        return [shard for shard in self.all_shards() if shard.is_open]

    def all_shards(self) -> Sequence[Shard]:
        """All shards that still have records, also closed ones. Raises StreamError, NotSentError."""
        found: list[ShardTypeDef] = []
        of: dict[str, Any] = {"StreamName": self.name}
        while of:
            answer = self.ask("ListShards", partial(_list_shards, of))
            found += answer["Shards"]
            of = {"NextToken": answer["NextToken"]} if answer.get("NextToken") else {}
        return [_shard(each) for each in found]

    def put(self, records: Sequence[Record]) -> Sequence[Answer]:
        """Put the records by one request. Raises StreamError, NotSentError, AmbiguousError."""
        body = encoded(self.name, records)
        try:
            keys = self._account.keys()
        except BotoCoreError as error:
            raise botocore_failure(self.title, "PutRecords", error) from error
        headers = {"Content-Type": "application/x-amz-json-1.1", "Host": self._host, "X-Amz-Target": _TARGET}
        headers = signed(headers, body, keys, region=self.region, service="kinesis", now=datetime.now(UTC))
        try:
            answer = self._pool.urlopen("POST", "/", body=body, headers=headers, redirect=False)
        except HTTPError as error:
            raise unanswered_failure(self.title, error) from error
        if answer.status != _OK:
            raise self._failure(answer.status, answer.data, keys)
        try:
            stored = _answers.decode(answer.data).Records
        except msgspec.DecodeError as error:
            raise AmbiguousError(f"{self.title}: PutRecords has an answer that is none: {error}") from error
        return [
            Acked(each.ShardId, each.SequenceNumber)
            if each.ErrorCode is None and each.SequenceNumber
            else _refused(each)
            for each in stored
        ]

    def retention(self) -> timedelta:
        """How long it keeps a record. Raises StreamError, NotSentError."""
        return timedelta(hours=self.describe()["RetentionPeriodHours"])

    def reader(self, shard: str, after: str | None) -> KinesisReader:
        """A reader of the records after this sequence number; None: from the oldest."""
        return KinesisReader(self, shard, after)

    def ask(self, operation: str, call: Callable[[KinesisClient], Found]) -> Found:
        """Call boto3. Raises StreamError, NotSentError, LostShardError."""
        keys = None
        try:
            keys = self._account.keys()
            return call(self._account.client)
        except (BotoCoreError, ClientError) as error:
            failure = botocore_failure(self.title, operation, error)
            raise self._renewed(failure, keys) from error

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()
        self._account.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _failure(self, status: int, body: bytes, keys: Keys) -> Exception:
        try:
            found = _failures.decode(body)
        except msgspec.DecodeError:  # of a proxy or a load balancer
            found = _Failure(message=body[:200].decode(errors="replace"))
        code = found.code.rpartition("#")[2].partition(":")[0]
        failure = answered_failure(self.title, "PutRecords", code, found.message or found.Message, status)
        return self._renewed(failure, keys)

    def _renewed(self, failure: Exception, keys: Keys | None) -> Exception:
        """The failure, after other credentials were looked for if it says that these are over."""
        if isinstance(failure, NotSentError) and failure.credentials:
            try:
                self._account.renew(keys)
            except BotoCoreError as error:
                return botocore_failure(self.title, "credentials", error)
        return failure


def encoded(stream: str, records: Sequence[Record]) -> bytes:
    """The body of a request."""
    return _encoder.encode(_Put([_Entry(data, key) for key, data in records], stream))


def _list_shards(of: Mapping[str, Any], client: KinesisClient) -> ListShardsOutputTypeDef:
    return client.list_shards(**of)


def _refused(stored: _Stored) -> Refused:
    code = stored.ErrorCode or "no sequence number"
    return Refused(code == _THROTTLED, f"{code}: {stored.ErrorMessage or ''}")


def _shard(found: ShardTypeDef) -> Shard:
    parents = (found.get("ParentShardId"), found.get("AdjacentParentShardId"))
    return Shard(
        name=found["ShardId"],
        low=int(found["HashKeyRange"]["StartingHashKey"]),
        high=int(found["HashKeyRange"]["EndingHashKey"]),
        parents=tuple(parent for parent in parents if parent),
        is_open="EndingSequenceNumber" not in found["SequenceNumberRange"],
    )
