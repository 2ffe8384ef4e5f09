"""The expectations: what is counted of an update, and when that is good enough.

Here: each rule with its name, its description and its judgement. Not here: running them (`audit`), or Spark: what
has to be counted is said in SQL, so that the expectations of an asset share their passes over the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from statistics import median
from typing import Any

from feed_assets.file_feed import Column, Rows
from feed_assets.io_manager import FeedDeclaration


@dataclass(frozen=True, slots=True)
class Subject:
    """An update under audit, as far as it is known without counting its rows.

    `published` says whether it is in force already; `promised` is the schema declared when it was written, `found` the
    one its files really have; `rows` what its record says; `recent_rows` the row counts of the days before;
    `upstream_rows` those of the updates it was made from, by feed location, of its own day. What its record or an
    upstream update would have to tell, and they are gone, is None.
    """

    declaration: FeedDeclaration
    published: bool
    day: date
    promised: tuple[Column, ...]
    found: tuple[Column, ...]
    rows: Rows | None
    recent_rows: tuple[int, ...]
    upstream_rows: Mapping[str, int | None]
    quarantined_share_limit: float
    usual_rows_factor: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether an expectation holds, and the values that say so; None where what it takes to tell is gone."""

    passed: bool | None
    observed: Mapping[str, Any]


NOT_KNOWN = "not known: no record tells"
WITHOUT_RECORD = Judgement(passed=None, observed={"row counts": NOT_KNOWN})


@dataclass(frozen=True, slots=True)
class Expectation:
    """One rule: `counts` names SQL aggregates over the update's rows, `judge` decides on their values.

    Those that are `apart` are counted in a pass of their own: beside distinct values Spark carries every other counter
    once for each of them.
    """

    name: str
    description: str
    judge: Callable[[Subject, Mapping[str, Any]], Judgement]
    counts: Mapping[str, str] = field(default_factory=dict)
    blocking: bool = True
    apart: bool = False


def for_clean(declaration: FeedDeclaration) -> tuple[Expectation, ...]:
    """What is expected of a day of cleaned events."""
    return (
        *_of_any_feed(declaration),
        Expectation(
            "times_inside_day",
            "Every event lies inside the day of its partition, in UTC.",
            _times_inside_day,
            {"first": "string(min(event_time))", "last": "string(max(event_time))"},
        ),
        Expectation(
            "rows_accounted",
            "Records read = rows published + quarantined + duplicates, and the files hold the published ones.",
            _rows_accounted,
            {"rows": "count(1)"},
        ),
        Expectation(
            "quarantined_share",
            "Not more than the accepted share of the records read had to be quarantined.",
            _quarantined_share,
        ),
    )


def for_effectiveness(declaration: FeedDeclaration) -> tuple[Expectation, ...]:
    """What is expected of a day of ad effectiveness."""
    return (
        *_of_any_feed(declaration),
        Expectation(
            "clicks_within_impressions",
            "No ad has more clicks than impressions, other than by orphan clicks.",
            _clicks_within_impressions,
            {
                "unexplained_ads": "count_if(clicks > impressions)",
                "explained_ads": "count_if(clicks + orphan_clicks > impressions)",
            },
        ),
        Expectation(
            "totals_reconcile",
            "Impressions and clicks add up to the rows of the cleaned feeds they were made from.",
            _totals_reconcile,
            {
                "impressions": "coalesce(sum(impressions), 0)",
                "clicks": "coalesce(sum("
                "clicks - clicks_next_day + repeat_clicks + previous_day_clicks + orphan_clicks), 0)",
            },
        ),
    )


def _of_any_feed(declaration: FeedDeclaration) -> tuple[Expectation, ...]:
    identity = ", ".join(declaration.identity)
    unnamed = " OR ".join(f"{name} IS NULL" for name in declaration.identity)
    required = [column.name for column in declaration.columns if not column.nullable]
    return (
        Expectation("schema_as_declared", "The files have the declared columns and types.", _schema_as_declared),
        Expectation("not_empty", "There is at least one row.", _not_empty, {"rows": "count(1)"}),
        Expectation(
            "identity_unique",
            f"No two rows share their identity ({identity}).",
            _identity_unique,
            # Of a struct, as Spark tells many values of it apart faster than those of several columns.
            {"rows": "count(1)", "identities": f"count(DISTINCT IF({unnamed}, NULL, struct({identity})))"},
            apart=True,
        ),
        Expectation(
            "required_not_null",
            f"{', '.join(required)} are never NULL.",
            _required_not_null,
            {f"null_{name}": f"count_if({name} IS NULL)" for name in required},
        ),
        Expectation(
            "row_count_as_usual",
            "The row count is near the median of the days before. A warning only: real days differ.",
            _row_count_as_usual,
            {"rows": "count(1)"},
            blocking=False,
        ),
    )


