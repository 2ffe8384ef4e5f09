"""The description of a partner's log: one YAML file for each source, validated.

Here: the fields of a description, and their validation. Not here: formats (see `formats`), the canonical columns of a
kind (see `kinds`), finding and reading the files (see `loading`), whether Spark takes the expressions (see
`expressions`), and landing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Self
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from feed_assets.engine.sql import quoted
from feed_assets.file_feed.digest import short_digest
from feed_assets.sources.complete_spec import Complete
from feed_assets.sources.expect_spec import ExpectEvery
from feed_assets.sources.formats import RESERVED_COLUMNS, USED, ColumnName, Expression, Format
from feed_assets.sources.kinds import SOURCE, Kind, by_name
from feed_assets.sources.lookups import Table, read_table
from feed_assets.sources.mail_address import check_address
from feed_assets.sources.poll_spec import Poll
from feed_assets.sources.positions import Document, Location, dotted
from feed_assets.sources.push_spec import Push
from feed_assets.sources.source_errors import SourceError
from feed_assets.sources.thresholds import DEFAULT_PERCENT, CostOfRun, GrowthCosts, Processed, threshold_of

UNREPEATABLE = re.compile(
    r"\b(rand|randn|random|uuid|shuffle|now|curdate|current_date|current_timestamp|current_time|localtimestamp|"
    r"current_user|user|session_user|input_file_name|monotonically_increasing_id|spark_partition_id)\s*\(|"
    r"\b(current_date|current_timestamp|current_time|localtimestamp)\b|\bunix_timestamp\s*\(\s*\)",
    re.IGNORECASE,
)
"""Functions whose result differs from run to run, so that a re-run would not give the same content."""


class SpecError(SourceError):
    """Descriptions of sources cannot be used; a line for each problem: `file:line: field: what to do`."""


class FieldProblemsError(ValueError):
    """Problems in several parts of one field: each with its place in the field, and what to do."""

    def __init__(self, *problems: tuple[Location, str]) -> None:
        super().__init__("; ".join(f"{dotted(location)}: {message}" for location, message in problems))
        self.problems = problems


MailAddress = Annotated[str, AfterValidator(check_address)]


class Source(BaseModel):
    """One kind of record from one partner: its format, and an expression for each canonical column.

    The string below each field is its description in `docs/reference/sources.md`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$")]
    """The name of the source: small letters, digits and `_`. Raw data lies below `raw/<kind>/<name>/`, so a renamed
    source has no raw data until its files land again."""

    kind: str
    """The kind of its records, as the project declares it. Kind and name together are the key of the source."""

    description: str = ""
    """A sentence about the source. Dagster's UI shows it with the raw data."""

    format: Format
    """How the partner writes records into files: see [below](#the-field-format)."""

    null_tokens: tuple[str, ...] = ("",)
    """Texts that stand for NULL."""

    time_zone: str = "UTC"
    """The zone of event times that carry no zone (TIMESTAMP_NTZ). The hour that comes twice when summer time ends
    counts as its first occurrence."""

    filter: Expression | None = None
    """A condition in Spark SQL. Records that do not meet it belong to another source of the same log. Without a filter,
    all records belong to this source."""

    columns: dict[str, Expression]
    """A Spark SQL expression for each canonical column of the kind, over the partner's columns. These are texts, except
    in Parquet. Optional columns without an expression are NULL. Each name in an expression is a column of the partner,
    also `user`. Functions whose result changes from run to run, such as `rand`, are refused. A DECIMAL with more places
    than its column is rounded. `event_time` is an instant if its expression is a TIMESTAMP, and a wall time in
    `time_zone` if it is a TIMESTAMP_NTZ."""

    identity: Annotated[tuple[ColumnName, ...], Field(min_length=1)]
    """The partner's columns that identify an event: two records with equal values are the same event. The identifier of
    the kind is computed from them. If `columns` has an expression for the identifier, that expression decides instead,
    and must use each of these columns."""

    lookups: Annotated[dict[Annotated[str, StringConstraints(pattern=r"^[\w.-]+\.csv$")], ColumnName], USED] = Field(
        default_factory=dict
    )
    """CSV files beside the YAML, each with the partner's column by which its rows are found. The expressions in
    `columns` can use the other columns of these tables; `event_time` and `filter` cannot, because landing needs
    them."""

    growth_threshold_percent: Annotated[Decimal, Field(ge=0, allow_inf_nan=False)]
    """The growth of raw data, in percent, from which a processed day runs again. Required without `growth_threshold`;
    with it, the percentage for days without a history, 5 by default."""

    growth_threshold: GrowthCosts | None = None
    """What a run costs and what late data is worth; the percentage follows from both: see
    [below](#the-field-growth_threshold)."""

    lookback_days: Annotated[int, Field(ge=1, le=3650)]
    """How many days back the monitor looks for late data."""

    process_any_day: Annotated[int, Field(ge=0, le=100)] = 0
    """How many days outside the lookback may be processed at a time when data of them comes: the newest first. 0: none,
    people are told which days wait. Does not apply to assets with a trigger."""

    buffer_hours: Annotated[int, Field(ge=0, le=8760)] = 3
    """Hours after the last hour of a day until the day is due. The partner may send until then."""

    most_hours: Annotated[int, Field(ge=24, le=1_000_000)] = 1000
    """In how many hours of event time the records of one file may land. A file with more is held back, because
    `event_time` is likely wrong: see [Land files](../sources.md#land-files). A file that landed before, also by
    `feed-assets land --any-hours`, may have as many as it had."""

    expect_every: ExpectEvery | None = None
    """How often something of the source lands, such as `2h`, or `learnt`: see [below](#the-field-expect_every). Without
    it, nobody is told that the source is silent."""

    may_be_empty: bool = False
    """Whether a day without a landed file has no events. Otherwise its files are still to come. A day of a kind is
    empty only if it is empty for all sources of the kind."""

    recipients: tuple[MailAddress, ...] = ()
    """Who gets mail about late data of this source, besides FEED_ASSETS_MAIL_TO."""

    complete: Complete | None = None
    """When an hour of raw data is complete, for flows with a trigger: see [below](#the-field-complete). Without it, an
    hour is complete when `buffer_hours` have passed."""

    poll: Poll | None = None
    """Where the partner's files are fetched from: see [below](#the-field-poll). Without it, the source is not
    polled."""

    push: Push | None = None
    """How the service signs that pushes events to [`feed-assets receive`](../push.md): see [below](#the-field-push).
    Without it, events need a token."""

    _declared_kind: Kind = PrivateAttr()
    _tables: tuple[Table, ...] = PrivateAttr(default=())
    _origin: tuple[Path, Document] | None = PrivateAttr(default=None)
    _unusable: str = PrivateAttr(default="")

    @classmethod
    def of(cls, values: object, kinds: Iterable[Kind]) -> Self:
        """The source with these fields, of one of these kinds. Raises pydantic's ValidationError."""
        return cls.model_validate(values, context=by_name(kinds))

    @classmethod
    def unusable(cls, kind: Kind, name: str, problems: str) -> Self:
        """A source that stands for a description with these problems, a line each.

        It has its place in the project, so that the other sources go on. Landing its files and computing its days
        fails with the problems. Raises pydantic's ValidationError for a wrong name.
        """
        columns = {column: f"CAST(NULL AS {kind.columns[column]})" for column in kind.required}
        fields = {"name": name, "kind": kind.name, "columns": columns, "identity": ["unknown"]}
        assumed = {"format": {"type": "csv", "columns": ["unknown"]}, "growth_threshold_percent": 5, "lookback_days": 7}
        source = cls.of(fields | assumed, [kind])
        source._unusable = problems  # noqa: SLF001 - a Source's own
        return source

    @property
    def problems(self) -> str:
        """Why its description cannot be used, a line for each problem; empty if it can."""
        return self._unusable

    def require_usable(self) -> None:
        """Raise SpecError if its description cannot be used."""
        if self._unusable:
            raise SpecError(self._unusable)

    def model_post_init(self, context: Any, /) -> None:
        """Keep the kind beside its name."""
        self._declared_kind = context[self.kind]

    @property
    def declared_kind(self) -> Kind:
        """The kind that `kind` names, with its canonical columns."""
        return self._declared_kind

    @property
    def key(self) -> str:
        """`<kind>/<name>`: the unique name of the source, and its place below `raw/`."""
        return f"{self.kind}/{self.name}"

    @property
    def identifier(self) -> str:
        """The canonical column that identifies a record."""
        return self._declared_kind.identifier

    @property
    def expressions(self) -> dict[str, str]:
        """An expression for every canonical column of the kind; NULL for columns that the source does not give."""
        given = {self.identifier: self._identity_hash(), **self.columns}
        canonical = self._declared_kind.columns
        return {column: given.get(column, f"CAST(NULL AS {type_})") for column, type_ in canonical.items()}

    @property
    def digest(self) -> str:
        """16 hex digits that change with the result of processing the source's records, not with its schedule."""
        others = {
            "description",
            "growth_threshold_percent",
            "growth_threshold",
            "lookback_days",
            "process_any_day",
            "expect_every",
            "buffer_hours",
            "may_be_empty",
            "most_hours",
            "recipients",
            "complete",
            "poll",
            "push",
        }
        described = self.model_dump_json(exclude=others)
        return short_digest("\n".join((described, *(each.sha256 for each in self.tables))))

    @property
    def landing_digest(self) -> str:
        """16 hex digits that change with the fields that decide which records land, and where.

        The other expressions are evaluated when a day is processed, so changing them needs no new landing.
        """
        parsing, event_time = self.format.parsing, self.columns["event_time"]
        decisive = (parsing, sorted(self.null_tokens), self.time_zone, self.filter, event_time)
        return short_digest(json.dumps(decisive))

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables of its look-ups. Raises SpecError if they were not read."""
        if len(self._tables) < len(self.lookups):
            raise SpecError(self.problem(("lookups",), "has not been read; load the source from its file"))
        return self._tables

    def described_in(self, path: Path, document: Document) -> Self:
        """The same source, with the file and the lines of its fields, and with the tables beside the file.

        Raises SpecError with a line for each table that cannot be used.
        """
        copy = self.model_copy()
        copy._origin = (path, document)  # noqa: SLF001 - a Source's own
        taken = {SOURCE, *(name.lower() for name in self.format.declared), *RESERVED_COLUMNS}
        tables, problems = [], []
        for name, key in self.lookups.items():
            try:
                tables.append(read_table(path.with_name(name), key, taken))
                taken |= {column.lower() for column in tables[-1].columns}
            except ValueError as error:
                problems.append(copy.problem(("lookups", name), str(error)))
        if problems:
            raise SpecError("\n".join(problems))
        copy._tables = tuple(tables)  # noqa: SLF001 - as above
        return copy

    @property
    def origin(self) -> Path | None:
        """The file that describes this source, None without a file."""
        return self._origin[0] if self._origin else None

    def problem(self, location: Location, message: str) -> str:
        """A problem of one of this source's fields, as `file:line: field: message`."""
        return f"{self.place(location)}: {message}"

    def place(self, location: Location) -> str:
        """The place of one of this source's fields, as `file:line: field`."""
        if self._origin is None:
            return f"source {self.key}: {dotted(location)}"
        path, document = self._origin
        return f"{path}:{document.line(location)}: {dotted(location)}"

    def threshold(self, baseline_bytes: int, history: Sequence[Processed]) -> tuple[Decimal, CostOfRun | None]:
        """The growth in percent from which a day runs again, and the costs that it follows from, if it does."""
        if self.growth_threshold is None:
            return self.growth_threshold_percent, None
        return threshold_of(self.growth_threshold, self.growth_threshold_percent, baseline_bytes, history)

    @model_validator(mode="before")
    @classmethod
    def _costs_have_a_default(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("growth_threshold") is not None:
            return {"growth_threshold_percent": DEFAULT_PERCENT} | values
        return values

    @field_validator("kind")
    @classmethod
    def _kind_is_declared(cls, name: str, info: ValidationInfo) -> str:
        kinds: Mapping[str, Kind] = info.context or {}
        if name not in kinds:
            raise ValueError(f"there is no kind {name!r}; there are {', '.join(kinds) or 'none: declare a Kind'}")
        return name

    @field_validator("time_zone")
    @classmethod
    def _zone_is_known(cls, zone: str) -> str:
        try:
            ZoneInfo(zone)
        except (KeyError, ValueError, OSError):
            raise ValueError(f"{zone!r} is no time zone; use a name such as UTC or Asia/Tokyo") from None
        return zone

    @field_validator("null_tokens")
    @classmethod
    def _tokens_are_distinct(cls, tokens: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(tokens))

    @field_validator("filter")
    @classmethod
    def _filter_is_repeatable(cls, expression: str | None) -> str | None:
        if expression and (message := _unrepeatable(expression)):
            raise ValueError(message)
        return expression

    @field_validator("columns")
    @classmethod
    def _columns_are_canonical(cls, columns: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        if "kind" not in info.data:
            return columns
        kind: Kind = (info.context or {})[info.data["kind"]]
        problems: list[tuple[Location, str]] = []
        for column, expression in columns.items():
            if column not in kind.columns:
                have = f"they have {', '.join(kind.columns)}"
                problems.append(((column,), f"canonical {kind.name} have no such column; {have}"))
            elif message := _unrepeatable(expression):
                problems.append(((column,), message))
        problems += [
            ((column,), "is missing; add an expression for it") for column in kind.required if column not in columns
        ]
        if problems:
            raise FieldProblemsError(*problems)
        return columns

    @field_validator("identity")
    @classmethod
    def _identity_is_declared(cls, identity: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        declared = info.data["format"].declared if "format" in info.data else {}
        known = {name.lower() for name in declared}
        problems: list[tuple[Location, str]] = [
            ((position,), f"the format has no column {name!r}; it has {', '.join(declared)}")
            for position, name in enumerate(identity)
            if known and name.lower() not in known
        ]
        if problems:
            raise FieldProblemsError(*problems)
        return identity

    @field_validator("push")
    @classmethod
    def _push_is_possible(cls, push: Push | None, info: ValidationInfo) -> Push | None:
        of = info.data.get("format")
        if push is not None and of is not None and (of.type != "jsonl" or info.data.get("poll") is not None):
            raise ValueError("is for sources of `format: {type: jsonl, ...}` without `poll`; others take files only")
        return push

    def _identity_hash(self) -> str:
        """SQL for a different text for each combination of values, NULL if all are NULL."""
        # With their lengths, `a` and `bc` differ from `ab` and `c`.
        fields = [f"CAST({quoted(name)} AS STRING)" for name in self.identity]
        parts = ", ".join(f"coalesce(concat(length({field}), ':', {field}), '-')" for field in fields)
        digest = f"md5(concat('{self.name}/', {parts}))"
        return f"CASE WHEN coalesce({', '.join(fields)}) IS NOT NULL THEN {digest} END"


def _unrepeatable(expression: str) -> str | None:
    """Why this expression may give another value in another run, or None."""
    found = UNREPEATABLE.search(_without_literals(expression))
    if found is None:
        return None
    name = found[0].rstrip("( )")
    return f"uses {name}, which differs from run to run; use only the record's own columns, in backticks if named so"


def _without_literals(expression: str) -> str:
    return re.sub(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`", "''", expression)
