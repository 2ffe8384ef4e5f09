"""Expectations for any feed on the times in it, against the partition's own time and now.

Here: how new the rows are, and whether they belong to the partition. Not here: other values (`column_rules`).
The parameters `blocking` and `name` are as in `column_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, timedelta
from typing import Any

from feed_assets.engine.moments import EPOCH
from feed_assets.engine.sql import quoted
from feed_assets.quality.expectation import Expectation, Judgement, Subject
from feed_assets.quality.rule_text import check_name, span_of_time


def fresh(column: str, *, within: timedelta, blocking: bool = True, name: str = "") -> Expectation:
    """The newest time in the column is at most `within` before the partition's end, or now if that is earlier.

    `column` is a TIMESTAMP. Without rows there is no newest time, and the expectation fails.
    """

    def judge(subject: Subject, counted: Mapping[str, Any]) -> Judgement:
        end = subject.window[1] if subject.window else subject.now
        due = min(subject.now, end).astimezone(UTC)
        if counted["newest"] is None:
            return Judgement(passed=False, observed={"newest": "none"}, sentence=f"No row has a {column}.")
        newest = counted["newest"]
        # Spark's years go beyond those of a datetime.
        age = due - EPOCH - timedelta(microseconds=counted["newest_micros"])
        sentence = f"The newest {column} is {newest}, {span_of_time(age)} before {due:%Y-%m-%d %H:%M:%S}"
        observed = {"newest": newest, "due": str(due), "limit": str(within)}
        return Judgement(age <= within, observed, f"{sentence}, limit {span_of_time(within)}.")

    return Expectation(
        name or check_name("fresh", [column]),
        f"The newest {column} is at most {span_of_time(within)} before the end of the partition, or before now.",
        judge,
        {"newest": f"string(max({quoted(column)}))", "newest_micros": f"unix_micros(max({quoted(column)}))"},
        blocking,
    )


def times_inside(column: str, *, blocking: bool = True, name: str = "") -> Expectation:
    """Every time in the column lies inside the partition's own time, in UTC. A partition without a time passes.

    `column` is a TIMESTAMP. NULL passes.
    """

    def judge(subject: Subject, counted: Mapping[str, Any]) -> Judgement:
        moments = [counted["first_micros"], counted["last_micros"]]
        observed = {"first": counted["first"] or "none", "last": counted["last"] or "none"}
        if subject.window is None or None in moments:
            sentence = "No row has a time." if subject.window else "The partition stands for no time."
            return Judgement(passed=True, observed=observed, sentence=sentence)
        start, end = (round(moment.timestamp() * 1_000_000) for moment in subject.window)
        found = f"{column} goes from {observed['first']} to {observed['last']}"
        limit = " to ".join(f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}" for moment in subject.window)
        return Judgement(start <= moments[0] and moments[1] < end, observed, f"{found}, the partition from {limit}.")

    times = quoted(column)
    return Expectation(
        name or check_name("times_inside", [column]),
        f"Every {column} lies inside the time of its partition, in UTC.",
        judge,
        {
            "first": f"string(min({times}))",
            "last": f"string(max({times}))",
            "first_micros": f"unix_micros(min({times}))",
            "last_micros": f"unix_micros(max({times}))",
        },
        blocking,
    )
