"""The demo's deliveries, cut from the real log: one on time, one late, one broken.

Here: which records go into which file. Not here: landing them.
"""

from __future__ import annotations

import csv
import gzip
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LOG = Path(__file__).parent / "open-bandit" / "bts.csv.gz"
CATALOG = Path(__file__).parent / "ad_catalog.csv"

LATE_DAY = "2019-11-27"
BROKEN_DAY = "2019-11-29"
EVERY = 10
"""The late delivery has every tenth impression of the late day."""

BROKEN_RECORDS = 400
BAD_HOUR = 15
"""The hour of the late day in which there are bots among the impressions."""
BOTS_EVERY = 4

LATE_HOUR = 12
LATE_RECORDS = 300
"""How many impressions of LATE_HOUR come late: more than the threshold of the day, 5 %."""
HOURS = range(12, 24)
"""The hours of the late day that land in the act about the workflow."""
HOURS_OF_A_FILE = 4


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Three files as a partner sends them."""

    on_time: Path
    late: Path
    broken: Path


@dataclass(frozen=True, slots=True)
class CountedDeliveries:
    """The late day in three files, and how many records each source has in each hour of it, as the partner counts.

    `hour` has the records of BAD_HOUR that come on time, and `corrected` those without bots.
    """

    on_time: Path
    hour: Path
    late: Path
    corrected: Path
    counts: Mapping[str, Mapping[int, int]]
    corrected_counts: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class HourlyDeliveries:
    """HOURS of the late day, shuffled over some files, a late file for LATE_HOUR, and all of them in one file."""

    shuffled: tuple[Path, ...]
    late: Path
    whole: Path


def cut(folder: Path) -> Deliveries:
    """Write the three deliveries into a folder.

    The late delivery has impressions without a click, so that clicks need no new run. It has none of the last hour: the
    next day reads that hour to find repeated records, and would run again, too. The broken delivery repeats impressions
    of a day without their item, as if the partner had renamed a column.
    """
    deliveries = Deliveries(folder / "on-time.csv", folder / "late.csv", folder / "broken.csv")
    header, rows = _read()
    day, click, item = header.index("timestamp"), header.index("click"), header.index("item_id")
    unclicked = [row for row in rows if row[click] == "0"]
    before_last_hour = [row for row in unclicked if LATE_DAY <= row[day] < f"{LATE_DAY} 23"]
    late = {id(row) for row in before_last_hour[::EVERY]}
    intact = [row for row in unclicked if row[day].startswith(BROKEN_DAY)]
    broken = [[*row[:item], "", *row[item + 1 :]] for row in intact[:BROKEN_RECORDS]]
    _write(deliveries.on_time, header, [row for row in rows if id(row) not in late])
    _write(deliveries.late, header, [row for row in rows if id(row) in late])
    _write(deliveries.broken, header, broken)
    return deliveries


def cut_counted(folder: Path) -> CountedDeliveries:
    """Write the records of the late day into a folder: all but every tenth, and every tenth, clicks among both.

    Every fourth of the impressions of BAD_HOUR that come on time, and have no click, is a bot's.
    """
    header, rows = _read()
    time, click = header.index("timestamp"), header.index("click")
    of_day = sorted((row for row in rows if row[time].startswith(LATE_DAY)), key=lambda row: (row[click], row[time]))
    late = of_day[::EVERY]
    on_time = [row for number, row in enumerate(of_day) if number % EVERY]
    hour = [row for row in on_time if int(row[time][11:13]) == BAD_HOUR]
    bots = {id(row) for row in [row for row in hour if row[click] == "0"][::BOTS_EVERY]}
    found = CountedDeliveries(
        folder / "on-time.csv",
        folder / "hour-15.csv",
        folder / "late.csv",
        folder / "corrected.csv",
        _counts(header, of_day),
        _counts(header, [row for row in of_day if id(row) not in bots]),
    )
    _write(found.on_time, header, [row for row in on_time if int(row[time][11:13]) != BAD_HOUR])
    _write(found.hour, header, hour)
    _write(found.late, header, late)
    _write(found.corrected, header, [row for row in hour if id(row) not in bots])
    return found


def cut_hours(folder: Path) -> HourlyDeliveries:
    """Write HOURS of the late day into a folder: each is in one of the shuffled files, always in the same order.

    The late file has impressions without a click.
    """
    header, rows = _read()
    time, click = header.index("timestamp"), header.index("click")
    of_day = [row for row in rows if row[time].startswith(LATE_DAY) and int(row[time][11:13]) in HOURS]
    unclicked = [row for row in of_day if int(row[time][11:13]) == LATE_HOUR and row[click] == "0"]
    late = {id(row) for row in unclicked[:LATE_RECORDS]}
    hours = random.Random(LATE_DAY).sample(HOURS, len(HOURS))  # noqa: S311 - no secret
    shuffled = []
    for start in range(0, len(hours), HOURS_OF_A_FILE):
        shuffled.append(folder / f"hours-{start // HOURS_OF_A_FILE}.csv")
        mine = hours[start : start + HOURS_OF_A_FILE]
        _write(
            shuffled[-1],
            header,
            [row for hour in mine for row in of_day if int(row[time][11:13]) == hour and id(row) not in late],
        )
    found = HourlyDeliveries(tuple(shuffled), folder / f"late-hour-{LATE_HOUR}.csv", folder / "whole-day.csv")
    _write(found.late, header, [row for row in of_day if id(row) in late])
    _write(found.whole, header, of_day)
    return found


def _counts(header: list[str], rows: list[list[str]]) -> dict[str, Mapping[int, int]]:
    """How many records each source has in each hour."""
    time, click = header.index("timestamp"), header.index("click")
    hours = [(int(row[time][11:13]), row[click] == "1") for row in rows]
    return {
        "open_bandit_ads": Counter(hour for hour, _ in hours),
        "open_bandit_clicks": Counter(hour for hour, clicked in hours if clicked),
    }


def _read() -> tuple[list[str], list[list[str]]]:
    """The names of the real log's columns, and its records."""
    with gzip.open(LOG, "rt", encoding="utf-8", newline="") as log:
        reader = csv.reader(log)
        return next(reader), list(reader)


def _write(path: Path, header: list[str], rows: list[list[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
