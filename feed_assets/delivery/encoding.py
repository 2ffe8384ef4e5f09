"""Rows as records: a key, the key of the shard, and a JSON object.

Here: which types can be sent, how each is written, and which rows cannot be sent. Not here: ordinals and editions
(`records`), and which rows are sent (`staging`).

Integers are JSON numbers, also above 2^53. Decimals are text with all their digits. Timestamps are UTC with six digits
and `Z`, without zone if they have none. Dates are ISO, binary values base64. Structs, and maps with text keys, are
objects. NaN and infinity are no JSON: such a row is bad.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
from pyarrow import types

from feed_assets.delivery.errors import BadRowsError, DestinationError
from feed_assets.delivery.streams.port import LONGEST_KEY

DETAILS: Final = "_d"
"""The field of a record that says which row of which delivery it is."""
FORMAT: Final = 1
"""Changes when equal rows are written differently."""
ENCODED: Final = pa.schema([("key", pa.string()), ("shard_key", pa.string()), ("body", pa.binary())])
"""An encoded row: the store's key, the key that chooses the shard, and the JSON object."""

_Convert = Callable[[Any], Any]
_encode = msgspec.json.Encoder().encode


class Place(NamedTuple):
    """The file of rows, and the number of the first of them."""

    uri: str
    first: int

    def row(self, number: int) -> str:
        """What messages call one of the rows."""
        return f"row {self.first + number:,} of {self.uri} (the first is row 0)"


@dataclass(frozen=True, slots=True)
class Encoder:
    """Encodes rows of these columns. `key` and `shard_key` name some of them. Raises DestinationError."""

    columns: tuple[str, ...]
    key: tuple[str, ...]
    shard_key: tuple[str, ...]

    def __post_init__(self) -> None:
        unknown = [each for each in (*self.key, *self.shard_key) if each not in self.columns]
        if unknown:
            raise DestinationError(f"The key has {', '.join(unknown)}, which is not among the columns. Add it to both.")
        if DETAILS in self.columns:
            raise DestinationError(f"A column has the name {DETAILS}, which records need for themselves. Rename it.")

    def require_types(self, schema: pa.Schema) -> None:
        """Raise DestinationError for columns that are missing, or have types that cannot be sent."""
        missing = [each for each in self.columns if each not in schema.names]
        if missing:
            raise DestinationError(f"The feed has no {', '.join(missing)}; it has {', '.join(schema.names)}.")
        for name in self.columns:
            require_type(schema.field(name).type, name)

    def encode(self, rows: pa.RecordBatch | pa.Table, place: Place) -> pa.RecordBatch:
        """The rows as ENCODED. Raises BadRowsError, which names the row by its place in its file."""
        converts = [_converter(rows.schema.field(each).type, each) for each in self.columns]
        lists = [_values(rows.column(each), place, each) for each in self.columns]
        columns = [
            values if convert is None else _converted(values, convert, place, name)
            for values, convert, name in zip(lists, converts, self.columns, strict=True)
        ]
        by_name = dict(zip(self.columns, columns, strict=True))
        names = self.columns
        bodies = [_encode(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]
        keys = _keys([by_name[each] for each in self.key], place, self.key)
        shards = (
            keys
            if self.shard_key == self.key
            else _keys([by_name[each] for each in self.shard_key], place, self.shard_key)
        )
        return pa.RecordBatch.from_arrays(
            [pa.array(keys, pa.string()), pa.array(shards, pa.string()), pa.array(bodies, pa.binary())], schema=ENCODED
        )

    def key_only(self, body: bytes) -> bytes:
        """The body of a delete: the columns of the keys."""
        whole = msgspec.json.decode(body)
        return _encode({name: whole[name] for name in self.columns if name in self.key or name in self.shard_key})


def require_type(type_: pa.DataType, name: str) -> None:
    """Raise DestinationError if the column of this name has a type that cannot be sent."""
    _converter(type_, name)


def key_text(values: Sequence[Any]) -> str:
    """The key of a row with these values, as JSON has them; "" if one of them is NULL."""
    if None in values:
        return ""
    if len(values) > 1:
        return _encode(list(values)).decode()
    (value,) = values
    return value if type(value) is str else _encode(value).decode()


def _keys(columns: Sequence[list[Any]], place: Place, names: Sequence[str]) -> list[str]:
    """A text for each row: of one column its text, of several a JSON array. Raises BadRowsError."""
    found = [key_text(row) for row in zip(*columns, strict=True)]
    for number, key in enumerate(found):
        if not 0 < len(key) <= LONGEST_KEY:
            what = f"is longer than {LONGEST_KEY} characters" if key else "is NULL or empty"
            raise BadRowsError(f"The key ({', '.join(names)}) of {place.row(number)} {what}. Nothing was sent.")
    return found


def _values(column: Any, place: Place, name: str) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError) as error:
        raise BadRowsError(
            f"{name} of {place.uri} has a value that cannot be sent: {error}. Nothing was sent."
        ) from None
    return values


def _converted(values: list[Any], convert: _Convert, place: Place, name: str) -> list[Any]:
    try:
        return [None if each is None else convert(each) for each in values]
    except ValueError:
        number = next(row for row, each in enumerate(values) if each is not None and not _is_convertible(convert, each))
        raise BadRowsError(
            f"{name} of {place.row(number)} is NaN or infinite, which JSON cannot say. Nothing was sent."
        ) from None


def _is_convertible(convert: _Convert, value: Any) -> bool:
    try:
        convert(value)
    except ValueError:
        return False
    return True


def _converter(type_: pa.DataType, name: str) -> _Convert | None:
    """What makes a value fit for JSON; None if it fits as it is. Raises DestinationError."""
    if any(fits(type_) for fits in _PLAIN):
        return None
    found = next((convert for fits, convert in _CONVERTED.items() if fits(type_)), None) or _nested(type_, name)
    if found is None:
        raise DestinationError(
            f"The column {name} is {type_}, which cannot be sent. Leave it out, or convert it in the feed."
        )
    return found


def _nested(type_: pa.DataType, name: str) -> _Convert | None:
    if types.is_struct(type_):
        inner = {each.name: _converter(each.type, name) for each in type_}
        return lambda value: {key: _one(inner[key], each) for key, each in value.items()}
    if types.is_map(type_) and types.is_string(type_.key_type):
        item = _converter(type_.item_type, name)
        return lambda value: {key: _one(item, each) for key, each in value}
    if types.is_list(type_) or types.is_large_list(type_):
        element = _converter(type_.value_type, name)
        return lambda value: [_one(element, each) for each in value]
    return None


def _one(convert: _Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError
    return value


def _decimal(value: Decimal) -> str:
    return f"{value:f}"


def _iso_date(value: date) -> str:
    return value.isoformat()


def _time(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(timespec="microseconds")
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


_PLAIN: Final = (types.is_boolean, types.is_integer, types.is_string, types.is_large_string, types.is_null)
_CONVERTED: Final[Mapping[Callable[[pa.DataType], bool], _Convert]] = {
    types.is_floating: _finite,
    types.is_decimal: _decimal,
    types.is_date: _iso_date,
    types.is_timestamp: _time,
    types.is_binary: _base64,
    types.is_large_binary: _base64,
}
