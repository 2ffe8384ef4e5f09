"""Checks of a request's records that need no Spark: dividing a body, and which records cannot be used.

Here: formats of bodies, and validation against a source. Not here: reading a body (`serving.bodies`), and the
evaluation of expressions: a record that passes here may still go to quarantine, as in a file of the partner.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Final

import msgspec

from feed_assets.engine.sql import columns_in
from feed_assets.serving.bodies import BodyError, TooLargeError
from feed_assets.serving.content import MediaTypes
from feed_assets.sources.formats import JsonLinesFormat
from feed_assets.sources.kinds import EVENT_TIME
from feed_assets.sources.spec import Source

JSON_TYPES: Final = frozenset({"application/json"})
LINES_TYPES: Final = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/jsonlines"}
)
TYPES: Final = MediaTypes(
    JSON_TYPES | LINES_TYPES, described="application/json, or application/x-ndjson for an object a line"
)
DEEPEST: Final = 100
"""The most levels of objects and arrays in a record. Spark reads up to 1,000."""

_UTF_8: Final = {"utf-8", "ascii", "utf-8-sig"}
_BOM: Final = b"\xef\xbb\xbf"
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
"""A string, also one that is never closed: else each of its quotes would be tried as the start of another."""
_LEVELS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS: Final = bytes(set(range(256)) - _LEVELS.keys())
_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_value = msgspec.json.Decoder(msgspec.Raw).decode
_object = msgspec.json.Decoder(msgspec.defstruct("AnyObject", [])).decode
_OTHERS: Final = {
    "a packed file, such as gzip": (b"\x1f\x8b", b"(\xb5/\xfd", b"x\x01", b"x\x9c", b"x\xda"),
    "UTF-16 or UTF-32": (
        *(b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff"),
        *(zeros + bracket for zeros in (b"\0", b"\0\0\0") for bracket in (b"{", b"[")),
        *(b"{\0", b"[\0"),
    ),
}
"""The kind of content that begins with these bytes. Other kinds are found by their records; gzip may leave some records
as they are."""
_UNNAMEABLE: Final = re.compile(r'["\\\x00-\x1f]')
"""In the name of a column: the decoder does not know such names, so its values are not looked at."""
_NULL: Final = msgspec.Raw(b"null")
_MOST_COUNTED: Final = 200_000
"""Items of an array that are counted before it is divided. Who allows more has the memory for them."""


def split(body: bytes, media_type: str, *, most: int) -> list[bytes]:
    """The records of a body, each in one line. Raises BodyError if the body is no JSON, TooLargeError over `most`.

    A body of tiny records would take 50 times its size, so it is refused before it is divided.
    """
    for what, starts in _OTHERS.items():
        if body.startswith(starts):
            raise BodyError(
                f"The body begins with bytes of {what}, not of JSON. Nothing was taken. Send JSON in UTF-8: plain, or "
                "packed with gzip, once, and with the header `Content-Encoding: gzip`."
            )
    body = body.removeprefix(_BOM).strip()
    if media_type in LINES_TYPES:
        if body.count(b"\n") > 2 * most:  # each record may have a blank line after it
            raise _too_many(most)
        records = [line for each in body.split(b"\n") if (line := each.strip())]
        if records and records[0] in {b"[", b"{"}:
            raise BodyError(
                "The first line of the body is no JSON object, but begins a value of several lines. Nothing was taken. "
                "Send each object in one line; or an array, or one object, as application/json."
            )
    elif body.startswith(b"["):
        records = [_in_one_line(each) for each in _items(body, most)]
    else:
        records = [_in_one_line(_one(body))]
    if len(records) > most:
        raise TooLargeError(f"The body has {len(records):,} records, more than {most:,}; send it in parts.")
    return records


def _items(body: bytes, most: int) -> list[bytes]:
    """The items of an array. Raises BodyError, TooLargeError."""
    try:
        if _MOST_COUNTED >= most <= body.count(b","):
            _counted(most)(body)
        return [bytes(each) for each in _array(body)]
    except msgspec.ValidationError:
        raise _too_many(most) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise BodyError(
            f"The body is not an array of JSON: {error}. Nothing was taken. In newline-delimited JSON "
            "(application/x-ndjson), a bad record spoils no other."
        ) from None


def _one(body: bytes) -> bytes:
    """The body, if it is one value of JSON. Raises BodyError."""
    try:
        _value(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BodyError(
            f"The body is not one value of JSON: {error}. Nothing was taken. Send several objects as an array, or an "
            "object a line as newline-delimited JSON (application/x-ndjson)."
        ) from None
    return body


def require_an_object(records: Sequence[bytes], rejected: Sequence[tuple[int, str]]) -> None:
    """Raise BodyError if no record is a JSON object in UTF-8: then the body is not what its headers say.

    `rejected` is what `Door.judge` says of these records.
    """
    if records and len(rejected) == len(records) and not any(map(_is_object, records)):
        raise BodyError(
            f"No record of the body is a JSON object in UTF-8; the first {rejected[0][1]}. Nothing was taken. Send an "
            "object a line as application/x-ndjson, or an array of objects, or one, as application/json."
        )


def _is_object(record: bytes) -> bool:
    try:
        _object(record)
        record.decode()
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False
    return True


@cache
def _counted(most: int) -> Callable[[bytes], msgspec.Struct]:
    """A decoder of arrays that raises ValidationError beyond `most` items: it decodes a struct with as many fields."""
    fields = [(f"f{number}", msgspec.Raw, _NULL) for number in range(most)]
    return msgspec.json.Decoder(msgspec.defstruct("Items", fields, array_like=True, forbid_unknown_fields=True)).decode


def _too_many(most: int) -> TooLargeError:
    return TooLargeError(f"The body has more than {most:,} records; send it in parts.")


def _in_one_line(record: bytes) -> bytes:
    """The record in one line: JSON has line breaks only where a space means the same."""
    return record.strip().replace(b"\n", b" ").replace(b"\r", b" ")


@dataclass(frozen=True, slots=True)
class Door:
    """Validates the records of one source. Make it with `Door.of`."""

    _decode: Callable[[bytes], msgspec.Struct]
    _needed: Sequence[tuple[str, Sequence[int]]]
    _nulls: frozenset[bytes]
    _most: int

    @classmethod
    def of(cls, source: Source, *, record_bytes: int) -> Door:
        """The door of a source whose records have at most `record_bytes`."""
        declared = {name.lower(): name for name in source.format.declared}
        identity = [declared[name.lower()] for name in source.identity]
        time = columns_in(source.columns[EVENT_TIME], source.format.declared)
        names = [name for name in dict.fromkeys((*identity, *time)) if not _UNNAMEABLE.search(name)]
        record = msgspec.defstruct(
            "Record",
            [(f"f{number}", msgspec.Raw, _NULL) for number in range(len(names))],
            rename={f"f{number}": name for number, name in enumerate(names)},
        )
        groups = {"nothing identifies the record": identity, "the record has no time": time}
        needed = [
            (f"{what}: no value for {' or '.join(group)}", [names.index(name) for name in group])
            for what, group in groups.items()
            if group and set(group) <= set(names)
        ]
        nulls = {b"null", *map(msgspec.json.encode, source.null_tokens)}
        return cls(msgspec.json.Decoder(record).decode, needed, frozenset(nulls), record_bytes)

    def judge(self, records: Iterable[bytes]) -> tuple[tuple[int, str], ...]:
        """The records that cannot be used: each with its index, from 0, and the reason.

        A record lacks its identity, or its time, if all columns that make it are missing, null or null tokens.
        """
        reason = self._reason
        return tuple((index, found) for index, record in enumerate(records) if (found := reason(record)))

    def _reason(self, record: bytes) -> str:
        if len(record) > self._most:
            return f"has {len(record):,} bytes, more than {self._most:,}"
        if record.count(b"{") + record.count(b"[") > DEEPEST and _depth(record) > DEEPEST:
            return f"is nested more than {DEEPEST} levels deep"
        try:
            values = msgspec.structs.astuple(self._decode(record))
            if not record.isascii():
                record.decode()
        except UnicodeDecodeError:
            return "is not UTF-8"
        except (msgspec.DecodeError, RecursionError) as error:
            return f"is not a JSON object: {error}"
        for message, positions in self._needed:
            if all(bytes(values[each]) in self._nulls for each in positions):
                return message
        return ""


def can_be_pushed(source: Source) -> bool:
    """Whether the source's format is JSON lines, in an encoding in which JSON can be sent, and it is not polled."""
    can = isinstance(source.format, JsonLinesFormat) and source.format.encoding in _UTF_8
    return can and source.poll is None


def _depth(record: bytes) -> int:
    """The most levels of objects and arrays."""
    # All other requests wait meanwhile: a loop in Python takes a second for a MB of brackets.
    brackets = _STRING.sub(b"", record).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_LEVELS.__getitem__, brackets)), default=0)
