"""Kinds of records: the canonical columns that the sources of one kind share.

Here: a kind as a plain value, which a project declares beside its transforms, and its validation. Not here: any one
kind, how a source makes these columns (see `spec`), and how records get them (see `canonical`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from feed_assets.errors import FeedAssetsError
from feed_assets.file_feed.record import Column

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME = re.compile(r"[a-z0-9_]+")
EVENT_TIME, SOURCE = "event_time", "source"


class KindError(FeedAssetsError, ValueError):
    """A kind cannot be used as it is declared; a line for each problem: the kind, the column, what to do."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The name and the canonical columns that the records of several sources share.

    `name` is the first level of raw partitions, and the value of `kind` in a source's description. `schema` has the
    canonical columns in order, with Spark's names of types; every source must give the columns that are not nullable.
    `identifier` is the first column, a string that identifies a record within its source. If a source has no expression
    for it, it is a digest of the source's `identity`. Every kind has a required timestamp `event_time`: landing places
    records by it. No source gives `source`, a string: it is the source's name. Name it in the schema to fix its
    position.

    Raises KindError for a name or a schema that breaks these rules.
    """

    name: str
    schema: tuple[Column, ...]
    identifier: str

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise KindError("\n".join(f"kind {self.name!r}: {problem}" for problem in problems))

    @classmethod
    def of_schema(cls, name: str, schema: StructType, identifier: str) -> Kind:
        """The kind with the columns of a Spark schema, such as the schema of the cleaned feed."""
        from feed_assets.engine.spark_schemas import declared_columns  # noqa: PLC0415 - a kind alone needs no Spark

        return cls(name, declared_columns(schema), identifier)

    @property
    def columns(self) -> Mapping[str, str]:
        """Canonical column -> Spark SQL type, of the columns that a source can give."""
        return {column.name: column.type for column in self.schema if column.name != SOURCE}

    @property
    def required(self) -> tuple[str, ...]:
        """The columns that every source has to give."""
        ready = {self.identifier, SOURCE}
        return tuple(column.name for column in self.schema if not column.nullable and column.name not in ready)

    @property
    def parsed(self) -> tuple[str, ...]:
        """The columns that are not text, `event_time` first: NULL may mean that the sent value cannot be read."""
        others = (name for name, type_ in self.columns.items() if type_.lower() != "string" and name != EVENT_TIME)
        return (EVENT_TIME, *others)

    def _problems(self) -> Iterator[str]:
        types = {column.name: column.type.lower() for column in self.schema}
        if not NAME.fullmatch(self.name):
            yield "a kind's name becomes a path; use only a-z, 0-9 and _"
        if len({name.lower() for name in types}) < len(self.schema):
            yield "two columns have one name (case does not count); give each its own name"
        if hidden := [name for name in types if name.startswith("_")]:
            yield f"column {hidden[0]!r} begins with _, as bookkeeping does; give it another name"
        if types.get(EVENT_TIME) != "timestamp" or EVENT_TIME not in self.required:
            yield f"records land by {EVENT_TIME!r}; add such a column, a timestamp that is not nullable"
        if types.get(self.identifier) != "string":
            yield f"the identifier {self.identifier!r} is no column of type string; name one of the schema's"
        elif self.schema[0].name != self.identifier:
            yield (
                f"the first column is {self.schema[0].name!r}, and by the first column `quality.judge` finds what was "
                f"delivered twice; put the identifier {self.identifier!r} first"
            )
        if types.get(SOURCE, "string") != "string":
            yield f"column {SOURCE!r} holds the source's name; make it a string, or call it something else"


def by_name(kinds: Iterable[Kind]) -> dict[str, Kind]:
    """The kinds by name. Raises KindError if two have one name."""
    named: dict[str, Kind] = {}
    for kind in kinds:
        if named.setdefault(kind.name, kind) != kind:
            raise KindError(f"kind {kind.name!r}: two kinds have this name; give one of them another")
    return named
