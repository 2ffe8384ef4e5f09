"""Reading: iterators, GetRecords, and the tokens that stand for a position.

Here: where an iterator points, when it expires, the limits of reading. Not here: finding the records (see `streams`).
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
from collections.abc import Callable
from typing import Any

from feed_assets_tests.delivery.judge.limits import READ_RECORDS, SECOND, UNLIMITED, Settings
from feed_assets_tests.delivery.judge.log import LogWriter
from feed_assets_tests.delivery.judge.refusals import RefusedError
from feed_assets_tests.delivery.judge.shards import Shard
from feed_assets_tests.delivery.judge.streams import ACCOUNT, Stream


class Tokens:
    """Iterators and the tokens of pages: opaque to clients."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(16)

    def sealed(self, **content: Any) -> str:
        """A token that only this judge can have made."""
        text = json.dumps(content).encode()
        return base64.b64encode(hmac.digest(self._secret, text, "sha256")[:16] + text).decode()

    def opened(self, token: str | None) -> dict[str, Any]:
        """The content of a token; nothing without one. Raises RefusedError."""
        if token is None:
            return {}
        try:
            content = base64.b64decode(token, validate=True)
        except ValueError:
            content = b""
        if not hmac.compare_digest(content[:16], hmac.digest(self._secret, content[16:], "sha256")[:16]):
            raise RefusedError("InvalidArgumentException", "Invalid ShardIterator or NextToken.", violation=True)
        return dict(json.loads(content[16:]))


class Reading:
    """The operations that read."""

    def __init__(self, log: LogWriter, settings: Settings, tokens: Tokens) -> None:
        self._log = log
        self._settings = settings
        self._tokens = tokens

    def get_shard_iterator(self, given: dict[str, Any], named: Callable[[], Stream], now: int) -> dict[str, Any]:
        """GetShardIterator of the stream that the request names. Raises RefusedError."""
        name = given.get("StreamName") or given.get("StreamARN", "").rpartition("/")[2]
        stream, shard = _readable(named, name, given["ShardId"], now)
        settings = self._settings
        if not shard.iterators.admit(now, 0, settings.shard_reads, UNLIMITED):
            raise _exceeded(shard, stream)
        return {"ShardIterator": self._iterator(stream, shard, self._position(stream, shard, given, now), now)}

    def _position(self, stream: Stream, shard: Shard, given: dict[str, Any], now: int) -> int:
        kind, sequence = given["ShardIteratorType"], given.get("StartingSequenceNumber")
        if kind == "TRIM_HORIZON":
            return 0
        if kind == "LATEST":
            return self._log.end
        if kind == "AT_TIMESTAMP":
            at = given.get("Timestamp")
            if at is None:
                raise RefusedError(
                    "InvalidArgumentException",
                    "Must specify timestampInMillis parameter for iterator of type AT_TIMESTAMP.",
                    violation=True,
                )
            if at > now / SECOND:
                raise RefusedError("InvalidArgumentException", f"The timestamp {at} is in the future.")
            return stream.offset_at(shard, at)
        if sequence is None:
            raise RefusedError(
                "InvalidArgumentException",
                f"Must specify startingSequenceNumber parameter for iterator of type {kind}.",
                violation=True,
            )
        offset = stream.offset(shard, sequence)
        return offset if kind == "AT_SEQUENCE_NUMBER" else offset + 1

    def _iterator(self, stream: Stream, shard: Shard, offset: int, now: int) -> str:
        return self._tokens.sealed(stream=stream.name, shard=shard.id, offset=offset, made=now)

    def get_records(self, given: dict[str, Any], named: Callable[[str], Stream], now: int) -> dict[str, Any]:
        """GetRecords of the stream that the iterator names. Raises RefusedError.

        If that was deleted and made again, the iterator leads to the new one, as on AWS.
        """
        position = self._tokens.opened(given["ShardIterator"])
        if "offset" not in position:
            raise RefusedError("InvalidArgumentException", "Invalid ShardIterator.", violation=True)
        settings, age = self._settings, now - position["made"]
        if age >= settings.iterator_seconds * SECOND:
            raise RefusedError(
                "ExpiredIteratorException",
                f"Iterator expired. The iterator was created {age // 1_000_000} ms ago, while right now the tolerated "
                f"delay is {settings.iterator_seconds * 1000:.0f} milliseconds.",
            )
        stream, shard = _readable(lambda: named(position["stream"]), position["stream"], position["shard"], now)
        reads = shard.reads
        reads.forget(now)
        if reads.events >= settings.shard_reads or reads.bytes >= settings.shard_read_bytes:
            raise _exceeded(shard, stream)
        records, size, after, behind = stream.read(shard, position["offset"], given.get("Limit") or READ_RECORDS, now)
        reads.add(now, size, settings.shard_read_bytes)
        answer: dict[str, Any] = {"Records": records, "MillisBehindLatest": behind}
        if stream.at_end(shard, after):
            answer["ChildShards"] = [
                {
                    "ShardId": child.id,
                    "ParentShards": [parent.id for parent in child.parents],
                    "HashKeyRange": child.range(),
                }
                for child in shard.children
            ]
        else:
            answer["NextShardIterator"] = self._iterator(stream, shard, after, now)
        return answer


def _readable(named: Callable[[], Stream], name: str, shard_id: str, now: int) -> tuple[Stream, Shard]:
    """A shard and its stream. Raises RefusedError: to AWS it is the shard that is missing, also without the stream."""
    not_found = "ResourceNotFoundException"
    missing = RefusedError(not_found, f"Shard {shard_id} in stream {name} under account {ACCOUNT} does not exist")
    try:
        stream = named()
    except RefusedError as error:
        raise missing if error.kind == not_found else error from None
    shard = next((each for each in stream.listed(now) if each.id == shard_id), None)
    if shard is None or stream.status == "CREATING":
        raise missing
    return stream, shard


def _exceeded(shard: Shard, stream: Stream) -> RefusedError:
    return RefusedError(
        "ProvisionedThroughputExceededException",
        f"Rate exceeded for shard {shard.id} in stream {stream.name} under account {ACCOUNT}.",
    )
