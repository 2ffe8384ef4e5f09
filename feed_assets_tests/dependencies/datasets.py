"""Datasets that tests of data dependencies share, and a service over them. Not here: any test."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.members import Hierarchy, Member
from feed_assets.dependencies.rules import Basis, Declared, Rule
from feed_assets.dependencies.service import Dependencies
from feed_assets.state.store import Store

BASE = "file:///base/"
FIRST = date(2026, 11, 25)
DAY = "2026-11-27"


def at(text: str) -> datetime:
    """A time in UTC: `2026-11-27T16:10`."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def raw(*sources: str, buffer: timedelta = timedelta(hours=3), **rules: Rule) -> Declared:
    """Raw data of a kind by hours: `raw/ads`, whose members are the sources. `rules` has those of other bases."""
    hierarchy = Hierarchy(("source",), tuple(Member(source, FIRST) for source in sources))
    dataset = Dataset("raw/ads", Grain.HOUR.and_coarser, hierarchy)
    return Declared(dataset, Rule(Basis.ASSUMED, buffer=buffer), rules=rules)


def feed(name: str = "clean-ads/v1.0", base: Grain = Grain.DAY) -> Declared:
    """A feed by days."""
    return Declared(Dataset.flat(name, base, first=FIRST), Rule(Basis.PUBLISHED))


def service(database: str, *declared: Declared) -> Dependencies:
    """A service over the datasets."""
    return Dependencies(Store(database), BASE, {each.dataset.name: each for each in declared})


def told(dependencies: Dependencies, after: int = 0) -> list[str]:
    """The events as short texts: kind, member, grain, slots, revision."""
    found = []
    for event in dependencies.events(after):
        each = event.details
        if event.kind not in {"completed", "reopened"}:
            continue
        slots = each["first"] if each["count"] == 1 else f"{each['first']}..{each['last']}"
        found.append(f"{event.kind} {each['member']} {each['grain']} {slots} r{each['revision']}")
    return found


def topic(
    *members: str, basis: Basis = Basis.COUNTED, base: Grain = Grain.FIVE_MINUTES, first: date = FIRST, **rule: object
) -> Declared:
    """A raw topic by 5 minutes: `raw/foo`, counted by the witness `source` unless another rule is given."""
    levels = ("center",) if members else ()
    tree = Hierarchy(levels, tuple(Member(each, first) for each in members or ("-",)))
    witnesses = ("source",) if basis is Basis.COUNTED else ()
    options: dict[str, object] = {"witnesses": witnesses} | rule
    return Declared(Dataset("raw/foo", base.and_coarser, tree), Rule(basis, **options))  # type: ignore[arg-type]
