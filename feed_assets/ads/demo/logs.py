"""The demo's deliveries, cut from the real log: one on time, one late, one broken.

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
"""The late delivery has every tenth impression of the late day."""

BROKEN_RECORDS = 400


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Three files as a partner sends them."""

    on_time: Path
    late: Path
    broken: Path


def cut(folder: Path) -> Deliveries:
    """Write the three deliveries into a folder.

    The late delivery has impressions without a click, so that clicks need no new run. It has none of the last hour: the
    next day reads that hour to find repeated records, and would run again, too. The broken delivery repeats impressions
    of a day without their item, as if the partner had renamed a column.
    """
    deliveries = Deliveries(folder / "on-time.csv", folder / "late.csv", folder / "broken.csv")
    with gzip.open(LOG, "rt", encoding="utf-8", newline="") as log:
        reader = csv.reader(log)
        header = next(reader)
        rows = list(reader)
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


def _write(path: Path, header: list[str], rows: list[list[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
