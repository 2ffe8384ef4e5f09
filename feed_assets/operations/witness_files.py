"""What is wrong with the daily files that an incomplete slot waits for.

Here: reading these files when somebody asks. Not here: what the files say (`sensors.raw_facts`,
`dependencies.declared`); the sensor `starts` records it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.declared.witnesses import facts_in_files
from feed_assets.dependencies.facts import Ends, Number
from feed_assets.dependencies.rules import Basis
from feed_assets.dependencies.service import Dependencies
from feed_assets.sensors.flows import Flows
from feed_assets.sensors.raw_facts import count_files, counts_in_files, raw_name
from feed_assets.sources.control_files import ControlFile, DayFolders
from feed_assets.sources.day_files import key_of_day
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
    basis, day = windows.rule_of(base).basis, windows.date_of_base(base)
    if basis not in {Basis.COUNTED, Basis.COVERED}:
        return
    own = [each for each in sources if (raw_name(each.kind), each.name) == (base.dataset, base.member)]
    declared = [flows.declared[base.dataset]] if base.dataset in flows.declared else []
    names = count_files(own, declared)
    folders = DayFolders(board, names, day, day)
    said: Iterator[ControlFile[Number | Ends]] = chain(
        counts_in_files(folders, own), *(facts_in_files(folders, each, now=now) for each in declared)
    )
    files = {each.key: each for each in said}
    for name in names:
        key = key_of_day(name, day)
        file = files.get(key)
        known = states.has_ends(base) if basis is Basis.COVERED else states.number_of(base, name) is not None
        if file is not None and file.problem:
            yield f"{key} is refused: {file.problem.removeprefix(f'{key}: ').removesuffix('.')}"
        elif known:
            continue
        elif file is None:
            yield f"{key} is not there"
        elif any(each.slot == base for each in file.lines):
            yield f"{key} names it; the next tick of the sensor `starts` takes that, or says in its log why not"
        else:
            yield f"{key} has no line for it"
