"""The page of the example's columns: its kinds of records and its feeds, from their schemas and comments."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.types import StructType

import feed_assets as fa
from feed_assets.ads import schemas

HEAD = """\
# Columns of the example

The worked example has two kinds of records, and publishes three feeds of its own; a fourth comes from others.

## The rules

- A record without a required column, or with a time or a cost that cannot be read, goes to quarantine with the reason.
  So does a negative cost. An optional column without an expression, or without a value, is NULL.
- The same event that is delivered twice counts once: same source, same identifier.
- A click is a *repeated click*, and not published, if the same known user of the same source clicked the same ad at
  most a second before. The earlier click may be repeated itself: a burst counts as its first click. Clicks of unknown
  users are never repeated.
- A click belongs to the impression that it names, of its day or of the day before. If it names none, it belongs to the
  last impression of the same ad and the same known user, at most the attribution window before. Otherwise it is an
  orphan.
- An impression counts one click, its first, and counts on the day it was shown.
"""


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for kind, schema in ((schemas.ADS, schemas.CLEAN_ADS), (schemas.CLICKS, schemas.CLEAN_CLICKS)):
        lines += [f"## Kind `{kind.name}`, feed `clean-{kind.name}`\n", *_columns(schema, kind)]
    lines += ["## Feed `ad-effectiveness`\n", *_columns(schemas.AD_EFFECTIVENESS)]
    lines += ["## Feed `ad-catalog`, of others\n", *_columns(schemas.AD_CATALOG)]
    return "\n".join(lines)


def _columns(schema: StructType, kind: fa.Kind | None = None) -> Iterator[str]:
    yield "| Column | Type | Required | |"
    yield "|---|---|---|---|"
    for field in schema:
        required = _required(field.name, kind, nullable=field.nullable)
        yield f"| `{field.name}` | {field.dataType.simpleString()} | {required} | {field.metadata['comment']} |"
    yield ""


def _required(name: str, kind: fa.Kind | None, *, nullable: bool) -> str:
    if kind is not None and name == kind.identifier:
        return "by itself: from `identity`"
    if kind is not None and name not in kind.columns:
        return "by itself: the source's name"
    return "no" if nullable else "yes"
