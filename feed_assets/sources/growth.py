"""Whether a raw partition changed enough since it was processed to be processed again.

Here: one pure decision about two read sets, with its numbers. Not here: where the read sets come from (the latest
update's record and `raw`), and requesting a run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from enum import StrEnum
from fractions import Fraction
from typing import Any

from feed_assets.file_feed.record import RawInput
from feed_assets.sources.thresholds import CostOfRun

_MILLIONTH = Decimal("0.000001")


class GrowthKind(StrEnum):
    """How a raw partition differs from the read set that it was last processed from."""

    UNCHANGED = "unchanged"
    BELOW_THRESHOLD = "below_threshold"
    GROWN = "grown"
    REPLACED = "replaced"
    SHRUNK = "shrunk"
    VANISHED = "vanished"
    NEVER_PROCESSED = "never_processed"


REPROCESSED = frozenset({GrowthKind.GROWN, GrowthKind.REPLACED, GrowthKind.SHRUNK, GrowthKind.NEVER_PROCESSED})
"""Changes after which the day is processed again. Not `vanished`: there is nothing to process, and the published update
stays in force until a person decides otherwise."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about one raw partition, and every number it rests on.

    `baseline` is the read set processed last, `current` that of now. Growth is that of records, or of bytes if a file
    does not tell how many records it has: then both numbers of records are None. `growth_percent` is None if the
    baseline has none. `added`, `removed` and `changed` count files, and are None if only totals were compared; a
    changed file has the same name, but another size or tag. `costs` are what the threshold follows from; None for a
    threshold that the source states.
    """

    kind: GrowthKind
    threshold_percent: Decimal
    growth_percent: Decimal | None
    baseline_records: int | None
    current_records: int | None
    baseline_bytes: int
    current_bytes: int
    baseline_files: int
    current_files: int
    added: int | None
    removed: int | None
    changed: int | None
    costs: CostOfRun | None = None

    @property
    def needs_files(self) -> bool:
        """Whether files must be listed: by totals, replaced files look like a growth below the threshold."""
        return self.kind is GrowthKind.REPLACED and self.removed is None

    @property
    def reprocess(self) -> bool:
        """Whether the day is to be processed again."""
        return self.kind in REPROCESSED

    @property
    def plain(self) -> dict[str, Any]:
        """All its fields as JSON; exact numbers are texts."""
        values = asdict(self) | {
            "costs": asdict(self.costs) | {"costs": dict(self.costs.costs)} if self.costs else None
        }
        found: dict[str, Any] = json.loads(json.dumps(values, default=str))
        return found

    def sentence(self, outcome: str | None = None) -> str:
        """The decision and its numbers, for logs: `grown, +10 % (threshold 5 %): ...; to be processed again`.

        `outcome` replaces the last part.
        """
        again = "to be processed" if self.kind is GrowthKind.NEVER_PROCESSED else "to be processed again"
        decided = again if self.reprocess else "left as it is"
        return f"{self._what()}: {self._numbers()}; {outcome or decided}"

    def _what(self) -> str:
        threshold = f"threshold {_exactly(self.threshold_percent)} %"
        if self.costs is not None:
            threshold += f": {self.costs.sentence}"
        match self.kind:
            case GrowthKind.GROWN if self.growth_percent is None:
                return f"grown from nothing ({threshold})"
            case GrowthKind.GROWN | GrowthKind.BELOW_THRESHOLD | GrowthKind.SHRUNK:
                return f"{self.kind.replace('_', ' ')}, {_rounded(self.growth_percent)} % ({threshold})"
            case _:
                return self.kind.replace("_", " ")

    def _numbers(self) -> str:
        files = f"{self.baseline_files:,} -> {self.current_files:,} files"
        differences = f" ({self.added} added, {self.removed} removed, {self.changed} changed)"
        known = differences if self.removed is not None else ""
        counted = ""
        if self.baseline_records is not None:
            counted = f"{self.baseline_records:,} -> {self.current_records:,} records, "
        return f"{counted}{self.baseline_bytes:,} -> {self.current_bytes:,} bytes, {files}{known}"


def decide(
    baseline: RawInput | None, current: RawInput | None, threshold_percent: Decimal, costs: CostOfRun | None = None
) -> Decision:
    """Compare the read set that a partition was last processed from, None if it never was, with the current one.

    `costs` are those that the threshold follows from, for the record.

    Growth is measured against the baseline: several small growths add up until the partition is processed again. It
    is measured in records, whose number the names of landed files have, because small Parquet files have as much footer
    as data. If a file of another receiver is among them, it is measured in bytes. A growth of exactly the threshold
    counts. Replaced or removed files count whatever the growth, because the published update contains them. If only
    totals are known, a change below the threshold counts as files replaced (see `Decision.needs_files`).
    """
    by_file = not any(each.listed for each in (baseline, current) if each)
    before, after = _parts(baseline, by_file=by_file), _parts(current, by_file=by_file)
    baseline_bytes, current_bytes = (each.bytes if each else 0 for each in (baseline, current))
    records = _records(baseline, current)
    size_before, size_now = records or (baseline_bytes, current_bytes)
    removed = len(before.keys() - after.keys()) if by_file else None
    changed = sum(after[path] != before[path] for path in before.keys() & after.keys()) if by_file else None
    if baseline is None and after:
        kind = GrowthKind.NEVER_PROCESSED
    elif before == after:
        kind = GrowthKind.UNCHANGED
    elif not after:
        kind = GrowthKind.VANISHED
    elif size_now < size_before:
        kind = GrowthKind.SHRUNK
    elif size_now > size_before and _reaches(size_before, size_now, threshold_percent):
        kind = GrowthKind.GROWN
    elif removed or changed or not by_file:
        kind = GrowthKind.REPLACED
    else:
        kind = GrowthKind.BELOW_THRESHOLD
    return Decision(
        kind=kind,
        threshold_percent=threshold_percent,
        growth_percent=_growth(size_before, size_now),
        baseline_records=records[0] if records else None,
        current_records=records[1] if records else None,
        baseline_bytes=baseline_bytes,
        current_bytes=current_bytes,
        baseline_files=baseline.count if baseline else 0,
        current_files=current.count if current else 0,
        added=len(after.keys() - before.keys()) if by_file else None,
        removed=removed,
        changed=changed,
        costs=costs,
    )


def _records(baseline: RawInput | None, current: RawInput | None) -> tuple[int, int] | None:
    """The number of records of both; None if that of a file is unknown."""
    before, now = (each.records if each else 0 for each in (baseline, current))
    return None if before is None or now is None else (before, now)


def _parts(read: RawInput | None, *, by_file: bool) -> Mapping[str, object]:
    """The parts of a read set: its files by path, or the totals of its hours."""
    if read is None or not by_file:
        return read.hours if read else {}
    return {file.path: (file.size, file.tag) for file in read.files}


def _reaches(baseline: int, current: int, threshold_percent: Decimal) -> bool:
    # Fractions are exact for any size and threshold; a Decimal product would be rounded to 28 digits.
    return (current - baseline) * 100 >= Fraction(threshold_percent) * baseline


def _growth(baseline: int, current: int) -> Decimal | None:
    if baseline == 0:
        return None
    with localcontext(prec=50):
        return Decimal(current - baseline) * 100 / baseline


def _exactly(percent: Decimal) -> str:
    """The threshold, rounded up to six digits, so that a growth that is shown as less did not reach it."""
    with localcontext(prec=60):
        return f"{percent.quantize(_MILLIONTH, ROUND_CEILING).normalize():f}"


def rounded_growth(percent: Decimal, digits: int = 2) -> Decimal:
    """A growth to show, with these digits after the point: rounded down, so that 4.999 % is never shown as 5 %."""
    with localcontext(prec=50):
        return percent.quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR)


def _rounded(percent: Decimal | None) -> str:
    return "0" if percent is None else f"{rounded_growth(percent).normalize():+f}"
