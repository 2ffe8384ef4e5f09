"""What a destination demands of its feed, as far as the feed's declaration shows it: columns, their types, the key.

So a mistake is found when a project is loaded, not when rows are read. Not here: what rows and files show (`staging`),
and which types can be sent (`encoding`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa

from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.delivery.destination import Destination
from feed_assets.delivery.encoding import DETAILS, require_type
from feed_assets.delivery.errors import DestinationError

_TYPES: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "varchar": pa.string(),
    "char": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_WORD: Final = re.compile(r"(\w+)(?:\((\d+)(?:,(\d+))?\))?")


def require_fit(to: Destination, feed: FeedDeclaration, asset: str) -> None:
    """Raise DestinationError with a line for each reason why this destination cannot have this feed of an asset."""
    if problems := [to.problem(field, message) for field, message in _problems(to, feed, asset)]:
        raise DestinationError("\n".join(problems))


def _problems(to: Destination, feed: FeedDeclaration, asset: str) -> Iterator[tuple[str, str]]:
    """The fields that are wrong, each with what is wrong."""
    if to.feed != feed.location:
        yield "feed", f"is {to.feed!r}, and `delivered` got the asset {asset}, whose feed is {feed.location!r}"
        return
    columns = {each.name: each for each in feed.columns}
    if missing := [each for each in to.columns if each not in columns]:
        yield "columns", f"has {', '.join(missing)}, and {asset} has only {', '.join(columns)}"
    for name in to.columns:
        if name == DETAILS:
            yield "columns", f"has {DETAILS}, a name that records need for themselves; rename the column in the feed"
        elif name in columns and not _can_be_sent(columns[name].type, name):
            yield "columns", f"has {name}, whose type {columns[name].type} cannot be sent; convert it in the feed"
    key, identity = ({each.casefold() for each in names} for names in (to.key, feed.identity))
    if to.store is None or key == identity:
        return
    if identity:
        yield (
            "key",
            (
                f"is {', '.join(to.key)}, and the identity of {asset} is {', '.join(feed.identity)}; with a store both "
                "must be the same, or rows of one key would replace each other"
            ),
        )
    else:
        yield (
            "key",
            (
                f"needs a feed that declares its identity, as there is a store; add identity={list(to.key)} to the "
                f"`feed_metadata` of {asset}"
            ),
        )


def _can_be_sent(declared: str, name: str) -> bool:
    try:
        require_type(_arrow(declared), name)
    except DestinationError:
        return False
    return True


def _arrow(declared: str) -> pa.DataType:
    """The type of Arrow that a column of this type of Spark has in files. Raises DestinationError."""
    kind, _, rest = declared.partition("<")
    inner = list(_split(rest[:-1])) if rest else []
    match kind:
        case "array" if inner:
            return pa.list_(_arrow(inner[0]))
        case "map" if inner:
            return pa.map_(*map(_arrow, inner))
        case "struct":
            fields = (each.partition(":") for each in inner)
            return pa.struct([pa.field(field, _arrow(type_)) for field, _, type_ in fields])
    found = _WORD.fullmatch(kind)
    if found and found[1] == "decimal":
        return pa.decimal128(int(found[2] or 10), int(found[3] or 0))
    if found and found[1] in _TYPES:
        return _TYPES[found[1]]
    raise DestinationError(f"{declared} is no type that can be sent.")


def _split(text: str) -> Iterator[str]:
    """The parts between commas that are in no brackets."""
    depth, start = 0, 0
    for at, character in enumerate(text):
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    if text:
        yield text[start:]