def has_declared_schema(subject: Subject) -> bool:
    """Whether the files have the declared columns and types, so that anything else can be counted."""
    return bool(_schema_as_declared(subject, {}).passed)


def _schema_as_declared(subject: Subject, _: Mapping[str, Any]) -> Judgement:
    declared = {column.name: column.type for column in subject.promised}
    found = {column.name: column.type for column in subject.found}
    differences = [
        f"{name}: declared {declared.get(name, 'nothing')}, found {found.get(name, 'nothing')}"
        for name in [*declared, *(found.keys() - declared.keys())]
        if declared.get(name) != found.get(name)
    ]
    return Judgement(not differences, {"differences": "; ".join(differences) or "none", "columns": len(found)})


def _not_empty(_: Subject, counted: Mapping[str, Any]) -> Judgement:
    return Judgement(counted["rows"] > 0, {"rows": counted["rows"]})


def _identity_unique(_: Subject, counted: Mapping[str, Any]) -> Judgement:
    surplus = counted["rows"] - counted["identities"]
    return Judgement(surplus == 0, {"rows": counted["rows"], "rows with an identity seen before": surplus})


def _required_not_null(_: Subject, counted: Mapping[str, Any]) -> Judgement:
    nulls = {name.removeprefix("null_"): count for name, count in counted.items() if name.startswith("null_")}
    return Judgement(not any(nulls.values()), {f"NULL in {name}": count for name, count in nulls.items()})


def _times_inside_day(subject: Subject, counted: Mapping[str, Any]) -> Judgement:
    """The session's zone is UTC, so the first ten characters of a time are its UTC day."""
    inside = all(time is None or time[:10] == str(subject.day) for time in counted.values())
    return Judgement(inside, {"first": counted["first"] or "none", "last": counted["last"] or "none"})


def _rows_accounted(subject: Subject, counted: Mapping[str, Any]) -> Judgement:
    rows = subject.rows
    if rows is None:
        return WITHOUT_RECORD
    accounted = rows.published + rows.quarantined + rows.duplicates
    observed = {
        "read": rows.read,
        "published": rows.published,
        "quarantined": rows.quarantined,
        "duplicates": rows.duplicates,
        "rows in the files": counted["rows"],
    }
    return Judgement(rows.read == accounted and rows.published == counted["rows"], observed)


def _quarantined_share(subject: Subject, _: Mapping[str, Any]) -> Judgement:
    rows = subject.rows
    if rows is None:
        return WITHOUT_RECORD
    limit = subject.quarantined_share_limit
    observed = {
        "quarantined": rows.quarantined,
        "read": rows.read,
        "share": round(rows.quarantined / rows.read, 4) if rows.read else 0.0,
        "limit": limit,
    }
    return Judgement(rows.quarantined <= limit * rows.read, observed)


def _row_count_as_usual(subject: Subject, counted: Mapping[str, Any]) -> Judgement:
    if not subject.recent_rows:
        return Judgement(passed=True, observed={"rows": counted["rows"], "median of recent days": "none yet"})
    usual, factor = median(subject.recent_rows), subject.usual_rows_factor
    near = usual <= factor * counted["rows"] and counted["rows"] <= factor * usual
    observed = {
        "rows": counted["rows"],
        "median of recent days": usual,
        "days": len(subject.recent_rows),
        "factor": factor,
    }
    return Judgement(near, observed)


def _clicks_within_impressions(_: Subject, counted: Mapping[str, Any]) -> Judgement:
    observed = {
        "ads with more clicks than impressions": counted["unexplained_ads"],
        "explained by orphan clicks": counted["explained_ads"],
    }
    return Judgement(counted["unexplained_ads"] == 0, observed)


def _totals_reconcile(subject: Subject, counted: Mapping[str, Any]) -> Judgement:
    ads, clicks = subject.upstream_rows.get("clean-ads/v1.0"), subject.upstream_rows.get("clean-clicks/v1.0")
    observed = {
        "impressions": counted["impressions"],
        "rows of clean ads": NOT_KNOWN if ads is None else ads,
        "clicks": counted["clicks"],
        "rows of clean clicks": NOT_KNOWN if clicks is None else clicks,
    }
    if ads not in (None, counted["impressions"]) or clicks not in (None, counted["clicks"]):
        return Judgement(passed=False, observed=observed)
    return Judgement(None if None in (ads, clicks) else True, observed)
