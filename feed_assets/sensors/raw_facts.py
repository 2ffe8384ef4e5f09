"""The raw data of sources as facts about slots: what is there hour by hour, and which hours are reopened.

Here: the dataset of each kind's raw data, and what decisions on late data say about it. No Dagster. Not here: the
decisions (`late_data.raw_growth`), and what the facts mean (`dependencies`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final

from feed_assets.datasets.calendars import Calendar
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import instant_of
from feed_assets.datasets.members import Hierarchy, Member
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.declared.loading import DeclaredDataset
from feed_assets.dependencies.facts import Listed, Number, Status
from feed_assets.dependencies.rules import Basis, Declared, Rule
from feed_assets.dependencies.service import Dependencies
from feed_assets.late_data.raw_growth import SourceDecision
from feed_assets.sources.control_files import ControlFile, DayFolders, control_files
from feed_assets.sources.spec import Source

SOURCE_LEVEL: Final = "source"
"""The level of the members of raw data: the sources of a kind."""


def raw_name(kind: str) -> str:
    """The dataset of the raw data of a kind."""
    return f"raw/{kind}"


def raw_datasets(sources: Sequence[Source], first_day: date) -> Iterator[Declared]:
    """The raw data of each kind: hours of its sources, complete as each source says.

    Without a word of the source, they are when the kind's longest buffer is over. Raises DatasetError for the name of a
    source that cannot be a member's.
    """
    kinds: dict[str, list[Source]] = {}
    for source in sources:
        kinds.setdefault(source.kind, []).append(source)
    for kind, of_kind in kinds.items():
        members = tuple(Member(source.name, first_day, calendar=Calendar("UTC")) for source in of_kind)
        dataset = Dataset(raw_name(kind), Grain.HOUR.and_coarser, Hierarchy((SOURCE_LEVEL,), members))
        longest = max(source.buffer_hours for source in of_kind)
        rules = {source.name: rule for source in of_kind if (rule := _counted(source)) is not None}
        yield Declared(dataset, Rule(Basis.ASSUMED, buffer=timedelta(hours=longest)), rules=rules)


def _counted(source: Source) -> Rule | None:
    complete = source.complete
    if complete is None or complete.witness is None:
        return None
    return Rule(Basis.COUNTED, (complete.witness,), threshold=complete.threshold, slack=complete.slack)


def record_raw(states: Dependencies, decisions: Iterable[SourceDecision], *, now: datetime) -> None:
    """Record what raw data there is, and reopen the hours that changed on days that are to be processed again.

    The decisions have their hours. Raises StoreError.
    """
    states.tick(now)
    hours = [
        (each, _hour(each.source, each.day, int(name)), hour) for each in decisions for name, hour in each.hours.items()
    ]
    states.listed([Listed(slot, hour.records, hour.files, hour.content) for _, slot, hour in hours], now=now)
    reopened: dict[str, list[Slot]] = {}
    for each, slot, _ in hours:
        if each.update and each.wanted and states.answer(slot).grown:
            reopened.setdefault(each.sentence(), []).append(slot)
    for reason, slots in reopened.items():
        states.reopen(slots, reason=reason, now=now)


def record_counts(states: Dependencies, folders: DayFolders, sources: Iterable[Source], *, now: datetime) -> list[str]:
    """Record what partners say how many records hours have, in the files of these folders; returns what is wrong there.

    Hours before the first day of the raw data, or before it was counted, are left out. Raises StoreError.
    """
    files = [*counts_in_files(folders, sources)]
    problems = [each.problem for each in files if each.problem]
    numbers = [each for file in files for each in file.lines if states.takes(each.slot, Basis.COUNTED)]
    if numbers:
        answers = states.expect(numbers, now=now)
        problems += [each.message for each in answers if each.status is Status.REFUSED]
    return problems


def counts_in_files(folders: DayFolders, sources: Iterable[Source]) -> Iterator[ControlFile[Number]]:
    """What the partners' files in these folders say how many records hours have."""
    for source in sources:
        for each in control_files(folders, source):
            witness = source.complete.witness if source.complete else None
            yield each.with_lines(
                Number(str(witness), _hour(source, str(each.day), hour), records, version=each.version)
                for hour, records in each.lines
            )


def count_files(sources: Iterable[Source], datasets: Iterable[DeclaredDataset]) -> list[str]:
    """The names of the files of days that say what sources and declared datasets have."""
    of_sources = [each.complete.witness for each in sources if each.complete and each.complete.witness]
    return [*of_sources, *(name for each in datasets for name in each.complete.files)]


def _hour(source: Source, day: str, hour: int) -> Slot:
    """The base slot of an hour of a source's day, 0 to 23 UTC."""
    moment = datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(hours=hour)
    return Slot(raw_name(source.kind), source.name, Grain.HOUR, instant_of(moment))
