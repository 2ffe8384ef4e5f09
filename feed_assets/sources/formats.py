"""The field `format` of a source: how a partner writes records into files.

Here: the formats, and the names that a column cannot have. Not here: the rest of a source (see `spec`), and reading the
files (see `records`).
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from operator import not_
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BaseModel, Field, StringConstraints, field_validator, model_validator

RESERVED_COLUMNS = frozenset(
    {"_file", "_line", "_malformed", "_record", "_day", "_hour", "_sent", "_time", "_outcome", "_key"}
    | {"_decoded", "_elements", "_faulty", "_metadata", "_passes", "_seen", "_landing", "_counter", "_future"}
)
"""Names that raw files, landing and Spark use, so that no column of a partner can have them."""

USED = Field(exclude_if=not_)
"""Of a field that came with a later version: until it is used, it changes no digest of a source. Else an upgrade would
process all days again."""

ColumnName = Annotated[str, StringConstraints(min_length=1)]
Expression = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


class _TextFormat(BaseModel, frozen=True, extra="forbid"):
    """Lines of text, whose columns are all strings. Each text format has `columns` and `encoding`."""

    if TYPE_CHECKING:
        # Each format declares this field itself: messages list fields in their order, and inherited ones come first.
        columns: tuple[ColumnName, ...]

    @property
    def declared(self) -> Mapping[str, str]:
        """Column -> Spark SQL type, as far as the source names its columns."""
        return dict.fromkeys(self.columns, "string")

    @field_validator("columns", check_fields=False)
    @classmethod
    def _columns_are_distinct(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        return _distinct(columns)

    @field_validator("encoding", check_fields=False)
    @classmethod
    def _encoding_is_known(cls, encoding: str) -> str:
        try:
            # Encoding a text fails for codecs that are no encodings of text, such as hex.
            "".encode(encoding)
            return codecs.lookup(encoding).name
        except (LookupError, UnicodeError):
            raise ValueError(f"{encoding!r} is no encoding; use a name such as utf-8") from None


class DelimitedFormat(_TextFormat, frozen=True):
    """Lines of separated fields, with or without a line of names at the top."""

    type: Literal["csv", "tsv"]
    header: bool = False
    columns: tuple[ColumnName, ...] = ()
    separator: Annotated[str, StringConstraints(min_length=1)] | None = None
    quote: Annotated[str, StringConstraints(max_length=1)] | None = None
    escape: Annotated[str, StringConstraints(max_length=1), USED] = ""
    line_breaks: Annotated[bool, USED] = False
    encoding: str = "utf-8"

    @property
    def field_separator(self) -> str:
        """The separator of fields."""
        return self.separator or {"csv": ",", "tsv": "\t"}[self.type]

    @property
    def quote_character(self) -> str:
        """The quote that may enclose a field; "" for none, the default of TSV.

        A quote inside the field is doubled, or has `escape` before it if the source gives one.
        """
        return {"csv": '"', "tsv": ""}[self.type] if self.quote is None else self.quote

    @property
    def parsing(self) -> tuple[object, ...]:
        """The values that decide how a file is parsed; a header overrides the source's columns."""
        more = [self.escape] if self.escape else []
        more += ["line breaks"] if self.line_breaks else []
        return self.field_separator, self.quote_character, self.encoding, self.header or self.columns, *more

    @model_validator(mode="after")
    def _something_names_the_columns(self) -> Self:
        if not self.header and not self.columns:
            raise ValueError("nothing names the columns; list them in `columns`, in order, or set `header: true`")
        return self

    @model_validator(mode="after")
    def _an_escape_is_before_a_quote(self) -> Self:
        if self.escape and (not self.quote_character or self.escape in {self.quote_character, self.field_separator}):
            raise ValueError(
                "`escape` is before a quote inside quotes: it takes a `quote`, and is neither that nor the separator"
            )
        return self

    @model_validator(mode="after")
    def _line_breaks_are_in_quotes(self) -> Self:
        if self.line_breaks and not (self.quote_character and len(self.field_separator) == 1):
            raise ValueError(
                "`line_breaks` are those inside quotes: it takes a `quote`, and a separator of one character"
            )
        return self


class JsonLinesFormat(_TextFormat, frozen=True):
    """One JSON object a line; a key that a record lacks is NULL."""

    type: Literal["jsonl"]
    columns: Annotated[tuple[ColumnName, ...], Field(min_length=1)]
    encoding: str = "utf-8"

    @property
    def parsing(self) -> tuple[object, ...]:
        """The values that decide how a file is parsed."""
        return self.type, self.columns, self.encoding


class ParquetFormat(BaseModel, frozen=True, extra="forbid"):
    """Parquet files whose columns keep their types: column -> Spark SQL type."""

    type: Literal["parquet"]
    columns: Annotated[dict[ColumnName, Expression], Field(min_length=1)]

    @property
    def declared(self) -> Mapping[str, str]:
        """Column -> Spark SQL type."""
        return self.columns

    @property
    def parsing(self) -> tuple[object, ...]:
        """The values that decide how a file is parsed: the type only, as the file has its own schema."""
        return (self.type,)

    @field_validator("columns")
    @classmethod
    def _columns_are_distinct(cls, columns: dict[str, str]) -> dict[str, str]:
        _distinct(tuple(columns))
        return columns


Format = Annotated[DelimitedFormat | JsonLinesFormat | ParquetFormat, Field(discriminator="type")]


def _distinct(columns: tuple[str, ...]) -> tuple[str, ...]:
    seen: set[str] = set()
    for column in columns:
        if column.lower() in RESERVED_COLUMNS:
            raise ValueError(f"raw files use the name {column!r} themselves; give the column another one")
        if column.lower() in seen:
            raise ValueError(f"{column!r} is there twice (case does not count); give each its own name")
        seen.add(column.lower())
    return columns
