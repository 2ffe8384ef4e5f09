"""The schema that a feed version promised its readers, kept once in the control area.

Here: keeping it, and checking every new update against it. Not here: which changes are allowed (`contract`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace

from feed_assets.blackboard.port import AlreadyExistsError, ConflictError, NotFoundError
from feed_assets.file_feed.contract import check_contract
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.feed import CONTROL, Feed
from feed_assets.file_feed.record import Column


def promised_schema(feed: Feed) -> tuple[Column, ...]:
    """The columns that readers of this feed may rely on; none if no update with a schema was ever published."""
    try:
        content = feed.blackboard.read(_key(feed))
    except NotFoundError:
        return ()
    return _columns(feed, content.data)


def check_promise(feed: Feed, schema: Sequence[Column]) -> bool:
    """Whether `promise` would change the promised schema. One GET; promises nothing yet.

    Raises SchemaChangeError if this schema breaks the promised one.
    """
    promised = promised_schema(feed)
    if promised:
        check_contract(promised, schema, feed=feed.uri)
    return _no_narrower(schema, promised) != promised


def promise(feed: Feed, schema: Sequence[Column]) -> None:
    """Keep the first schema of a feed, and add new columns to it: one GET if nothing is new.

    Raises SchemaChangeError if the new schema breaks the promised one.
    """
    board, key = feed.blackboard, _key(feed)
    while True:
        with suppress(AlreadyExistsError, ConflictError):  # another writer was faster: look again
            try:
                content = board.read(key)
            except NotFoundError:
                board.create(key, _json(schema))
                return
            promised = _columns(feed, content.data)
            check_contract(promised, schema, feed=feed.uri)
            if (kept := _no_narrower(schema, promised)) != promised:
                board.replace(key, _json(kept), tag=content.entry.tag)
            return


def _no_narrower(schema: Sequence[Column], promised: Sequence[Column]) -> tuple[Column, ...]:
    """The schema, where a column that was promised as nullable stays nullable."""
    nullable = {column.name for column in promised if column.nullable}
    return tuple(replace(column, nullable=column.nullable or column.name in nullable) for column in schema)


def _key(feed: Feed) -> str:
    return f"{feed.root}{CONTROL}/schema.json"


def _json(schema: Sequence[Column]) -> bytes:
    return json.dumps([asdict(column) for column in schema], indent=1).encode()


def _columns(feed: Feed, data: bytes) -> tuple[Column, ...]:
    names = ("name", "type", "nullable", "description")
    try:
        return tuple(Column(**{name: each[name] for name in names}) for each in json.loads(data))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        # Not passed over: no update could be checked against the promised schema.
        raise FeedError(
            f"{feed.blackboard.uri(_key(feed))} is damaged ({error}). Reading the feed does not depend on it. "
            "Delete it, and the next update that is published promises its own schema."
        ) from error
