"""A model of the journal: three masters, each of which may stand still anywhere, over a store with numbered objects.

Here: the rules on a few lines, so that all states of three masters can be searched. Not here: the code (`test_orders`
searches it, on a smaller scale). A step is a request to the store. A snapshot is one step, and one suffices to delete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

SEAL = "seal"
Slot = tuple[int, int]  # epoch and number
History = tuple[tuple[int, int, int], ...]  # epoch, number, master


@dataclass(frozen=True)
class Rules:
    """Those that can be switched off."""

    seals_stay: bool = True
    looks_before_deleting: bool = True
    looks_behind_the_seal: bool = True
    newest_entry_stays: bool = True
    reads_back: bool = True


class Master(NamedTuple):
    at: str = "idle"
    epoch: int = 0
    number: int = 0
    history: History = ()
    about: Any = None
    """What the step is about: the epoch to seal, or the slots to delete."""


class State(NamedTuple):
    """`objects` maps slots to who wrote them and, for a START, the history it continues; likewise `snapshots`."""

    objects: tuple[tuple[Slot, Any], ...]
    newest: int
    snapshots: tuple[tuple[Slot, History], ...]
    masters: tuple[Master, ...]
    acknowledged: History


def search(rules: Rules, *, masters: int, numbers: int, epochs: int) -> tuple[int, str]:
    """The number of states, and what is wrong in the first that is wrong; "" if none is.

    States that differ only in which master is which are the same: the lowest idle one begins.
    """
    first = State((), 0, (), (Master(),) * masters, ())
    seen, waiting = {first}, deque([first])
    while waiting:
        state = waiting.popleft()
        if wrong := _wrong(state):
            return len(seen), wrong
        for which in range(masters):
            for after in _steps(state, which, rules, numbers, epochs):
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)
    return len(seen), ""


def _wrong(state: State) -> str:
    for each in state.masters:
        if each.at == "damaged":
            return "a hole in the journal"
        if each.at not in {"serving", "stored", "deleting"}:
            continue
        if any(one[0] < each.epoch and one not in each.history for one in state.acknowledged):
            return "an acknowledged entry is unknown to a later master"
        own = [number for epoch, number, _ in each.history if epoch == each.epoch]
        if each.at != "stored" and own != list(range(2, each.number + 1)):
            return "what a master remembers is not its journal"
    return ""


def _steps(  # noqa: C901, PLR0912 - a case for each step
    state: State, which: int, rules: Rules, numbers: int, epochs: int
) -> Iterator[State]:
    master, objects = state.masters[which], dict(state.objects)

    def to(at: str, stored: dict[Slot, Any] | None = None, **changes: Any) -> State:
        masters = list(state.masters)
        of_master = {key: changes.pop(key) for key in [*changes] if key in Master._fields}
        masters[which] = master._replace(at=at, **of_master)
        if stored is not None:
            changes["objects"] = tuple(sorted(stored.items()))
        return state._replace(masters=tuple(masters), **changes)

    match master.at:
        case "idle" if state.newest < epochs and (which == 0 or state.masters[which - 1].at != "idle"):
            yield to("sealing", newest=state.newest + 1, epoch=state.newest + 1, about=state.newest)
        case "sealing" if not master.about:
            yield to("starting", history=())
        case "sealing":
            last = _last(objects, master.about)
            is_sealed = last > 0 and objects[master.about, last][0] == SEAL
            yield to("replaying" if is_sealed else "placing the seal", number=last)
        case "placing the seal" if master.number < numbers + 1:
            slot = (master.about, master.number + 1)
            if slot in objects:
                yield to("sealing")
            else:
                following = "looking behind" if rules.looks_behind_the_seal else "replaying"
                yield to(following, objects | {slot: (SEAL, master.epoch)}, number=slot[1])
        case "looking behind":
            yield to("sealing" if _last(objects, master.about) > master.number else "replaying")
        case "replaying":
            following, changes = _replayed(state, master, objects)
            yield to(following, **changes)
        case "starting" if (master.epoch, 1) in objects:
            yield to("ended")
        case "starting":
            yield to("serving", objects | {(master.epoch, 1): (which, master.history)}, number=1)
        case "stored":
            yield to("serving", acknowledged=(*state.acknowledged, (master.epoch, master.number, which)))
        case "deleting":
            yield to("serving", {slot: each for slot, each in objects.items() if slot not in master.about}, about=None)
        case "serving":
            yield from _served(state, which, rules, numbers, to)


def _served(state: State, which: int, rules: Rules, numbers: int, to: Any) -> Iterator[State]:
    master, objects, snapshots = state.masters[which], dict(state.objects), dict(state.snapshots)
    epoch, number, history = master.epoch, master.number, master.history
    if number < numbers:
        slot = (epoch, number + 1)
        if slot in objects:
            yield to("ended")
        else:
            stored = objects | {slot: (which, ())}
            yield to("stored", stored, number=number + 1, history=(*history, (*slot, which)))
            if not rules.reads_back:  # the answer is lost, and the master goes on with the next number
                yield to("serving", stored, number=number + 1)
    if number > 1 and (epoch, number) not in snapshots:
        yield to("serving", snapshots=tuple(sorted((snapshots | {(epoch, number): history}).items())))
    covered = max((slot for slot in snapshots if slot[0] == epoch and slot[1] <= number), default=None)
    if covered is None:
        return
    deleted = [
        slot
        for slot, (writer, _) in objects.items()
        if (slot[0] < epoch or (slot[0] == epoch and slot[1] <= covered[1]))
        and (writer != SEAL or (slot[0] < epoch and not rules.seals_stay))
        and not (rules.newest_entry_stays and slot == (epoch, number))
    ]
    if deleted and rules.looks_before_deleting and state.newest != epoch:
        yield to("ended")
    elif deleted:
        yield to("deleting", about=tuple(sorted(deleted)))


def _replayed(state: State, master: Master, objects: dict[Slot, Any]) -> tuple[str, dict[str, Any]]:
    """What a candidate that has sealed does next, and what changes of it."""
    sealed = master.about
    end = max((slot[1] for slot, (by, _) in objects.items() if slot[0] == sealed and by == SEAL), default=0)
    hole = "ended" if state.newest > master.epoch else "damaged"
    if not end:
        return "ended", {}
    snapshot = max((each for each in state.snapshots if each[0] < (sealed, end)), default=None)
    if snapshot is not None and snapshot[0][0] == sealed:
        (_, last), history = snapshot
    elif (sealed, 1) in objects and objects[sealed, 1][0] != SEAL:
        last, history = 1, objects[sealed, 1][1]
    elif end == 1:
        return "sealing", {"about": sealed - 1}
    else:
        return hole, {}
    for number in range(last + 1, end):
        writer, _ = objects.get((sealed, number), (SEAL, None))
        if writer == SEAL:
            return hole, {}
        history = (*history, (sealed, number, writer))
    return "starting", {"history": history}


def _last(objects: dict[Slot, Any], epoch: int) -> int:
    return max((number for each, number in objects if each == epoch), default=0)
