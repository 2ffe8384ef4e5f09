"""The record of an update: its inputs, its content, its checks and its states.

Here: the values, and their JSON. Not here: where records are kept (`control`). A record never decides whether an update
is valid; only the manifest does.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from feed_assets.file_feed.digest import short_digest
from feed_assets.file_feed.errors import UnreadableRecordError
from feed_assets.file_feed.feed import File
from feed_assets.file_feed.names import check_update
from feed_assets.file_feed.wording import shortened

FORMAT = 2
"""Raised when older readers would misunderstand a changed record; added fields do not count."""

_Value = TypeVar("_Value")
State = Literal["staged", "publishing", "published", "rejected", "invalidated"]
"""How far an update has come.

- staged: its files are written; its audit is to come.
- publishing: its audit passed, its manifest comes next. If it has no manifest, its writer stopped before that.
- published: its manifest was written. If it has no valid manifest, somebody took it out of force.
- rejected: its audit failed.
- invalidated: somebody took it out of force, with a reason.
"""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an update. `reasons` counts the quarantined and duplicate rows by reason."""

    read: int
    published: int
    quarantined: int
    duplicates: int
    reasons: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FeedInput:
    """A partition of another feed that was read; `update` is None if it had no valid update.

    A later change of a `context` input alone does not make the result stale.
    """

    feed: str
    partition: str | None
    update: str | None
    context: bool = False


@dataclass(frozen=True, slots=True)
class RawFile:
    """A raw file that was read, and how many records it has; None if unknown."""

    path: str
    size: int
    tag: str
    records: int | None = None


@dataclass(frozen=True, slots=True)
class RawHour:
    """The raw files of one hour: their number, bytes and records, and a digest of their paths, sizes and tags.

    `records` is None if the number of a file is unknown.
    """

    files: int
    size: int
    digest: str
    records: int | None = None


@dataclass(frozen=True, slots=True)
class RawInput:
    """The read set of one day of one source (`<kind>/<name>`): the exact files that were read.

    If there are many files, `files` is empty and `listed` has the totals by hour; `read_sets.in_full` reads the files.
    `context` as for a FeedInput.
    """

    source: str
    partition: str
    files: tuple[RawFile, ...]
    context: bool = False
    listed: Mapping[str, RawHour] = field(default_factory=dict)

    def during(self, hours: Collection[str]) -> RawInput:
        """The files of these hours, `00` to `23`, of a read set that has its files."""
        return replace(self, files=tuple(file for file in self.files if file.path[:2] in hours))

    @property
    def count(self) -> int:
        """The number of files."""
        return len(self.files) + sum(hour.files for hour in self.listed.values())

    @property
    def bytes(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files) + sum(hour.size for hour in self.listed.values())

    @property
    def records(self) -> int | None:
        """The records of all files; None if the number of a file is unknown."""
        return total([*(file.records for file in self.files), *(hour.records for hour in self.listed.values())])

    @property
    def hours(self) -> Mapping[str, RawHour]:
        """The totals of each hour that has files, `00` to `23`: the first folder in their paths."""
        files: dict[str, list[RawFile]] = {}
        for file in self.files:
            files.setdefault(file.path.partition("/")[0], []).append(file)
        return self.listed or {hour: _totals(of) for hour, of in files.items()}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the schema; `type` as Spark's simple string."""

    name: str
    type: str
    nullable: bool = True
    description: str = ""


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """The outcome of a check; if `severity` is ERROR, a failure rejects the update."""

    name: str
    passed: bool
    severity: Literal["ERROR", "WARN"]
    observed: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of an update's state: the new state, when, why and by whom."""

    state: State
    at: datetime
    reason: str = ""
    author: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that the writer records about an update; every field may be empty.

    `root_run_id` is the first run of a chain of re-executions; if empty, `run_id` is the first run.
    """

    rows: Rows | None = None
    schema: tuple[Column, ...] = ()
    inputs: tuple[FeedInput | RawInput, ...] = ()
    code_version: str = ""
    config_digest: str = ""
    run_id: str = ""
    root_run_id: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def root(self) -> str:
        """The first run of the chain of re-executions that made the update."""
        return self.root_run_id or self.run_id


@dataclass(frozen=True, slots=True)
class Record:
    """The facts that the control area keeps about an update. `token` is the token of its claim."""

    partition: str | None
    update: str
    owner: str
    token: str
    files: tuple[File, ...]
    facts: Facts
    checks: tuple[CheckOutcome, ...] = ()
    history: tuple[Transition, ...] = ()

    @property
    def state(self) -> State:
        """The last state in its history."""
        return self.history[-1].state

    @property
    def read_sets(self) -> dict[tuple[str, str], RawInput]:
        """The read sets by source and day, without those that were read as context."""
        raw = (each for each in self.facts.inputs if isinstance(each, RawInput) and not each.context)
        return {(each.source, each.partition): each for each in raw}

    def to_json(self) -> bytes:
        """Compact JSON, the same bytes for the same record."""
        content = {"format": FORMAT, **asdict(self)}
        for each, value in zip(content["facts"]["inputs"], self.facts.inputs, strict=True):
            each["kind"] = "raw" if isinstance(value, RawInput) else "feed"
        for file in content["files"]:
            if not file["digest"]:
                del file["digest"]
        return json.dumps(content, default=_plain, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes, *, origin: str) -> Record:
        """Parse a record; ignores unknown fields. Raises UnreadableRecordError."""
        try:
            content = json.loads(data)
            written = content["format"]
            if written > FORMAT:
                raise UnreadableRecordError(
                    f"{origin} is of format {written}, and {FORMAT} is the latest known here: upgrade feed_assets."
                )
            if not content["history"]:
                raise ValueError("it has no history")  # noqa: TRY301 - reported as damage, as all other faults are
            check_update(content["update"])
            parts = {
                "files": tuple(_known(File, each) for each in content["files"]),
                "facts": _facts(content["facts"]),
                "checks": tuple(_known(CheckOutcome, each) for each in content["checks"]),
                "history": tuple(_known(Transition, {**each, "at": _time(each["at"])}) for each in content["history"]),
            }
            return _known(cls, {**content, **parts})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UnreadableRecordError(
                f"{origin} is damaged ({error}). Reading the feed does not depend on it; its lineage is lost. "
                "Delete it to silence this."
            ) from error


def has_listing(inputs: Iterable[FeedInput | RawInput]) -> bool:
    """Whether any of these read sets has its files in a listing beside the record."""
    return any(isinstance(each, RawInput) and each.listed for each in inputs)


def inputs_digest(inputs: Iterable[FeedInput | RawInput]) -> str:
    """16 hex digits, equal exactly if the same updates and raw files were read, in any order.

    For a context input from a feed, only counts whether it had an update. A source without files counts like no source,
    so `inputs` must be in full (see `read_sets.in_full`).
    """
    return short_digest("\n".join(sorted(line for each in inputs if (line := _line(each)) is not None)))


def _totals(files: Sequence[RawFile]) -> RawHour:
    digest = short_digest(json.dumps(sorted((file.path, file.size, file.tag) for file in files)))
    return RawHour(len(files), sum(file.size for file in files), digest, total([file.records for file in files]))


def total(numbers: Sequence[int | None]) -> int | None:
    """The sum; None if a number is unknown."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _line(each: FeedInput | RawInput) -> str | None:
    if isinstance(each, FeedInput):
        return json.dumps(
            ["context", each.feed, each.partition, each.update is not None]
            if each.context
            else ["feed", each.feed, each.partition, each.update]
        )
    if not each.files:
        return None
    files = sorted((file.path, file.size, file.tag) for file in each.files)
    return json.dumps(["raw context" if each.context else "raw", each.source, each.partition, files])


