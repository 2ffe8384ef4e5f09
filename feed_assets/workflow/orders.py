"""What people order: pauses, interdictions, and mending of dead tasks.

Here: how an order changes the state. Not here: what pauses and interdictions forbid (`machine`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from feed_assets.workflow.calls import Answer, Command, Refused
from feed_assets.workflow.changes import Change, listed
from feed_assets.workflow.state import State
from feed_assets.workflow.tasks import ALL, CONTROL, MOST_NAME, OWN_GROUPS, encoded_payload

_MOST_WORDS: Final = 500
_MOST_DIGITS: Final = 18


def is_ordered(state: State, what: str, group: str) -> bool:
    """Whether a person has paused or interdicted a group, or all."""
    return f"{what}:{group}" in state.controls or f"{what}:{ALL}" in state.controls


def obey(call: Command, change: Change) -> Answer:
    """Do what a person orders. Raises Refused."""
    if not call.by or not call.reason:
        raise Refused("Invalid", "An order has an author and a reason.")
    if max(len(call.by), len(call.target)) > MOST_NAME or len(call.reason) > _MOST_WORDS:
        what = f"Author and target of an order have at most {MOST_NAME} characters, its reason {_MOST_WORDS}."
        raise Refused("TooLarge", what)
    state = change.state
    match call.order:
        case "pause" | "interdict":
            return _put(call, change, {*state.counts, *state.configurations, *(each for _, each in state.edges)})
        case "resume":
            return _end(f"pause:{call.target}", change)
        case "lift":
            return _end(f"interdict:{call.target}", change)
        case "retry" | "drop":
            return _mend(call, change)


def _put(call: Command, change: Change, groups: Iterable[str]) -> Answer:
    if call.target not in groups and call.target != ALL:
        raise Refused("NotFound", f"No group is called {call.target}: {listed(groups)}.")
    name = f"{call.order}:{call.target}"
    payload = encoded_payload({"by": call.by, "reason": call.reason})
    return Answer(ids=(change.put(change.state.controls.get(name), CONTROL, name, payload),))


def _end(name: str, change: Change) -> Answer:
    present = change.state.controls.get(name)
    if present is None:
        raise Refused("Conflict", f"There is no {name.replace(':', ' of ')} to end.")
    change.gone.append(present.id)
    return Answer()


def _mend(call: Command, change: Change) -> Answer:
    is_number = call.target.isdecimal() and len(call.target) <= _MOST_DIGITS
    task = change.state.version_of(int(call.target)) if is_number else None
    if task is None or task.group in OWN_GROUPS:
        raise Refused("NotFound", f"There is no unit {call.target}: it is done, or never was.")
    if task.holder:
        raise Refused("Conflict", f"Unit {task.unit} is leased: wait, or stop its worker.", ids=(task.id,))
    if call.order == "retry":
        tasks = [each for each in change.state.members(task) if each.dead] if task.dead else [task]
        return Answer(ids=tuple(change.give_back(each, 0.0, attempt=0, dead=False, reasons=()) for each in tasks))
    if task.bundle is None:
        change.gone.append(task.id)
        return Answer(ids=(task.id,))
    return Answer(ids=(change.give_back(task, 0.0, attempt=0, dead=False, empty=True, files=()),))
