"""What is wrong with the daily files that an incomplete slot waits for.

Here: reading these files when somebody asks. Not here: what the files say (`sensors.raw_facts`,
`dependencies.declared`); the sensor `starts` records it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.declared.witnesses import ends_in_files, numbers_in_files
from feed_assets.dependencies.facts import Ends, Number
from feed_assets.dependencies.rules import Basis
from feed_assets.dependencies.service import Dependencies
from feed_assets.sensors.flows import Flows
from feed_assets.sensors.raw_facts import counts_in_files
from feed_assets.sources.day_files import folder_of_days, is_day_file, key_of_day
from feed_assets.sources.spec import Source


def wrong_files(
    board: Blackboard, flows: Flows, states: Dependencies, sources: Sequence[Source], slot: Slot, *, now: datetime
) -> str:
    """What is wrong with the files about the first base slot that a slot waits for; "" if nothing is.

    A file is refused, is not there, or does not name the base slot. Costs a listing of each folder of files, and a read
    of each file that this process has not read yet.
    """
    if not (missing := states.answer(slot).first_missing):
        return ""
    return "; ".join(_faults(board, flows, states, sources, missing[0], now))


def _faults(
    board: Blackboard, flows: Flows, states: Dependencies, sources: Sequence[Source], base: Slot, now: datetime
) -> Iterator[str]:
    windows = states.kept.view(base.dataset).windows
    rule, day = windows.rule_of(base), windows.date_of_base(base)
    declared = flows.declared.get(base.dataset)
    names = declared.complete.files if declared else [*filter(is_day_file, rule.witnesses)]
    if not names or rule.basis not in {Basis.COUNTED, Basis.COVERED}:
        return
    facts, problems = _read(board, flows, sources, base, day, now)
    for name in names:
        key = key_of_day(name, day)
        refused = next((each for each in problems if each.startswith(f"{key}: ")), "")
        known = states.has_ends(base) if rule.basis is Basis.COVERED else states.number_of(base, name) is not None
        if refused:
            yield f"{key} is refused: {refused.removeprefix(f'{key}: ').removesuffix('.')}"
        elif known:
            continue
        elif all(entry.key != key for entry in list_all(board, folder_of_days(name))):
            yield f"{key} is not there"
        elif any(each.slot == base and (isinstance(each, Ends) or each.witness == name) for each in facts):
            yield f"{key} names it; the next tick of the sensor `starts` takes that, or says in its log why not"
        else:
            yield f"{key} has no line for it"


def _read(
    board: Blackboard, flows: Flows, sources: Sequence[Source], base: Slot, day: date, now: datetime
) -> tuple[Sequence[Number | Ends], Sequence[str]]:
    """What the files of a day say about a dataset, and what is wrong in them."""
    declared = flows.declared.get(base.dataset)
    if declared is None:
        return counts_in_files(board, [each for each in sources if each.name == base.member], day, day)
    if declared.complete.basis == "covered":
        return ends_in_files(board, declared, day, day, now=now)
    return numbers_in_files(board, declared, day, day)
