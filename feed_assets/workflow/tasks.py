"""Tasks: the units of work of a workflow, and its configurations and controls, which have the same form.

Here: what a task is, what clients send to make one, and how large it may be. Not here: the memory that holds all tasks
(`state`), and what changes them (`calls`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from feed_assets.blackboard.keys import check_key, check_prefix
from feed_assets.blackboard.port import InvalidKeyError
from feed_assets.datasets.names import name_fault

CONFIGURATION: Final = "configuration"
"""The group of configuration tasks: one for each type, which is its key."""
CONTROL: Final = "control"
"""The group of what a person has ordered, such as `pause:split`, which is the key."""
OWN_GROUPS: Final = frozenset({CONFIGURATION, CONTROL})
"""No worker leases these tasks."""
ALL: Final = "all"
"""What an order names for all groups; so no group is called that."""

MOST_PAYLOAD: Final = 4 * 1024
MOST_TASK: Final = 64 * 1024
MOST_TASKS: Final = 1_000
"""The most tasks of a mutation, and of a bundle."""
MOST_NAME: Final = 200
MOST_CHECKPOINT: Final = 1024
MOST_REASON: Final = 500
"""How many characters of the reason for a failure are kept."""
MOST_DELAY: Final = 600.0
PRIORITIES: Final = range(10)
ADVANTAGE: Final = 600.0
"""Seconds by which a step of priority lets a task start earlier than others."""

ATTEMPTS: Final = 5
"""How often a task is tried before it is dead."""
MOST_WAITING: Final = 100_000
"""How many tasks of a group may wait before it counts as full."""

Status = Literal["waiting", "leased", "dead"]


class Bundle(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Tasks of a group that one worker leases together, once all `size` of them are there."""

    name: str
    size: int


