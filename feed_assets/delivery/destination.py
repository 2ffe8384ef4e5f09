"""Destinations: which feed goes to which stream, under which key, and into which store.

Here: the YAML file of a destination, and all that is wrong in one. Not here: streams and stores themselves, and the
columns of the feed (`staging`).
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator, model_validator

from feed_assets.blackboard.keys import check_key
from feed_assets.delivery.errors import DestinationError
from feed_assets.delivery.stores.address import store_kind
from feed_assets.delivery.streams.address import require_stream
from feed_assets.errors import FeedAssetsError
from feed_assets.file_feed.names import check_label
from feed_assets.sources.field_problems import field_message
from feed_assets.sources.positions import dotted, read_document

Columns = Annotated[tuple[str, ...], Field(min_length=1)]
_NO_STORE: Final = "is for a destination with a store; name one in `store:`, or leave this out"


class Destination(BaseModel):
    """A stream to which the updates of a feed are delivered, and the rules. Seconds are whole numbers.

    `feed` is a location below the base, `stream` and `store` are addresses. `key` names the columns that identify a
    row; `shard_key` those that choose the shard.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    name: str
    """The name; ledgers, records and versions have it, so it stays."""
    feed: str
    """The feed, `NAME/VERSION` below the base."""
    stream: str
    """`kinesis://REGION/NAME`, or `local://NAME?shards=2` for a stream in a file of this machine."""
    columns: Columns
    """The columns that are sent."""
    key: Columns
    """The columns that identify a row: the key in the store. No two rows of an update have the same."""
    shard_key: Columns | None = Field(None, alias="partition_key")
    """The columns that choose the shard.

    Default: those of `key`.
    """
    mode: Literal["changes", "all"] = "changes"
    """`changes`: what differs from the last delivery of the partition. `all`: every row each time."""
    store: str | None = None
    """`sqlite`, `sqlite:////FILE` or `redis://HOST:PORT/DATABASE`, which the consumer fills; with TLS `rediss://`.

    User and password are in the variable `FEED_ASSETS_STORE_<DESTINATION>`, never here. Default: none.
    """
    space: str = ""
    """The first part of the store's keys; only this destination writes there.

    Default: the name.
    """
    dispatch: str = ""
    """`package.module:function`, which says what a record changes: `record -> [(target, record)]`.

    Default: one change in `space`.
    """
    targets: tuple[str, ...] = ()
    """The spaces of the store into which `dispatch` puts records. Default: `space`."""
    foreign: Literal["ignore", "handle"] = "ignore"
    """What happens to records of the stream that no delivery has sent. `handle`: `dispatch` gets them, too."""
    poison: Literal["stop"] = "stop"
    """What happens when `dispatch` fails for a record: its shard waits."""
    values: Literal["newest", "per_partition"] = "newest"
    """`newest`: a key has the value of the newest partition. `per_partition`: it has one for each."""
    since: Literal["all", "now"] | date = Field("all", alias="from")
    """The partitions of a new destination: `all` of them, or those published from `now` on, or since a date."""
    bad_rows: Literal["fail"] = "fail"
    """`fail`: a row that cannot be sent fails the delivery before anything is sent."""
    records_a_second: int = Field(1_000, ge=1)
    """Records that a shard takes in a second."""
    bytes_a_second: int = Field(1_000_000, ge=1)
    """Bytes that a shard takes in a second, with keys."""
    queue_bytes: int = Field(32 * 1024 * 1024, ge=1024 * 1024)
    """Bytes that a sender holds at most."""
    give_up_after: int = Field(3600, ge=1)
    """Seconds without any acknowledged row after which a sender fails. The delivery is resumed later."""
    resume_within: int = Field(6 * 3600, ge=0)
    """Seconds for which an open delivery is resumed although a newer update is in force."""
    settle_within: int = Field(15 * 60, ge=1)
    """Seconds after which a delivery is overdue that the store has not settled."""
    settled_by: Literal["consumer", "watcher", "none"] | None = None
    """Who proves that rows have arrived: `consumer`, a `watcher` that only reads the stream, or `none`.

    Default: `consumer` with a store, `none` without.
    """

    _path: Path | None = PrivateAttr(default=None)

    @field_validator("name", "space")
    @classmethod
    def _is_label(cls, value: str) -> str:
        return _told(lambda: check_label(value, "destination")) if value else value

    @field_validator("feed")
    @classmethod
    def _is_below_the_base(cls, value: str) -> str:
        _told(lambda: check_key(value))
        return value

    @field_validator("since", mode="before")
    @classmethod
    def _is_day(cls, value: object) -> object:
        try:
            return value if value in ("all", "now") or isinstance(value, date) else date.fromisoformat(str(value))
        except ValueError:
            raise ValueError(f"is {value!r}; write all, now, or a date such as 2024-01-31") from None

    @field_validator("dispatch")
    @classmethod
    def _is_path(cls, value: str) -> str:
        module, _, function = value.partition(":")
        if value and not (function.isidentifier() and all(each.isidentifier() for each in module.split("."))):
            raise ValueError(f"is {value!r}; write package.module:function")
        return value

    @field_validator("targets")
    @classmethod
    def _are_labels(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_told(lambda each=each: check_label(each, "target")) for each in value)

    @field_validator("stream")
    @classmethod
    def _is_stream(cls, value: str) -> str:
        _told(lambda: require_stream(value))
        return value

    @field_validator("store")
    @classmethod
    def _is_store(cls, value: str | None) -> str | None:
        if value is not None:
            _told(lambda: store_kind(value))
        return value

    @field_validator("columns", "key", "shard_key")
    @classmethod
    def _has_no_doubles(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is not None and len(set(value)) < len(value):
            raise ValueError(f"is {list(value)}: it names a column twice")
        return value

    @field_validator("key", "shard_key")
    @classmethod
    def _is_within_columns(cls, value: tuple[str, ...] | None, info: Any) -> tuple[str, ...] | None:
        columns = info.data.get("columns")
        if value and columns and (missing := [each for each in value if each not in columns]):
            raise ValueError(f"has {', '.join(missing)}, which is not among `columns`; add it there")
        return value

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not self.name:
            raise ValueError("has an empty name")
        if self.store is None and self.settled_by == "consumer":
            raise ValueError(f"settled_by {_NO_STORE}")
        for name in ("dispatch", "targets"):
            if getattr(self, name) and self.store is None:
                raise ValueError(f"{name} {_NO_STORE}")
        for name, is_used in (("targets", self.targets), ("foreign", self.foreign == "handle")):
            if is_used and not self.dispatch:
                raise ValueError(f"{name} is for a destination with `dispatch`; name its function, or leave this out")
        return self

    def problem(self, field: str, message: str) -> str:
        """A line about what is wrong with a field: with file and number of the line, if it was loaded from a file."""
        if self._path is None:
            return f"{self.name}: {field}: {message}"
        # The file as it is now: a destination keeps no positions, which only such a line needs.
        line = read_document(self._path.read_text(encoding="utf-8-sig")).line((field,))
        return f"{self._path}:{line}: {field}: {message}"

    @property
    def stream_address(self) -> str:
        """The stream without options: two destinations may share it."""
        return self.stream.partition("?")[0]

    @property
    def shard_columns(self) -> tuple[str, ...]:
        """The columns that choose the shard."""
        return self.shard_key or self.key

    @property
    def store_space(self) -> str:
        """The space in the store."""
        return self.space or self.name

    @property
    def spaces(self) -> tuple[str, ...]:
        """The spaces in the store that the consumer fills."""
        return self.targets or (self.store_space,)

    @property
    def who_settles(self) -> str:
        """Who proves that rows have arrived: `consumer`, `watcher` or `none`."""
        return self.settled_by or ("consumer" if self.store else "none")


def load_destination(path: Path | str) -> Destination:
    """The destination that a YAML file describes. Raises DestinationError with a line for each problem."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DestinationError(f"{path}: cannot be read as UTF-8 text: {error}") from None
    document = read_document(text)
    problems = [(each.line, each.field, each.message) for each in document.problems]
    if document.values is not None:
        try:
            found = Destination.model_validate(document.values)
        except ValidationError as error:
            fields = [field.alias or name for name, field in Destination.model_fields.items()]
            for details in error.errors(include_url=False):
                location = details["loc"]
                problems.append((document.line(location), dotted(location), field_message(details, fields)))
        else:
            if not problems:
                found._path = path  # noqa: SLF001 - its own
                return found
    raise DestinationError("\n".join(": ".join(filter(None, (f"{path}:{n}", *rest))) for n, *rest in sorted(problems)))


def load_destinations(directory: Path) -> tuple[Destination, ...]:
    """The destinations that the `*.yaml` files of a directory describe, by name. Raises DestinationError."""
    found: dict[str, tuple[Path, Destination]] = {}
    problems = []
    for path in sorted(directory.glob("*.yaml")):
        try:
            destination = load_destination(path)
        except DestinationError as error:
            problems.append(str(error))
            continue
        other, _ = found.setdefault(destination.name, (path, destination))
        if other != path:
            problems.append(f"{path}:1: name: {other.name} describes {destination.name} too; rename one of them")
    spaces = {space for _, each in found.values() if each.store for space in each.spaces}
    problems += [_shared_space(found, each) for each in sorted(spaces)]
    if problems := list(filter(None, problems)):
        raise DestinationError("\n".join(problems))
    return tuple(each for _, (_, each) in sorted(found.items()))


def _shared_space(found: dict[str, tuple[Path, Destination]], space: str) -> str:
    """The problem that two destinations write into one space of one store; "" if they do not."""
    owners = [(path, each) for path, each in found.values() if each.store and space in each.spaces]
    stores = [each.store for _, each in owners]
    if len(stores) == len(set(stores)):
        return ""
    names = " and ".join(each.name for _, each in owners)
    return f"{owners[-1][0]}:1: space: {names} would write into the space {space}; versions of two feeds do not compare"


def _told(check: Any) -> Any:
    """What `check` returns; its error as pydantic wants it."""
    try:
        return check()
    except FeedAssetsError as error:
        raise ValueError(f"is wrong: {error}") from None
