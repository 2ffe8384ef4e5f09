"""The demo's deliveries, cut from the real log: what comes on time, what comes late, what comes broken.

Here: which records go into which file. Not here: landing them.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

LOG = Path(__file__).parent / "open-bandit" / "bts.csv.gz"
CATALOG = Path(__file__).parent / "ad_catalog.csv"

LATE_DAY = "2019-11-27"
BROKEN_DAY = "2019-11-29"
EVERY = 10
"""Of the late day's impressions, one in ten is held back."""

BROKEN_RECORDS = 400


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Three files as a partner might send them."""

    on_time: Path
    late: Path
    broken: Path


def cut(folder: Path) -> Deliveries:
    """Write the three deliveries into a folder.

    Held back are impressions without a click, so that the late delivery concerns ads and no clicks. None is of the last
    hour: the next day reads that hour to know what is delivered again, and would run again, too. The broken delivery
    repeats such records of a day with the item gone, as after a column was renamed at the partner's.
    """
    deliveries = Deliveries(folder / "on-time.csv", folder / "late.csv", folder / "broken.csv")
    with gzip.open(LOG, "rt", encoding="utf-8", newline="") as log:
        reader = csv.reader(log)
        header = next(reader)
        rows = list(reader)
    day, click, item = header.index("timestamp"), header.index("click"), header.index("item_id")
    whole_day = [row for row in rows if row[day].startswith(LATE_DAY)]
    unclicked = [row for row in whole_day if row[click] == "0" and row[day] < f"{LATE_DAY} 23"]
    held_back = {id(row) for row in unclicked[::EVERY]}
    whole = [row for row in rows if row[day].startswith(BROKEN_DAY) and row[click] == "0"]
    broken = [[*row[:item], "", *row[item + 1 :]] for row in whole[:BROKEN_RECORDS]]
    _write(deliveries.on_time, header, [row for row in rows if id(row) not in held_back])
    _write(deliveries.late, header, [row for row in rows if id(row) in held_back])
    _write(deliveries.broken, header, broken)
    return deliveries


def _write(path: Path, header: list[str], rows: list[list[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
