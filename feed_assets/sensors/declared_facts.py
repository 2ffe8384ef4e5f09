"""Declared datasets in a code location: whether they fit its feeds, and what files and feeds say of their slots.

Not here: their YAML, and reading files of numbers (`dependencies.declared`); what the numbers mean (`dependencies`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import Final

import dagster as dg

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.days import midnight
from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import instant_of
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.ranges import slots_between
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.declared.loading import DeclaredDataset
from feed_assets.dependencies.declared.spec import FEED
from feed_assets.dependencies.declared.witnesses import facts_in_files
from feed_assets.dependencies.facts import Ends, Number, Status
from feed_assets.dependencies.rules import Basis, Declared
from feed_assets.dependencies.service import Dependencies
from feed_assets.file_feed.bounded_cache import BoundedCache
from feed_assets.file_feed.control import read_record
from feed_assets.file_feed.wording import counted
from feed_assets.partitions.slots import partition_of
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sources.control_files import DayFolders

NO_ROWS: Final = (
    "has no record of how many rows its update has, so it is no witness: publish it with such a record, or waive the "
    "slots that wait for it."
)
_ROWS: Final[BoundedCache[tuple[str, str, str], int | None]] = BoundedCache(10_000)
"""The rows that records name, by feed, partition and update; they never change."""


def check_declared(each: DeclaredDataset, feeds: Collection[str], datasets: Mapping[str, Declared]) -> None:
    """Raise DagsterInvalidDefinitionError if a declared dataset is also a feed, or if a feed cannot be its witness.

    `feeds` are all locations; `datasets` has the feeds that are read, and raw data.
    """
    if each.name in feeds:
        raise dg.DagsterInvalidDefinitionError(
            f"{each.path}: {each.name} is a feed of this project: delete the file, or use another name in it."
        )
    own = each.declared.dataset
    for location in each.complete.feeds:
        if location not in feeds:
            raise dg.DagsterInvalidDefinitionError(
                f"{each.path}: {FEED}{location} is no feed of this project: those are {', '.join(sorted(feeds))}."
            )
        other = datasets[location].dataset
        if other.base is not own.base:
            has = "no partitions" if other.base is Grain.WHOLE else f"slots of the grain {other.base}"
            raise dg.DagsterInvalidDefinitionError(
                f"{each.path}: {location} has {has}, and {each.name} slots of the grain {own.base}: use a feed with "
                "slots of the same grain as the witness, or another witness."
            )
        (mine,), (others,) = own.hierarchy.members, other.hierarchy.members
        if not mine.calendar.days.same_days(others.calendar.days, mine.first_day):
            raise dg.DagsterInvalidDefinitionError(
                f"{each.path}: the days of {location} and of {each.name} begin at different times: set `calendar` to "
                "the zone of the feed's partitions."
            )


def record_declared(
    states: Dependencies,
    folders: DayFolders,
    feeds: AssetFeedGraph,
    datasets: Sequence[DeclaredDataset],
    since: date,
    *,
    now: datetime,
) -> list[str]:
    """Record what the files in these folders say, and feeds from a day on; returns what is wrong there.

    Costs a listing of each folder, and a read of each file and each feed's record that is new. Raises StoreError.
    """
    facts, problems = list[tuple[str, Number | Ends]](), list[str]()
    for each in datasets if states.datasets else ():
        for file in facts_in_files(folders, each, now=now):
            problems += [file.problem] if file.problem else []
            facts += [(file.key, fact) for fact in file.lines if _is_news(states, fact)]
        for location in each.complete.feeds:
            for number, problem in _of_feed(states, folders.board, feeds, each, location, since, now):
                facts += [(location, number)] if number else []
                problems += [problem] if problem else []
    return problems + (_expect(states, facts, now=now) if facts else [])


def _is_news(states: Dependencies, fact: Number | Ends) -> bool:
    """Whether a line of a file may change something."""
    if isinstance(fact, Ends):
        return not states.has_ends(fact.slot) and states.takes(fact.slot, Basis.COVERED)
    known = (fact.records, fact.final, fact.version)
    return states.number_of(fact.slot, fact.witness) != known and states.takes(fact.slot, Basis.COUNTED)


def _expect(states: Dependencies, facts: Sequence[tuple[str, Number | Ends]], *, now: datetime) -> list[str]:
    """Record facts, each with where it comes from; returns a sentence for each place with facts that are refused."""
    refused: dict[str, list[str]] = {}
    for (place, _), outcome in zip(facts, states.expect([fact for _, fact in facts], now=now), strict=True):
        if outcome.status is Status.REFUSED:
            refused.setdefault(place, []).append(outcome.message)
    more = {place: f" In all, {counted(len(each), 'slot')} are refused." for place, each in refused.items() if each[1:]}
    return [f"{place}: {messages[0]}{more.get(place, '')}" for place, messages in refused.items()]


def _of_feed(
    states: Dependencies,
    board: Blackboard,
    feeds: AssetFeedGraph,
    declared: DeclaredDataset,
    location: str,
    since: date,
    now: datetime,
) -> Iterator[tuple[Number | None, str]]:
    """What the updates in force of a feed say that is new, and what is wrong with those that say nothing.

    While the feed has no update in force, or one that says nothing, the number is not final.
    """
    dataset, witness = declared.declared.dataset, f"{FEED}{location}"
    source = states.dataset(location)
    begin = max(instant_of(midnight(since)), dataset.branch(NO_MEMBER).begin)
    for own in slots_between(dataset, dataset.base, begin, instant_of(now)):
        slot = own._replace(dataset=location)
        try:
            source.check(slot)
        except DatasetError:  # before its first day
            continue
        if not states.takes(own, Basis.COUNTED):  # before the rule was introduced
            continue
        answer, known = states.answer(slot), states.number_of(own, witness)
        if answer.complete and known is not None and (known.version, known.final) == (answer.revision, True):
            continue
        rows = _rows(states, board, feeds, slot) if answer.complete else None
        problem = f"{slot} {NO_ROWS}" if answer.complete and rows is None else ""
        if rows is not None:
            yield Number(witness, own, rows, version=answer.revision), ""
        elif known is not None and known.final:
            yield Number(witness, own, known.records, final=False, version=answer.revision), problem
        elif problem:
            yield None, problem


def _rows(states: Dependencies, board: Blackboard, feeds: AssetFeedGraph, slot: Slot) -> int | None:
    """The rows of the update in force, as its record says; None if nothing says them."""
    update = states.update_of(slot)
    if update is None:  # the slot is waived
        return None
    place = feeds.feeds[slot.dataset].declaration.on(board)
    partition = partition_of(feeds.partitions(slot.dataset), slot)
    key = (place.uri, partition or "", update)
    with suppress(KeyError):
        return _ROWS[key]
    record = read_record(place, partition, update)
    _ROWS[key] = found = record.facts.rows.published if record is not None and record.facts.rows is not None else None
    return found
