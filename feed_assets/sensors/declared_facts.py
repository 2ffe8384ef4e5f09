"""Declared datasets in a code location: whether they fit its feeds, and what files and feeds say of their slots.

Not here: their YAML, and reading files of numbers (`dependencies.declared`); what the numbers mean (`dependencies`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta

import dagster as dg

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.days import midnight
from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.instants import instant_of
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.ranges import slots_between
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.declared.loading import DeclaredDataset
from feed_assets.dependencies.declared.spec import FEED
from feed_assets.dependencies.declared.witnesses import ends_in_files, numbers_in_files
from feed_assets.dependencies.facts import Ends, Number
from feed_assets.dependencies.rules import Declared
from feed_assets.dependencies.service import Dependencies
from feed_assets.file_feed.control import read_record
from feed_assets.partitions.slots import partition_of
from feed_assets.sensors.asset_graph import AssetFeedGraph


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
            raise dg.DagsterInvalidDefinitionError(
                f"{each.path}: {location} has slots of a {other.base}, and {each.name} of a {own.base}: a feed that is "
                "a witness has slots of the same grain."
            )
        (mine,), (others,) = own.hierarchy.members, other.hierarchy.members
        if not mine.calendar.days.same_days(others.calendar.days, mine.first_day):
            raise dg.DagsterInvalidDefinitionError(
                f"{each.path}: the days of {location} and of {each.name} begin at different times: set `calendar` to "
                "the zone of the feed's partitions."
            )


def record_declared(
    states: Dependencies,
    board: Blackboard,
    feeds: AssetFeedGraph,
    datasets: Sequence[DeclaredDataset],
    first: date,
    last: date,
    *,
    now: datetime,
) -> list[str]:
    """Record what files and feeds say of slots from one day to another; returns what is wrong there.

    Costs a listing of each folder of files, and a read of each file and each feed's record that is new. Raises
    StoreError.
    """
    facts, problems = list[Number | Ends](), list[str]()
    after = last + timedelta(days=1)  # it has begun in zones east of UTC
    for each in datasets if states.datasets else ():
        if each.complete.basis == "covered":
            ends, wrong = ends_in_files(board, each, first, after, now=now)
            facts += [found for found in ends if not states.has_ends(found.slot)]
        else:
            numbers, wrong = numbers_in_files(board, each, first, after)
            facts += [found for found in numbers if not _is_known(states, found)]
        problems += wrong
        for location in each.complete.feeds:
            for found in _of_feed(states, board, feeds, each, location, first, now):
                if isinstance(found, Number):
                    facts.append(found)
                else:
                    problems.append(found)
    if facts:
        problems += [each.message for each in states.expect(facts, now=now) if each.message]
    return problems


def _is_known(states: Dependencies, number: Number) -> bool:
    known = states.number_of(number.slot, number.witness)
    return known is not None and known == (number.records, number.final, number.version)


def _of_feed(
    states: Dependencies,
    board: Blackboard,
    feeds: AssetFeedGraph,
    declared: DeclaredDataset,
    location: str,
    first: date,
    now: datetime,
) -> Iterator[Number | str]:
    """What the updates in force of a feed say that is new, and which of them say nothing."""
    dataset, witness = declared.declared.dataset, f"{FEED}{location}"
    source = states.dataset(location)
    begin = max(instant_of(midnight(first)), dataset.branch(NO_MEMBER).begin)
    for own in slots_between(dataset, dataset.base, begin, instant_of(now)):
        slot = own._replace(dataset=location)
        try:
            source.check(slot)
        except DatasetError:  # before its first day
            continue
        answer, known = states.answer(slot), states.number_of(own, witness)
        if answer.complete and (known is None or (known.version, known.final) != (answer.revision, True)):
            rows = _rows(states, board, feeds, slot)
            if rows is None:
                yield f"{slot} has no record of its rows, so it does not say how many records {own} has."
            else:
                yield Number(witness, own, rows, version=answer.revision)
        elif not answer.complete and known is not None and known.final:
            yield Number(witness, own, known.records, final=False, version=answer.revision)


def _rows(states: Dependencies, board: Blackboard, feeds: AssetFeedGraph, slot: Slot) -> int | None:
    """The rows of the update in force, as its record says."""
    update = states.update_of(slot)
    node = feeds.feeds[slot.dataset]
    partition = partition_of(feeds.partitions(slot.dataset), slot)
    record = read_record(node.declaration.on(board), partition, update) if update else None
    return record.facts.rows.published if record is not None and record.facts.rows is not None else None
