"""What clients ask of a workflow, and what it answers: the forms of both.

Here: the calls, replies and refusals, as they travel. Not here: what a call changes (`machine`), and HTTP (`service`).
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from feed_assets.errors import FeedAssetsError
from feed_assets.workflow.tasks import NewTask

Code = Literal[
    "WrongMaster", "NotMaster", "Busy", "Full", "SessionLost", "Forgotten", "TooLarge", "Unauthorized", "LeaseLost",
    "ConfigurationChanged", "Interdicted", "Conflict", "NotFound", "Invalid",
]  # fmt: skip
Order = Literal["pause", "resume", "interdict", "lift", "retry", "drop"]


OTHER_CODE: Final = "its configuration is another one than this worker's"
"""Why a worker gets no task of a type of which it has other code than the configuration in force."""


class Refused(FeedAssetsError):  # noqa: N818 - the word of the calls
    """The workflow did not do what a call asks; nothing has changed. `ids` are the tasks it is about."""

    def __init__(self, code: Code, message: str, *, ids: tuple[int, ...] = (), retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.code, self.ids, self.retry_after = code, ids, retry_after


class Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every call has: the workflow that the client means, and the highest epoch that it has seen."""

    token: str
    epoch: int = 0


class Hello(Call, frozen=True, tag_field="call", tag="hello"):
    """Begin a session. `build` is for people: the client's program and version."""

    build: str = ""


class Numbered(Call, frozen=True):
    """A call of a session. The client counts them: 1, 2, 3 ..., and sends a call without an answer again."""

    session: str
    seq: int


class Lease(Numbered, frozen=True, tag_field="call", tag="lease"):
    """Lease tasks of one type, the first of `types` that has any, for `seconds`.

    Waits `wait` seconds for one. `digests` are those of the configurations that the worker has, by type: it gets no
    task of a type that has another one.
    """

    types: tuple[str, ...]
    most: int = 1
    seconds: float = 60.0
    wait: float = 0.0
    digests: dict[str, str] = {}


class Renew(Numbered, frozen=True, tag_field="call", tag="renew"):
    """Lease tasks for `seconds` from now, under new ids; keep how far they are, and what the next worker needs."""

    ids: tuple[int, ...]
    seconds: float = 60.0
    progress: float = 0.0
    checkpoint: str | None = None


class Commit(Numbered, frozen=True, tag_field="call", tag="commit"):
    """Replace tasks by those that they produce. `configurations` are the ids of those that were used, by type."""

    consume: tuple[int, ...]
    configurations: dict[str, int]
    produce: tuple[NewTask, ...] = ()


class Release(Numbered, frozen=True, tag_field="call", tag="release"):
    """Give tasks back, which may start again `after` seconds."""

    ids: tuple[int, ...]
    reason: str = ""
    after: float = 0.0
    checkpoint: str | None = None


class Fail(Numbered, frozen=True, tag_field="call", tag="fail"):
    """Give tasks back that could not be done. `after`: seconds until the next try; None: longer each time."""

    ids: tuple[int, ...]
    reason: str
    after: float | None = None
    checkpoint: str | None = None


class Insert(Numbered, frozen=True, tag_field="call", tag="insert"):
    """Insert tasks."""

    tasks: tuple[NewTask, ...]


class Configure(Numbered, frozen=True, tag_field="call", tag="configure"):
    """Replace the configuration of a type; `replaces` is the id of the present one, or 0."""

    type: str
    payload: dict[str, Any]
    replaces: int = 0


class Command(Numbered, frozen=True, tag_field="call", tag="command"):
    """An order of a person. `target` is a group, `all`, or the number of a unit."""

    order: Order
    target: str
    by: str
    reason: str


AnyCall = Hello | Lease | Renew | Commit | Release | Fail | Insert | Configure | Command


class Answer(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a client is told; a repeated call gets the same. `there`: which of the ids were there already.

    `lost`: ids of a renewal that are not this session's any more. `reason` says why there is nothing to lease.
    """

    ids: tuple[int, ...] = ()
    there: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    session: str = ""
    reason: str = ""
    refused: Code | Literal[""] = ""
    message: str = ""
    retry_after: float = 0.0


class TaskView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A task, as clients see it.

    Lists name the `worker`'s program, and since when (`began`, seconds since 1970) it has the task, if the master was
    there when the worker said so.
    """

    id: int
    unit: int
    origin: int
    group: str
    type: str
    payload: msgspec.Raw
    status: str
    since: float
    key: str = ""
    bundle: str = ""
    size: int = 0
    files: tuple[str, ...] = ()
    priority: int = 0
    delay: float = 0.0
    attempt: int = 0
    holder: str = ""
    seconds: float = 0.0
    progress: float = 0.0
    checkpoint: str = ""
    empty: bool = False
    reasons: tuple[str, ...] = ()
    worker: str = ""
    began: float = 0.0


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a call: from which workflow, epoch and position it is, and what it says."""

    token: str
    epoch: int
    position: int
    answer: Answer
    tasks: tuple[TaskView, ...] = ()
    configurations: tuple[TaskView, ...] = ()
    """Those in force, of the types that the call is about."""
