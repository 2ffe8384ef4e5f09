"""What the API of workflows answers: the types of its JSON. Not here: finding the answers (`watched_workflows`).

Times are in seconds since 1970, as in the API of a master.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from feed_assets.workflow.calls import TaskView

GivenOrder = Literal["pause", "resume", "retry", "drop"]


class WorkflowSays(msgspec.Struct, frozen=True):
    """A workflow of the project, its stages as the project declares them, and whether the caller may give orders."""

    name: str
    stages: list[str]
    may_control: bool


class WorkflowsSay(msgspec.Struct, frozen=True):
    """The workflows of the project that the token may read."""

    workflows: list[WorkflowSays]


class MasterSays(msgspec.Struct, frozen=True):
    """The newest master: where it answers, which process it is, and since when."""

    epoch: int
    url: str
    host: str
    process: int
    since: float


class StandingOrder(msgspec.Struct, frozen=True):
    """An order of a person that is in force: `pause` or `interdict`, of a group or of `all`."""

    order: str
    target: str
    by: str
    reason: str
    since: float


class GroupSays(msgspec.Struct, frozen=True):
    """A group: its tasks, the orders about it, and since when its oldest waiting task could have started.

    `gathering` of those that wait do so for the rest of their bundle. `is_spent`: only retries wait, and those of the
    last minutes are used up.
    """

    name: str
    waiting: int
    leased: int
    dead: int
    gathering: int
    oldest: float | None
    is_full: bool
    is_spent: bool
    orders: list[StandingOrder]


class StateSays(msgspec.Struct, frozen=True):
    """A workflow now. Without an answer of its master there is a `problem`, which says what to do, and no group.

    `columns` has the groups from the first stages to the last, and `feeds` which types have made tasks of which groups.
    `leased` and `dead` are the first of these tasks. `hints` are what else a person may have to do.
    """

    name: str
    now: float
    may_control: bool
    problem: str = ""
    hints: list[str] = []
    master: MasterSays | None = None
    position: int = 0
    sessions: int = 0
    columns: list[list[GroupSays]] = []
    feeds: list[tuple[str, str]] = []
    leased: list[TaskView] = []
    dead: list[TaskView] = []


class EventSays(msgspec.Struct, frozen=True):
    """What became of a unit at a position of the journal: its new id (0 if it is gone), and the session that did it."""

    position: int
    at: float
    what: str
    id: int
    who: str


class UnitSays(msgspec.Struct, frozen=True):
    """A unit: its task if it is not done and the master answers, and its story as far as the journal is kept."""

    unit: int
    now: float
    may_control: bool
    task: TaskView | None
    problem: str
    story: list[EventSays]


class OrderGiven(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An order: `pause` or `resume` a group (or `all`), `retry` or `drop` a unit, by its number."""

    order: GivenOrder
    target: str
    reason: str


class OrderSays(msgspec.Struct, frozen=True):
    """The order is in the journal."""

    order: GivenOrder
    target: str
    by: str
