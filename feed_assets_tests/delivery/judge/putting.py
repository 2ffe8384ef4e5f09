"""Requests that put records: their form, and the limits of a request and of a record.

Here: from the bytes of a request to records that may be stored. Not here: storing them (see `streams`).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from feed_assets_tests.delivery.judge.limits import KEY_CHARACTERS, REQUEST_BYTES, REQUEST_RECORDS
from feed_assets_tests.delivery.judge.refusals import RefusedError, not_valid
from feed_assets_tests.delivery.judge.shards import HASH_KEYS, hash_key
from feed_assets_tests.delivery.judge.streams import Record, Stream


class Entry(msgspec.Struct, gc=False):
    """A record of a request."""

    Data: bytes | None = None
    PartitionKey: str | None = None
    ExplicitHashKey: str | None = None


class PutRecords(msgspec.Struct, gc=False):
    """The input of PutRecords."""

    Records: list[Entry] | None = None
    StreamName: str | None = None
    StreamARN: str | None = None
    DryRun: bool | None = None


class PutRecord(Entry, gc=False):
    """The input of PutRecord."""

    StreamName: str | None = None
    StreamARN: str | None = None
    DryRun: bool | None = None


PUT_RECORDS: Final = msgspec.json.Decoder(PutRecords)
PUT_RECORD: Final = msgspec.json.Decoder(PutRecord)


def decoded(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    """What a request says. Raises RefusedError."""
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise RefusedError("SerializationException", str(error), violation=True) from None


def refuse_dry_run(dry_run: bool | None) -> None:
    """Raises RefusedError for a dry run, which is how AWS says that the request is right."""
    if dry_run:
        raise RefusedError("DryRunOperationException", "The request would succeed.")


def check_length(entries: list[Entry] | None) -> None:
    """Raises RefusedError if a request has no records, or too many."""
    if entries is None:
        raise not_valid("Value null at 'records' failed to satisfy constraint: Member must not be null")
    if not 1 <= len(entries) <= REQUEST_RECORDS:
        bound = f"less than or equal to {REQUEST_RECORDS}" if entries else "greater than or equal to 1"
        found = f"Value '[{len(entries)} records]' at 'records'"
        raise not_valid(f"{found} failed to satisfy constraint: Member must have length {bound}")


def records_of(entries: list[Entry], stream: Stream) -> list[Record]:
    """The records of PutRecords. Raises RefusedError."""
    records = [record_of(entry, stream, f"records.{n}.member.") for n, entry in enumerate(entries, start=1)]
    if sum(len(record.data) + len(record.key_bytes) for record in records) > REQUEST_BYTES:
        raise RefusedError("InvalidArgumentException", "Records size exceeds 10 MB limit", violation=True)
    return records


def record_of(entry: Entry, stream: Stream, path: str) -> Record:
    """A record that may be stored; `path` leads to it in messages. Raises RefusedError."""
    key, data = entry.PartitionKey, entry.Data
    if data is None:
        raise not_valid(f"Value null at '{path}data' failed to satisfy constraint: Member must not be null")
    if not key or len(key) > KEY_CHARACTERS:
        raise not_valid(_key_fault(key, path))
    key_bytes = key.encode()
    if len(data) + len(key_bytes) > stream.record_kib * 1024:
        raise not_valid(
            f"Value at '{path}data' failed to satisfy constraint: "
            f"Member must have length less than or equal to {stream.record_kib * 1024}"
        )
    if entry.ExplicitHashKey is None:
        return Record(key, key_bytes, data, hash_key(key_bytes))
    return Record(key, key_bytes, data, _explicit(entry.ExplicitHashKey, path))


def _key_fault(key: str | None, path: str) -> str:
    if key is None:
        return f"Value null at '{path}partitionKey' failed to satisfy constraint: Member must not be null"
    bound = f"less than or equal to {KEY_CHARACTERS}" if key else "greater than or equal to 1"
    return f"Value '{key}' at '{path}partitionKey' failed to satisfy constraint: Member must have length {bound}"


def _explicit(given: str, path: str) -> int:
    if not (given.isascii() and given.isdigit()) or (len(given) > 1 and given[0] == "0"):
        raise not_valid(
            f"Value '{given}' at '{path}explicitHashKey' failed to satisfy constraint: "
            "Member must satisfy regular expression pattern: 0|([1-9]\\d{0,38})"
        )
    value = int(given)
    if value >= HASH_KEYS:
        raise RefusedError(
            "InvalidArgumentException",
            f"Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. Specified value was {given}",
            violation=True,
        )
    return value
