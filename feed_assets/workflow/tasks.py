"""Tasks: the units of work of a workflow, and its configurations and controls, which have the same form.

Here: what a task is, what clients send to make one, and how large it may be. Not here: the memory that holds all tasks
(`state`), and what changes them (`calls`).
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

CONFIGURATION: Final = "configuration"
"""The group of configuration tasks: one for each type, which is its key."""
CONTROL: Final = "control"
"""The group of what a person has ordered, such as `pause:split`, which is the key."""
OWN_GROUPS: Final = frozenset({CONFIGURATION, CONTROL})
"""No worker leases these tasks."""

MOST_PAYLOAD: Final = 4 * 1024
MOST_TASK: Final = 64 * 1024
MOST_TASKS: Final = 1_000
"""The most tasks of a mutation, and of a bundle."""
MOST_NAME: Final = 200
MOST_CHECKPOINT: Final = 1024
MOST_DELAY: Final = 600.0
PRIORITIES: Final = range(10)
ADVANTAGE: Final = 600.0
"""Seconds by which a step of priority lets a task start earlier than others."""

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
        if self.dead:
            return "dead"
        return "leased" if self.holder else "waiting"

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


_encode = msgspec.json.Encoder(order="deterministic").encode


def encoded_payload(payload: Any) -> bytes:
    """A payload as JSON; equal payloads give equal bytes."""
    return _encode(payload)


def fault_of(task: NewTask, payload: bytes) -> str | None:
    """Why a client's task cannot be one; None if it can. `payload` is its payload as JSON."""
    group = task.group or task.type
    names = {"type": task.type, "group": group, "key": task.key, "bundle": task.bundle.name if task.bundle else ""}
    for field, name in names.items():
        if len(name) > MOST_NAME or not name.isprintable():
            return f"{field} {name[:50]!r}: a name has at most {MOST_NAME} printable characters"
    size = len(payload) + sum(map(len, task.files))
    faults = (
        (not task.type, "the type is missing: name the stage that does the work"),
        (group in OWN_GROUPS, f"the group {group} belongs to the workflow itself"),
        (len(payload) > MOST_PAYLOAD, f"the payload has {len(payload):,} bytes, at most {MOST_PAYLOAD:,}: use files"),
        (size > MOST_TASK, f"payload and names of files have {size:,} bytes, at most {MOST_TASK:,}: name a folder"),
        (task.priority not in PRIORITIES, f"priority {task.priority}: it is 0 to {PRIORITIES[-1]}"),
        (not 0 <= task.delay <= MOST_DELAY, f"delay {task.delay:g}: it is 0 to {MOST_DELAY:g} seconds"),
        (bool(task.key and task.files), "a task with a key has no files: its worker lists its input after the lease"),
        (bool(task.key and task.bundle), "a task with a key is in no bundle"),
        (bool(task.bundle) and not task.bundle.name, "the bundle has no name"),  # type: ignore[union-attr] # short-cut
        (
            task.bundle is not None and not 1 <= task.bundle.size <= MOST_TASKS,
            f"the size of the bundle is 1 to {MOST_TASKS:,}",
        ),
    )
    return next((what for wrong, what in faults if wrong), None)
