"""What a record changes in the store: one key of the destination's space, or what a function of the user says.

Here: the record as that function sees it, and checking what it returns. The function is pure: it is called again when a
record is read again, and what it returns must depend on the record alone. Not here: applying changes (`settling`).
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import msgspec

from feed_assets.delivery.destination import Destination
from feed_assets.delivery.encoding import DETAILS, key_text
from feed_assets.delivery.errors import DestinationError, PoisonedError
from feed_assets.delivery.records import DELETE, Details
from feed_assets.delivery.stores.port import Change
from feed_assets.delivery.streams.port import Read
from feed_assets.delivery.versions import foreign_version

TRIES: Final = 3


class Arrived(NamedTuple):
    """A record that was read: which row of which delivery it is; None: of nobody's."""

    details: Details | None
    read: Read

    def row(self) -> dict[str, msgspec.Raw]:
        """The row, as JSON by column."""
        row = msgspec.json.decode(self.read.data, type=dict[str, msgspec.Raw])
        del row[DETAILS]
        return row


@dataclass(frozen=True, slots=True)
class Record:
    """A record on its way into the store, as a function of `dispatch` gets and returns it.

    `key` has the values of the key's columns, `row` those of all columns as JSON has them; of a delete, those of the
    key only. So the key of a target must follow from the key: nobody knows other columns of a row that is gone.

    `foreign` is a record of the stream that no delivery has sent, if the destination says `foreign: handle`: `data` are
    its bytes, `key` is its partition key. To store it, return it as a `put` with a `row`. It never overwrites a
    delivery's.
    """

    op: Literal["put", "delete", "foreign"]
    key: tuple[Any, ...]
    row: Mapping[str, Any] = field(default_factory=dict)
    partition: str = ""
    data: bytes = b""


Function = Callable[[Record], Iterable[tuple[str, Record]]]
"""The records into which a record turns, each with its target: a space of the store."""
Dispatch = Callable[[Arrived], Sequence[tuple[str, Change]]]
"""The changes that a record makes, each with its space. Raises PoisonedError."""


def store_key(to: Destination, partition: str, values: Sequence[object]) -> str:
    """The key in the store of a row with these values of the key's columns, as JSON has them."""
    return placed_key(to, partition, key_text(values))


def placed_key(to: Destination, partition: str, key: str) -> str:
    """The key in the store of a row whose key is this text."""
    return key if to.values == "newest" else f"{partition}/{key}"


def dispatch_of(to: Destination) -> Dispatch:
    """The changes of a destination with a store. Raises DestinationError if its function cannot be loaded."""
    return dispatch_by(to, load_function(to)) if to.dispatch else dispatch_to_store(to)


def dispatch_to_store(to: Destination) -> Dispatch:
    """One change for each record of a delivery, in the destination's space."""

    def dispatch(arrived: Arrived) -> Sequence[tuple[str, Change]]:
        if (details := arrived.details) is None:
            return ()
        row = arrived.row()
        key = store_key(to, details.partition, [msgspec.json.decode(row[each]) for each in to.key])
        value = None if details.op == DELETE else msgspec.json.encode(row)
        return [(to.store_space, Change(key, details.version.packed(), value))]

    return dispatch


def dispatch_by(to: Destination, function: Function) -> Dispatch:
    """The changes that a function says. If it fails three times, the record is poisoned."""

    def dispatch(arrived: Arrived) -> Sequence[tuple[str, Change]]:
        version = arrived.details.version.packed() if arrived.details else foreign_version(arrived.read.sequence)
        partition = arrived.details.partition if arrived.details else ""
        record, tries = _record(to, arrived), TRIES
        while True:
            tries -= 1
            try:
                return [_change(to, partition, version, *each) for each in function(record)]
            except Exception as error:  # noqa: BLE001 - of the user's function
                if not tries:
                    raise PoisonedError(f"{_name(arrived)}: `dispatch: {to.dispatch}` {_failed(error)}") from None

    return dispatch


def load_function(to: Destination) -> Function:
    """The function of `dispatch`. Raises DestinationError."""
    module, _, name = to.dispatch.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except ImportError as error:
        advice = "Install it, or start the command in the folder that has it"
        raise DestinationError(f"{to.name}: dispatch: {module} cannot be imported: {error}. {advice}.") from None
    except AttributeError:
        raise DestinationError(f"{to.name}: dispatch: {module} has no {name}. Correct the name.") from None
    if not callable(found):
        raise DestinationError(f"{to.name}: dispatch: {name} of {module} is no function. Name one.")
    function: Function = found
    return function


def _record(to: Destination, arrived: Arrived) -> Record:
    details = arrived.details
    if details is None:
        return Record("foreign", (arrived.read.key,), data=arrived.read.data)
    row = {name: msgspec.json.decode(value) for name, value in arrived.row().items()}
    op: Literal["put", "delete"] = "delete" if details.op == DELETE else "put"
    return Record(op, tuple(row[each] for each in to.key), row, details.partition)


def _change(to: Destination, partition: str, version: bytes, space: str, record: Record) -> tuple[str, Change]:
    """The change of a record that the function has returned. Raises ValueError, without any data of the record."""
    if space not in to.spaces:
        raise _WrongAnswerError(f"the target is none of {', '.join(to.spaces)}: name it in `targets`")
    if record.op not in {"put", "delete"}:
        raise _WrongAnswerError("`op` is neither put nor delete")
    if not (key := key_text(record.key)):
        raise _WrongAnswerError("the key is empty, or has None")
    value = None if record.op == DELETE else msgspec.json.encode(record.row)
    return space, Change(placed_key(to, partition, key), version, value)


class _WrongAnswerError(ValueError):
    """A function has returned what cannot be applied. The message has no data."""


def _name(arrived: Arrived) -> str:
    """The name of a record, without its key and its data."""
    if arrived.details is None:
        return f"record {arrived.read.sequence} of no delivery"
    return f"ordinal {arrived.details.ordinal} of edition {arrived.details.edition} {arrived.details.partition}".strip()


def _failed(error: Exception) -> str:
    """What an exception says without data of the record, which its own text may have."""
    if isinstance(error, _WrongAnswerError):
        return f"returned a wrong answer: {error}."
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"raised {type(error).__name__} at {last.filename}:{last.lineno}."
