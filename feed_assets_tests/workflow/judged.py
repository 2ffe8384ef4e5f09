"""Judges a workflow by its journal and by its effects: each unit committed exactly once, nothing acknowledged lost.

Here: a second account, written for the tests, of the whole journal from its first entry. It knows `flow_of`. Not here:
what is done to the workflow before.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from feed_assets.blackboard.listing import list_all
from feed_assets.workflow.history import BEGINNING, follow
from feed_assets.workflow.places import Place
from feed_assets.workflow.state import Mutation, State, decode_mutation
from feed_assets.workflow.stories import check_journal
from feed_assets.workflow.tasks import OWN_GROUPS, Task
from feed_assets_tests.workflow.processes import EFFECTS, PARTS, TWICE


@dataclass(slots=True)
class Account:
    """What the journal says: how often each unit was committed, which there are, and how often units were given back.

    A unit that a commit replaces is committed; `made` is how often each part of each order was made in each group.
    """

    committed: Counter[int] = field(default_factory=Counter)
    open: dict[int, Task] = field(default_factory=dict)
    made: Counter[tuple[str, int, int | None]] = field(default_factory=Counter)
    inserted: Counter[int] = field(default_factory=Counter)
    leases: int = 0
    retries: int = 0
    reasons: list[str] = field(default_factory=list)

    def see(self, mutation: Mutation, gone: Iterable[Task]) -> None:
        """One more mutation."""
        versions = {each.unit: each for each in mutation.new}
        for task in gone:
            if task.group in OWN_GROUPS:
                continue
            if (now := versions.get(task.unit)) is None:
                self.committed[task.unit] += 1
                del self.open[task.unit]
            elif now.attempt > task.attempt:
                self.reasons.append(now.reasons[-1])
            elif now.holder and not task.holder:
                self.leases += 1
                self.retries += now.attempt > 0
        for task in mutation.new:
            if task.group in OWN_GROUPS:
                continue
            self.open[task.unit] = task
            if task.id == task.unit:
                payload = json.loads(task.payload)
                self.made[task.group, payload["order"], payload.get("part")] += 1
                self.inserted[payload["order"]] += task.group == "split"


class _Told(State):
    """A state that tells an account of what it replays."""

    account: Account

    def replay(self, mutation: bytes) -> None:
        """See `State.replay`."""
        decoded = decode_mutation(mutation)
        self.account.see(decoded, self.apply(decoded))


def account_of(place: Place) -> Account:
    """What the whole journal says. Raises JournalDamagedError."""
    state = _Told()
    state.account = Account()
    follow(place, state, BEGINNING)
    return state.account


def faults(
    place: Place, acknowledged: Iterable[int], *, rates: Iterable[int] = (1,), is_over: bool = True
) -> Iterator[str]:
    """What is wrong; `acknowledged` are the orders of which a client heard that they are in. `is_over`: all work is."""
    check_journal(place)
    account = account_of(place)
    for unit, task in account.open.items() if is_over else ():
        yield f"unit {unit} of {task.group} is still {task.status}: {task.reasons}"
    yield from (f"unit {unit} was committed {count} times" for unit, count in account.committed.items() if count > 1)
    yield from (f"order {order} was inserted {count} times" for order, count in account.inserted.items() if count > 1)
    for (group, order, part), count in account.made.items():
        if count > (PARTS if group == "total" else 1):
            yield f"{group} of order {order}, part {part}, was made {count} times"
    board = place.board
    made = f"{EFFECTS}{place.name}/"
    effects = {int(each.key.removeprefix(made)): each.key for each in list_all(board, made)}
    for order in sorted(set(acknowledged) - set(account.inserted)):
        yield f"order {order} was acknowledged, and is not in the journal"
    for order in sorted(set(account.inserted) - set(effects)) if is_over else ():
        yield f"order {order} has no effect"
    yield from (
        f"order {order} has an effect, and was never inserted" for order in set(effects) - set(account.inserted)
    )
    yield from (f"{each.key} is a second effect" for each in list_all(board, f"{TWICE}{place.name}/"))
    due = PARTS * (PARTS - 1) // 2
    for order, key in effects.items():
        found = json.loads(board.read(key).data)
        if len(found["rates"]) == 1 and found["amount"] != (PARTS * order + due) * found["rates"][0]:
            yield f"the effect of order {order} is {found}"
        if set(found["rates"]) - set(rates):
            yield f"the effect of order {order} was made with the rates {found['rates']}"