class Task(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A task. It never changes: a change, also of its lease, is a new task with a new id that replaces it.

    `unit` is the id of its first version, and `origin` that of the unit from which it was made in the end. `payload` is
    JSON; `files` are keys below the base. `since` (seconds since 1970) is when it may start. `holder` is the session
    that has leased it for `seconds`, and "" if nobody has. `attempt` counts failures and lost leases; `reasons` say
    why. A member of a bundle that a person dropped is `empty`.
    """

    id: int
    unit: int
    origin: int
    group: str
    type: str
    payload: bytes
    since: float
    key: str = ""
    bundle: Bundle | None = None
    files: tuple[str, ...] = ()
    priority: int = 0
    delay: float = 0.0
    attempt: int = 0
    holder: str = ""
    seconds: float = 0.0
    progress: float = 0.0
    checkpoint: str = ""
    dead: bool = False
    empty: bool = False
    reasons: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """Whether it waits, is leased, or has failed too often."""
        return "leased" if self.holder else "dead" if self.dead else "waiting"

    @property
    def order(self) -> tuple[float, int]:
        """Tasks start in this order: a task that has waited for long comes before a newer one of higher priority."""
        return self.since - ADVANTAGE * self.priority, self.id


class NewBundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bundle, as a client names it."""

    name: str
    size: int


class NewTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a client sends to make a task. Its group is its type's unless it names another one.

    `delay` is the number of seconds until it may start. A task with a key has no files, and its payload is the same
    whenever the key is.
    """

    type: str
    payload: Any = None
    group: str = ""
    key: str = ""
    bundle: NewBundle | None = None
    files: tuple[str, ...] = ()
    priority: int = 0
    delay: float = 0.0


class Settings(msgspec.Struct, frozen=True):
    """What the configuration of a type tells the workflow. The rest of its payload is the worker's business.

    `digest` is that of the worker's code and parameters. A group of the type's name is full with `most` waiting tasks.
    A task that failed `attempts` times is dead.
    """

    digest: str = ""
    most: Annotated[int, msgspec.Meta(ge=1)] = MOST_WAITING
    attempts: Annotated[int, msgspec.Meta(ge=1, le=1000)] = ATTEMPTS


settings_of = lru_cache(maxsize=1024)(msgspec.json.Decoder(Settings).decode)
"""The settings in the payload of a configuration. Raises msgspec.ValidationError."""

_encode = msgspec.json.Encoder(order="deterministic").encode


class Fault(NamedTuple):
    """Why a client's task cannot be one."""

    code: Literal["Invalid", "TooLarge"]
    message: str


class PayloadError(ValueError):
    """A payload that JSON cannot express."""


def encoded_payload(payload: Any) -> bytes:
    """A payload as JSON; equal payloads give equal bytes. Raises PayloadError."""
    try:
        encoded = _encode(payload)
    except (TypeError, ValueError, RecursionError) as error:
        raise PayloadError(f"the payload is no JSON: {error}") from error
    if b"null" in encoded and _has_no_number(payload):
        raise PayloadError("the payload is no JSON: it has a number that is infinite, or none (NaN)")
    return encoded


def fault_of(task: NewTask, payload: bytes) -> Fault | None:
    """Why a client's task cannot be one; None if it can. `payload` is its payload as JSON."""
    return next(_faults(task, payload), None)


def problem_of(task: NewTask) -> str:
    """Why a client's task cannot be one, for a client that asks before it sends the task; "" if it can."""
    try:
        fault = fault_of(task, encoded_payload(task.payload))
    except PayloadError as error:
        return str(error)
    return fault.message if fault else ""


def name_problem(name: str) -> str | None:
    """Why this cannot be the name of a type or a group, which are segments of keys; None if it can."""
    return name_fault(name, path=False) if len(name) <= MOST_NAME else f"it has more than {MOST_NAME} characters"


_known_name_problem = lru_cache(maxsize=1024)(name_problem)


def _faults(task: NewTask, payload: bytes) -> Iterator[Fault]:
    yield from _faults_of_names(task)
    yield from _faults_of_sizes(task, payload)
    if task.priority not in PRIORITIES:
        yield Fault("Invalid", f"priority {task.priority}: it is 0 to {PRIORITIES[-1]}")
    if not 0 <= task.delay <= MOST_DELAY:
        yield Fault("Invalid", f"delay {task.delay:g}: it is 0 to {MOST_DELAY:g} seconds")
    if task.key and task.files:
        yield Fault("Invalid", "a task with a key has no files: its worker lists its input after the lease")
    if task.key and task.bundle:
        yield Fault("Invalid", "a task with a key is in no bundle")
    if task.bundle and not 1 <= task.bundle.size <= MOST_TASKS:
        yield Fault("Invalid", f"the size of the bundle is {task.bundle.size:,}: it is 1 to {MOST_TASKS:,}")


def _faults_of_names(task: NewTask) -> Iterator[Fault]:
    group = task.group or task.type
    if not task.type:
        yield Fault("Invalid", "the type is missing: name the stage that does the work")
    if group in OWN_GROUPS or group == ALL:
        yield Fault("Invalid", f"the group {group} belongs to the workflow itself")
    for field, name in (("type", task.type), ("group", group)):
        if problem := _known_name_problem(name):
            yield Fault("Invalid", f"{field} {name[:50]!r}: {problem}")
    for field, name in (("key", task.key), ("bundle", task.bundle.name if task.bundle else "")):
        if len(name) > MOST_NAME or not name.isprintable():
            yield Fault("Invalid", f"{field} {name[:50]!r}: a name has at most {MOST_NAME} printable characters")
    if task.bundle and not task.bundle.name:
        yield Fault("Invalid", "the bundle has no name")
    for name in task.files:
        try:
            (check_prefix if name.endswith("/") else check_key)(name)
        except InvalidKeyError as error:
            yield Fault("Invalid", f"files: {str(error).removesuffix('.')}")


def _faults_of_sizes(task: NewTask, payload: bytes) -> Iterator[Fault]:
    if len(payload) > MOST_PAYLOAD:
        yield Fault("TooLarge", f"the payload has {len(payload):,} bytes, at most {MOST_PAYLOAD:,}: use files")
    if (size := len(payload) + sum(map(len, task.files))) > MOST_TASK:
        yield Fault("TooLarge", f"payload and names of files have {size:,} bytes, at most {MOST_TASK:,}: name a folder")


def _has_no_number(payload: Any) -> bool:
    """Whether a float in a payload is infinite or none: the encoder writes `null` for it."""
    if isinstance(payload, float):
        return not math.isfinite(payload)
    if isinstance(payload, dict):
        return any(map(_has_no_number, payload.values()))
    return isinstance(payload, list | tuple) and any(map(_has_no_number, payload))
