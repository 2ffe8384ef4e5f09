"""The record of an update: what it was made from, what is in it, and what became of it.

Here: the values, and their JSON. Not here: where records are kept (`control`). A record never decides
whether an update is valid; that is the manifest's alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeVar

from feed_assets.file_feed.errors import UnreadableRecordError
from feed_assets.file_feed.feed import File
from feed_assets.file_feed.names import check_update

FORMAT = 2
"""Raised when a record changes so that an older reader would misunderstand it; added fields do not. Format 2 has read
sets whose files are listed beside the record; any other record is written as format 1."""

_Value = TypeVar("_Value")
State = Literal["staged", "publishing", "published", "rejected", "invalidated"]
"""How far an update has come.

- staged: written; its audit is to come.
- publishing: its audit passed; its manifest is about to be written. Without a manifest, its writer stopped in between.
- published: its manifest was written. Without a valid manifest, somebody took it out of force.
- rejected: its audit turned it away.
- invalidated: somebody took it out of force, with a reason.
"""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an update. `reasons` counts what was quarantined or a duplicate by its reason."""

    read: int
    published: int
    quarantined: int
    duplicates: int
    reasons: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FeedInput:
    """A partition of another feed that was read; `update` is None where nothing valid was there.

    A `context` input was read, but a later change of it does not put the result behind.
    """

    feed: str
    partition: str | None
    update: str | None
    context: bool = False


@dataclass(frozen=True, slots=True)
class RawFile:
    """A raw file that was read."""

    path: str
    size: int
    tag: str


@dataclass(frozen=True, slots=True)
class RawHour:
    """The raw files of one hour: how many, the bytes of all, and a digest of their paths, sizes and tags."""

    files: int
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class RawInput:
    """The read set of one day of one source (`<kind>/<name>`): exactly these files, at that moment.

    A record of many files has no `files`; `listed` then has their totals by hour, and `read_sets.in_full` reads them.
    `context` as for a FeedInput.
    """

    source: str
    partition: str
    files: tuple[RawFile, ...]
    context: bool = False
    listed: Mapping[str, RawHour] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many files there are."""
        return len(self.files) + sum(hour.files for hour in self.listed.values())

    @property
    def bytes(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files) + sum(hour.size for hour in self.listed.values())

    @property
    def hours(self) -> Mapping[str, RawHour]:
        """The totals of each hour that has files, `00` to `23`: the first folder in their paths."""
        files: dict[str, list[tuple[str, int, str]]] = {}
        for file in self.files:
            files.setdefault(file.path.partition("/")[0], []).append((file.path, file.size, file.tag))
        hashed = {hour: _hashed(json.dumps(sorted(of))) for hour, of in files.items()}
        sizes = {hour: sum(size for _, size, _ in of) for hour, of in files.items()}
        return self.listed or {hour: RawHour(len(of), sizes[hour], hashed[hour]) for hour, of in files.items()}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the schema; `type` as Spark's simple string."""

    name: str
    type: str
    nullable: bool = True
    description: str = ""


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What a check found; `severity` is ERROR where its failing rejects the update."""

    name: str
    passed: bool
    severity: Literal["ERROR", "WARN"]
    observed: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of an update's state: to what, when, why and by whom."""

    state: State
    at: datetime
    reason: str = ""
    author: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the writer says of an update; all of it may be empty.

    `root_run_id` is the first run of a chain of re-executions; empty, `run_id` is the first one itself.
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
    """All that is known of an update, as the control area keeps it. `token` is that of its claim."""

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
        """The last state it was put into."""
        return self.history[-1].state

    @property
    def read_sets(self) -> dict[str, RawInput]:
        """What was read of each source's raw data for the update's own partition, by source."""
        raw = (each for each in self.facts.inputs if isinstance(each, RawInput))
        return {each.source: each for each in raw if each.partition == self.partition}

    def to_json(self) -> bytes:
        """Compact JSON, the same bytes for the same record."""
        content = {"format": FORMAT if has_listing(self.facts.inputs) else 1, **asdict(self)}
        for each, value in zip(content["facts"]["inputs"], self.facts.inputs, strict=True):
            each["kind"] = "raw" if isinstance(value, RawInput) else "feed"
        return json.dumps(content, default=_plain, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes, *, origin: str) -> Record:
        """Read a record; fields that are not known here are passed over. Raises UnreadableRecordError."""
        try:
            content = json.loads(data)
            written = content["format"]
            if written > FORMAT:
                raise UnreadableRecordError(
                    f"{origin} is of format {written}, and {FORMAT} is the latest known here: upgrade feed_assets."
                )
            if not content["history"]:
                message = "it has no history"
                raise ValueError(message)  # noqa: TRY301 - reported as damage, like all else that is wrong with it
            return cls(
                partition=content["partition"],
                update=check_update(content["update"]),
                owner=content["owner"],
                token=content["token"],
                files=tuple(_known(File, each) for each in content["files"]),
                facts=_facts(content["facts"]),
                checks=tuple(_known(CheckOutcome, each) for each in content["checks"]),
                history=tuple(
                    _known(Transition, {**each, "at": datetime.fromisoformat(each["at"])})
                    for each in content["history"]
                ),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UnreadableRecordError(
                f"{origin} is damaged ({error}). Reading the feed does not depend on it; its lineage is lost. "
                "Delete it to silence this."
            ) from error


def has_listing(inputs: Iterable[FeedInput | RawInput]) -> bool:
    """Whether any of these read sets has its files in a listing."""
    return any(isinstance(each, RawInput) and each.listed for each in inputs)


def inputs_digest(inputs: Iterable[FeedInput | RawInput]) -> str:
    """16 hex digits that are equal exactly where the same updates and raw files were read, in whatever order.

    Of an update that was only context, it counts whether it was there. A source that sent nothing reads like one that
    is not known.
    """
    return _hashed("\n".join(sorted(line for each in inputs if (line := _line(each)) is not None)))


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
        listed = {hour: _known(RawHour, totals) for hour, totals in content.get("listed", {}).items()}
        return _known(RawInput, {**content, "files": files, "listed": listed})
    return _known(FeedInput, content)


def _known(kind: type[_Value], content: Mapping[str, Any]) -> _Value:
    """The value made of those fields that it has."""
    names = kind.__dataclass_fields__  # type: ignore[attr-defined] # every caller passes a dataclass
    return kind(**{name: value for name, value in content.items() if name in names})


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)
