"""The checks of a source's raw asset in Dagster: what they say, and their tables.

Not here: the answers (`arrivals.answers`), and when they are shown (`checks.arrivals`, `sensors.arrivals`).
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import dagster as dg

from feed_assets.arrivals.answers import Answer
from feed_assets.arrivals.columns import shown
from feed_assets.file_feed.wording import counted

ARRIVES: Final = "arrives_as_expected"
COLUMNS: Final = "columns_as_described"
DAYS: Final = 14
NAMES: Final = 20

ABOUT: Final = {
    ARRIVES: "Something of the source lands as often as `expect_every` says, and about as much as usual.",
    COLUMNS: "The description names the columns that the source sends, and none of them is suddenly without a value.",
}


def passes(found: Answer, check: str) -> bool:
    """Whether the check passes."""
    if check == ARRIVES:
        return not found.sends_too_little
    return not found.changes.sentences(found.now.date())


def says(found: Answer, check: str) -> str:
    """What the check found."""
    if check == ARRIVES:
        return found.standing.sentence if found.standing else ""
    sentences = found.changes.sentences(found.now.date())
    return " ".join(sentences) or f"Nothing new on {counted(len(found.days), 'day')} on which columns were counted."


def metadata_of(found: Answer, check: str) -> dict[str, Any]:
    """A table by day of arrival, newest first: landings and records, or the records with each unknown name."""
    return {"by day of arrival": _arrivals(found) if check == ARRIVES else _columns(found)}


def _arrivals(found: Answer) -> dg.TableMetadataValue:
    rows = [
        dg.TableRecord({"day": str(day), "landings": each.landings, "records": each.records})
        for day, each in reversed(found.by_day(DAYS).items())
    ]
    types = {"day": "string", "landings": "int", "records": "int"}
    return dg.MetadataValue.table(rows, schema=_schema(types))


def _columns(found: Answer) -> dg.TableMetadataValue:
    totals = Counter[str]()
    for seen in found.days.values():
        totals.update(seen["unknown"])
    # New names first, then those with the most records.
    names = sorted(totals, key=lambda name: (name not in found.changes.new, -totals[name], name))[:NAMES]
    titles = {name: f"{shown(name)}{' (new)' if name in found.changes.new else ''}" for name in names}
    gone = {name: f"{shown(name)} (landings without)" for name in list(found.changes.gone)[:NAMES]}
    days = sorted(found.days, reverse=True)[:DAYS]
    rows = [
        dg.TableRecord(
            {"day": str(day), "landings": found.days[day]["landings"], "records": found.days[day]["looked"]}
            | {title: found.days[day]["unknown"].get(name, 0) for name, title in titles.items()}
            | {title: found.days[day]["empty"].get(name, 0) for name, title in gone.items()}
        )
        for day in days
    ]
    types = {"day": "string", "landings": "int", "records": "int"} | dict.fromkeys(
        [*titles.values(), *gone.values()], "int"
    )
    return dg.MetadataValue.table(rows, schema=_schema(types))


def _schema(types: dict[str, str]) -> dg.TableSchema:
    return dg.TableSchema([dg.TableColumn(name, type_) for name, type_ in types.items()])


def evaluation(found: Answer, key: dg.AssetKey, check: str) -> dg.AssetCheckEvaluation:
    """The result of a check, as a sensor reports it."""
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=check,
        passed=passes(found, check),
        severity=dg.AssetCheckSeverity.WARN,
        description=says(found, check),
        metadata=metadata_of(found, check),
    )
