"""Expectations for any feed on its number of rows, and on how the records that were read add up.

Here: counts and shares. Not here: what is in the rows (`column_rules`, `time_rules`).
The parameters `blocking` and `name` are as in `column_rules`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import median
from typing import Any

from feed_assets.engine.judged_rows import Verdict
from feed_assets.file_feed.record import Rows
from feed_assets.quality.expectation import WITHOUT_RECORD, Expectation, Judgement, Subject
from feed_assets.quality.rule_text import in_percent, rows_counted


def not_empty(*, unless_sent_so: bool = False, blocking: bool = True, name: str = "not_empty") -> Expectation:
    """There is at least one row.

    With `unless_sent_so`, an empty update passes too if there was input: raw files, updates upstream, or for each
    source a statement that there is nothing to send.
    """

    def judge(subject: Subject, counted: Mapping[str, Any]) -> Judgement:
        rows = counted["rows"]
        observed = {"rows": rows}
        if rows:
            return Judgement(passed=True, observed=observed, sentence=f"{rows_counted(rows)}, at least 1 expected.")
        if not unless_sent_so:
            return Judgement(passed=False, observed=observed, sentence="No rows, at least 1 expected.")
        if subject.inputs_seen is None:
            return Judgement(passed=None, observed=observed, sentence="No rows, and no record of its inputs.")
        if subject.inputs_seen:
            return Judgement(passed=True, observed=observed, sentence="No rows. Inputs were read.")
        return Judgement(passed=False, observed=observed, sentence="No rows, and no input was read.")

    unless = ", unless inputs were read and none of their rows remained" if unless_sent_so else ""
    return Expectation(name, f"There is at least one row{unless}.", judge, {"rows": "count(1)"}, blocking)


def row_count_near_median(
    *, factor: float | None = None, blocking: bool = False, name: str = "row_count_near_median"
) -> Expectation:
    """The row count is at most `factor` times, and at least one `factor`-th of, the median of the partitions before.

    If partitions stand for no time, the median is over the earlier updates of the partition. Without `factor` the limit
    is that of `Limits`; its `recent_days` also says how many partitions make the median. Without earlier rows the
    expectation holds.
    """

    def judge(subject: Subject, counted: Mapping[str, Any]) -> Judgement:
        rows = counted["rows"]
        if not subject.recent_rows:
            observed: dict[str, Any] = {"rows": rows, "median of recent days": "none yet"}
            return Judgement(
                passed=True, observed=observed, sentence=f"{rows_counted(rows)}, no earlier rows to compare."
            )
        usual, limit = median(subject.recent_rows), subject.usual_rows_factor if factor is None else factor
        days = len(subject.recent_rows)
        observed = {"rows": rows, "median of recent days": usual, "days": days, "factor": limit}
        found = f"{rows_counted(rows)}, the median of the {days} before is {usual:,g}"
        sentence = f"{found}, limit a factor of {limit:g}."
        return Judgement(usual <= limit * rows and rows <= limit * usual, observed, sentence)

    limit = (
        "the factor of `limits.usual_rows_factor` (2 unless configured)" if factor is None else f"a factor {factor:g}"
    )
    only = "" if blocking else " A warning only: real days differ."
    return Expectation(
        name, f"The row count is within {limit} of the median before.{only}", judge, {"rows": "count(1)"}, blocking
    )


def rows_accounted(*, blocking: bool = True) -> Expectation:
    """Records read = rows published + quarantined + duplicates, and the files hold the published rows."""
    return Expectation(
        "rows_accounted",
        "Records read = rows published + quarantined + duplicates, and the files hold the published ones.",
        _rows_accounted,
        {"rows": "count(1)"},
        blocking,
    )


def quarantined_share(*, limit: float | None = None, blocking: bool = True) -> Expectation:
    """At most this share (0 to 1) of the records read is quarantined; without `limit`, `Limits` has the share."""

    def judge(subject: Subject, _: Mapping[str, Any]) -> Judgement:
        rows = subject.rows
        if rows is None:
            return WITHOUT_RECORD
        at_most = subject.quarantined_share_limit if limit is None else limit
        share = rows.quarantined / rows.read if rows.read else 0.0
        observed = {"quarantined": rows.quarantined, "read": rows.read, "share": round(share, 4), "limit": at_most}
        reasons = _most_common_reasons(rows)
        found = f"{rows.quarantined:,} of {rows.read:,} records quarantined ({in_percent(share)})"
        return Judgement(
            rows.quarantined <= at_most * rows.read,
            {**observed, "reasons": reasons} if reasons else observed,
            f"{found}, limit {in_percent(at_most)}.",
        )

    shown = "`limits.quarantined_share` (5 % unless configured)" if limit is None else in_percent(limit)
    return Expectation(
        "quarantined_share", f"At most {shown} of the records read are quarantined.", judge, blocking=blocking
    )


def _most_common_reasons(rows: Rows, most: int = 3) -> str:
    """Why most records were quarantined, such as `missing ad_id (400)`; empty if no reasons were counted."""
    prefix = f"{Verdict.QUARANTINED}: "
    counts = Counter({name.removeprefix(prefix): n for name, n in rows.reasons.items() if name.startswith(prefix)})
    shown = [f"{reason} ({number:,})" for reason, number in counts.most_common(most)]
    return ", ".join([*shown, *(["..."] if len(counts) > most else [])])


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
    sentence = (
        f"{rows.read:,} records read; {rows.published:,} published + {rows.quarantined:,} quarantined + "
        f"{rows.duplicates:,} duplicates make {accounted:,}; the files hold {rows_counted(counted['rows'])}."
    )
    return Judgement(rows.read == accounted and rows.published == counted["rows"], observed, sentence)