def _facts(content: dict[str, Any]) -> Facts:
    rows = content["rows"]
    return _known(
        Facts,
        {
            **content,
            "rows": _known(Rows, rows) if rows is not None else None,
            "schema": tuple(_known(Column, each) for each in content["schema"]),
            "inputs": tuple(_input(each) for each in content["inputs"]),
        },
    )


def _input(content: dict[str, Any]) -> FeedInput | RawInput:
    if content["kind"] == "raw":
        files = tuple(_known(RawFile, each) for each in content["files"])
        listed = {hour: _known(RawHour, totals) for hour, totals in content["listed"].items()}
        return _known(RawInput, {**content, "files": files, "listed": listed})
    return _known(FeedInput, content)


def _known(kind: type[_Value], content: Mapping[str, Any]) -> _Value:
    """The value made from the known fields. Raises TypeError if a field has a value of another type."""
    expected = _types(cast("Any", kind))
    known = {name: value for name, value in content.items() if name in expected}
    for name, value in known.items():
        types, of = expected[name]
        if type(value) not in types or (of and not {type(each) for each in value.values()} <= {of}):
            raise TypeError(f"{name} is {shortened(repr(value), 100)}")
    return kind(**known)


@cache
def _types(kind: Any) -> Mapping[str, tuple[Collection[type], type | None]]:
    """The types that each field of a dataclass takes, and that of the values of a mapping, if it is one type."""
    found: dict[str, tuple[Collection[type], type | None]] = {}
    for name, hint in get_type_hints(kind).items():
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Mapping:
            found[name] = {dict}, None if arguments[1] is Any else arguments[1]
        elif origin is Literal:
            found[name] = {str}, None
        else:
            found[name] = {tuple} if origin is tuple else set(arguments) or {hint}, None
    return found


def _time(text: str) -> datetime:
    """A time in ISO 8601 with its zone. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)
