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
"""Leaves a field that a later version added out of a source's digest until the field is used. Otherwise an upgrade
would process all days again."""

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
    """A record a line, in separated fields. All columns are texts.

    A line `sep=;` above the header, as Excel writes it, is skipped. A record whose quotes do not fit is malformed.
    Backslashes outside quotes are kept: from PostgreSQL and MySQL take CSV, not their text formats.
    """

    type: Literal["csv", "tsv"]
    """`csv` or `tsv`: they differ in their default separator and quote."""

    header: bool = False
    """Whether each file names the columns in its first line, in any order."""

    columns: tuple[ColumnName, ...] = ()
    """The names of the columns, in the order of the fields. Required without `header: true`."""

    separator: Annotated[str, StringConstraints(min_length=1)] | None = None
    """What separates two fields. By default a comma in `csv`, a tab in `tsv`."""

    quote: Annotated[str, StringConstraints(max_length=1)] | None = None
    """The character around a field that holds separators. By default `"` in `csv`; `tsv` has none, which `""` says."""

    escape: Annotated[str, StringConstraints(max_length=1), USED] = ""
    """The character before a quote inside quotes, such as `'\\'` in files by Spark. Without it, such a quote is
    doubled."""

    line_breaks: Annotated[bool, USED] = False
    """Whether quoted fields may hold line breaks. In the name of a column, a line break becomes a space. Without this
    option, both halves of such a record are malformed."""

    encoding: str = "utf-8"
    """The encoding of the files, by its name in Python."""

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
    """One JSON object a line. All values are texts; a missing key is NULL.

    An object with a whole number of more than 38 digits is malformed: ask the partner to send such ids as text. About
    16 digits of a longer fraction count.
    """

    type: Literal["jsonl"]
    """`jsonl`. A source of this format also takes events that partners push."""

    columns: Annotated[tuple[ColumnName, ...], Field(min_length=1)]
    """The keys that the source uses."""

    encoding: str = "utf-8"
    """The encoding of the files, by its name in Python."""

    @property
    def parsing(self) -> tuple[object, ...]:
        """The values that decide how a file is parsed."""
        return self.type, self.columns, self.encoding


class ParquetFormat(BaseModel, frozen=True, extra="forbid"):
    """Parquet files. Columns keep their types.

    A file may have a narrower type than declared, such as INT for BIGINT or DECIMAL(4, 2) for DECIMAL(10, 2), or the
    null type. Do not declare a column of a type that Spark cannot read, such as UUID, TIME or INTERVAL: the column
    stays in the file as sent.
    """

    type: Literal["parquet"]
    """`parquet`."""

    columns: Annotated[dict[ColumnName, Expression], Field(min_length=1)]
    """The columns that the source uses, each with its Spark SQL type."""

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
