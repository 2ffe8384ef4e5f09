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
from feed_assets_tests.delivery.judge.streams import ACCOUNT, Stream, in_use


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

    def get_shard_iterator(self, given: dict[str, Any], stream: Stream, now: int) -> dict[str, Any]:
        """GetShardIterator. Raises RefusedError."""
        if stream.status == "CREATING":
            raise in_use(stream)
        shard = stream.shard(given["ShardId"])
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
        return self._tokens.sealed(stream=stream.name, number=stream.number, shard=shard.index, offset=offset, made=now)

    def get_records(self, given: dict[str, Any], named: Callable[[str], Stream], now: int) -> dict[str, Any]:
        """GetRecords of the stream that the iterator names. Raises RefusedError."""
        position = self._tokens.opened(given["ShardIterator"])
        if "offset" not in position:
            raise RefusedError("InvalidArgumentException", "Invalid ShardIterator.", violation=True)
        stream = named(position["stream"])
        if stream.number != position["number"]:  # of a stream that was deleted, and made again
            raise RefusedError("ResourceNotFoundException", f"Stream {stream.name} under account {ACCOUNT} not found.")
        settings, age = self._settings, now - position["made"]
        if age >= settings.iterator_seconds * SECOND:
            raise RefusedError(
                "ExpiredIteratorException",
                f"Iterator expired. The iterator was created {age // 1_000_000} ms ago, while right now the tolerated "
                f"delay is {settings.iterator_seconds * 1000:.0f} milliseconds.",
            )
        shard = stream.shards[position["shard"]]
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


def _exceeded(shard: Shard, stream: Stream) -> RefusedError:
    return RefusedError(
        "ProvisionedThroughputExceededException",
        f"Rate exceeded for shard {shard.id} in stream {stream.name} under account {ACCOUNT}.",
    )
