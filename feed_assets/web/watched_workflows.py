"""The workflows of a project, as their masters and the storage describe them.

Here: finding and asking a master, with short patience; all of it may block. Not here: HTTP (`workflow_operations`).
Payloads are shown, never logged.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from feed_assets.blackboard.port import Blackboard, BlackboardError
from feed_assets.web.flow_order import columns
from feed_assets.web.workflow_answers import (
    EventSays,
    GroupSays,
    MasterSays,
    OrderGiven,
    StandingOrder,
    StateSays,
    UnitSays,
)
from feed_assets.workflow.calls import Command, Refused, TaskView
from feed_assets.workflow.client import Client
from feed_assets.workflow.epochs import Address, address_of, newest_epoch
from feed_assets.workflow.errors import NoWorkflowError, UnreachableError, WorkflowError
from feed_assets.workflow.flow import Workflow
from feed_assets.workflow.places import Place, open_board, open_workflow
from feed_assets.workflow.service import Stats
from feed_assets.workflow.stories import story_of
from feed_assets.workflow.tasks import CONFIGURATION, CONTROL

PATIENCE_SECONDS: Final = 2.0
"""How long a master is looked for: a page asks again by itself."""
SHOWN_TASKS: Final = 100
_BUILD: Final = "feed-assets serve"
_OTHER_TOKENS: Final = (
    "If it has another state database than this service, set `FEED_ASSETS_WORKFLOW_TOKEN` of the service to a token of "
    "the master's."
)
_START: Final = "`feed-assets workflow serve` starts one"
_decode_tasks = msgspec.json.Decoder(list[TaskView]).decode


@dataclass(slots=True)
class WatchedWorkflows:
    """Asks the masters of a project's workflows. `base` is a URI.

    `token` is the service's own for masters. Without one, a master gets the `authorization` of the person who asks.
    """

    flows: Mapping[str, Workflow]
    base: str
    token: str | None = None
    _board: Blackboard | None = None
    _places: dict[str, Place] = field(default_factory=dict)
    _masters: dict[str, tuple[Address, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, flows: Iterable[Workflow], base: str, token: str | None = None) -> WatchedWorkflows:
        """The workflows, by their names."""
        return cls({each.name: each for each in flows}, base, token)

    def state(self, name: str, authorization: str | None, *, may_control: bool) -> StateSays:
        """A workflow now."""
        says = StateSays(name, time.time(), may_control)
        try:
            place = self._place(name)
            master = self._master(place)
        except NoWorkflowError:
            return _with(says, problem=f"{name} has not begun: it has no master yet. {_START}.")
        except (WorkflowError, BlackboardError) as error:
            return _with(says, problem=str(error))
        if master is None:
            return _with(says, problem=f"{name} has no master yet. {_START}.")
        address, since = master
        shown = MasterSays(address.epoch, address.url, address.host, address.pid, since)
        says = _with(says, master=shown)
        client = self._client(place, authorization)
        try:
            stats = msgspec.convert(client.read("stats"), Stats)
            own = {each: _tasks(client.read("tasks", group=each)) for each in (CONFIGURATION, CONTROL)}
            leased, dead = (_tasks(client.read("tasks", status=each, limit=SHOWN_TASKS)) for each in ("leased", "dead"))
        except Refused as error:
            return _with(says, problem=f"The master at {address.url} refuses to answer: {error} {_OTHER_TOKENS}")
        except UnreachableError as error:
            return _with(says, problem=_silence(name, address, error))
        return _with(
            says,
            now=time.time(),
            master=msgspec.structs.replace(shown, epoch=stats.epoch),
            position=stats.position,
            sessions=stats.sessions,
            columns=self._columns(name, stats, [_standing(each) for each in own[CONTROL]]),
            feeds=stats.feeds,
            hints=self._hints(name, {each.key: each for each in own[CONFIGURATION]}),
            leased=leased,
            dead=dead,
        )

    def unit(self, name: str, unit: int, authorization: str | None, *, may_control: bool) -> UnitSays:
        """A unit and its story. Reads the whole journal that is kept. Raises WorkflowError, BlackboardError."""
        place = self._place(name)
        task, problem = None, ""
        try:
            found = self._client(place, authorization).read("unit", unit=unit)
            (task,) = _tasks({"tasks": [found["task"]]})
        except Refused as error:
            problem = str(error)
        except UnreachableError:
            problem = f"No master answers, so this is only what the journal says. {_START}."
        story = [EventSays(**each.as_json()) for each in story_of(place, unit)]
        return UnitSays(unit, time.time(), may_control, task, problem, story)

    def order(self, name: str, given: OrderGiven, by: str, authorization: str | None) -> None:
        """Give an order to the master. Raises Refused, UnreachableError, WorkflowError, BlackboardError."""
        client = self._client(self._place(name), authorization)
        client.call(Command, order=given.order, target=given.target, by=by, reason=given.reason)

    def _client(self, place: Place, authorization: str | None) -> Client:
        def find() -> str | None:
            found = self._master(place)
            return found[0].url if found else None

        given = f"Bearer {self.token}" if self.token else authorization
        return Client(place.token, find, build=_BUILD, authorization=given, patience=PATIENCE_SECONDS)

    def _place(self, name: str) -> Place:
        if name not in self._places:
            if self._board is None:
                self._board = open_board(self.base)
            self._places[name] = open_workflow(self._board, name)
        return self._places[name]

    def _master(self, place: Place) -> tuple[Address, float] | None:
        """The newest master, and since when; None if there never was any."""
        known = self._masters.get(place.name)
        epoch = newest_epoch(place, known=known[0].epoch if known else 0)
        if not epoch:
            return None
        if known is None or known[0].epoch != epoch:
            modified = place.board.read(place.epochs.key(epoch)).entry.modified
            known = self._masters[place.name] = address_of(place, epoch), modified.timestamp()
        return known

    def _columns(self, name: str, stats: Stats, orders: list[StandingOrder]) -> list[list[GroupSays]]:
        found = {
            each.name: GroupSays(
                each.name,
                each.waiting,
                each.leased,
                each.dead,
                each.gathering,
                each.oldest,
                each.is_full,
                each.is_spent,
                [order for order in orders if order.target in (each.name, "all")],
            )
            for each in stats.groups
        }
        declared = [each for each in self.flows[name].stages if each in found]
        others = [each for each in found if each not in declared]
        return [[found[each] for each in column] for column in columns([*declared, *others], stats.feeds)]

    def _hints(self, name: str, configurations: Mapping[str, TaskView]) -> list[str]:
        """What a person may have to do before workers go on."""
        apply = "`feed-assets workflow apply` brings the project's into force."
        stages = self.flows[name].stages
        if not configurations:
            return [f"No stage has a configuration yet, so there can be no task. {apply}"]
        found = []
        if missing := [each for each in stages if each not in configurations]:
            found.append(f"{', '.join(missing)}: no configuration yet. {apply}")
        changed = [
            each
            for each, stage in stages.items()
            if each in configurations and stage.digest != _payload(configurations[each]).get("digest")
        ]
        if changed:
            found.append(
                f"{', '.join(changed)}: the configuration in force is not that of this project. {apply} If the one in "
                "force is newer, start this service again."
            )
        return found


def _with(says: StateSays, **changes: Any) -> StateSays:
    return msgspec.structs.replace(says, **changes)


def _tasks(listed: Mapping[str, Any]) -> list[TaskView]:
    return _decode_tasks(msgspec.json.encode(listed["tasks"]))  # as a payload is the JSON itself


def _payload(task: TaskView) -> Any:
    return msgspec.json.decode(task.payload)


def _standing(task: TaskView) -> StandingOrder:
    order, _, target = task.key.partition(":")
    said = _payload(task)
    return StandingOrder(order, target, said.get("by", ""), said.get("reason", ""), task.since)


def _silence(name: str, address: Address, error: UnreachableError) -> str:
    last = f"The last one was that of epoch {address.epoch}, process {address.pid} on {address.host}, at {address.url}"
    if address.is_dead():
        return f"{name} has no master. {last}; its process has ended. {_START}."
    return f"No master of {name} answers. {last}. If it has ended, {_START}. ({error})"
