"""How the made-up partners write a generated day down: portal as CSV, exchange as TSV, mobile as JSON lines.

Here: the text of lines, files of them, and raw partitions as if the files had landed. Not here: which events there
are (see `generator`); the partners themselves are described in `ads/partners/`.
"""

from __future__ import annotations

import gzip
from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from feed_assets.sources.reasons import MALFORMED as MALFORMED_RECORD
from feed_assets.sources.reasons import NO_TIME as NO_USABLE_TIME
from feed_assets_tests.generator import HOUR, MALFORMED, NO_AD, NO_TIME, NOBODY, SECOND, Integers, Log, Records

NULL_TOKENS = ("", "null", "Na")
NEVER = "not-a-time"
HEADERS = {
    "ads": "impression,time,ad,campaign,user,placement,cost",
    "clicks": "click,time,impression,ad,user",
}
AGENTS = ("fox", "chrome", "safari", "curl")


class Layout(ABC):
    """The hand of one partner."""

    name: str
    extension: str
    named = True
    """Whether clicks say which impression they were made on."""
    shared = False
    """Whether impressions and clicks are lines of one file, so that each source filters the other's out."""
    cut_lines_have_a_time = True
    """Whether a malformed line still says when it was, so that it lands, or goes to quarantine at once."""

    @property
    def ads(self) -> str:
        """The key of the source of impressions."""
        return f"ads/{self.name}_ads"

    @property
    def clicks(self) -> str:
        """The key of the source of clicks."""
        return f"clicks/{self.name}_clicks"

    @abstractmethod
    def lines(self, log: Log, records: Records, kind: str) -> pa.Array:
        """A line of text for each record; `kind` is `ads` or `clicks`."""

    @abstractmethod
    def ad(self, number: int) -> str:
        """The canonical id of an ad."""

    def header(self, kind: str) -> str:  # noqa: ARG002 - most partners send none
        """What comes before the lines."""
        return ""

    def quarantined(self, records: Records) -> dict[str, int]:
        """What landing must not find an hour for, by reason."""
        cut = 0 if self.cut_lines_have_a_time else records.count(MALFORMED)
        found = {MALFORMED_RECORD: cut, NO_USABLE_TIME: records.count(NO_TIME)}
        return {reason: count for reason, count in found.items() if count}

    def write(self, log: Log, directory: Path, *, compressed: bool = False) -> dict[str, list[Path]]:
        """The day's files for `ads` and `clicks`: first what came in time, then what came late, if anything did."""
        kinds = {"ads": log.ads, "clicks": log.clicks}
        if self.shared:
            both = self._write(log, kinds, directory / f"{self.name}", compressed=compressed)
            return dict.fromkeys(kinds, both)
        return {
            kind: self._write(log, {kind: records}, directory / f"{self.name}_{kind}", compressed=compressed)
            for kind, records in kinds.items()
        }

    def _write(self, log: Log, kinds: dict[str, Records], stem: Path, *, compressed: bool) -> list[Path]:
        lines = pa.concat_arrays([self.lines(log, records, kind) for kind, records in kinds.items()])
        place = np.concatenate([records.place for records in kinds.values()])
        late = np.concatenate([records.late for records in kinds.values()])
        random = np.random.default_rng(log.shape.seed)
        ends = pc.if_else(pa.array(random.random(len(lines)) < log.dirt.crlf), "\r\n", "\n")
        paths = []
        for suffix, wanted in (("", ~late), ("_late", late)):
            chosen = np.flatnonzero(wanted)
            if not suffix or len(chosen):
                order = pa.array(chosen[np.argsort(place[chosen], kind="stable")])
                text = _joined(lines.take(order), ends.take(order))
                header = self.header(next(iter(kinds)))
                path = stem.with_name(f"{stem.name}{suffix}{self.extension}{'.gz' if compressed else ''}")
                _write_text(path, header, text, compressed=compressed)
                paths.append(path)
        return paths


class Portal(Layout):
    """CSV with a header, ids and times as one would wish them."""

    name, extension = "portal", ".csv"

    def header(self, kind: str) -> str:
        return HEADERS[kind] + "\n"

    def ad(self, number: int) -> str:
        return f"a{number}"

    def columns(self, log: Log, records: Records, kind: str) -> dict[str, pa.Array]:
        """The fields of each record under the names of the header."""
        fields = {
            "impression": _numbered("i", records.impression),
            "click": _numbered("c", records.click),
            "time": _times(log, records, "{}-{}-{} {}:{}:{}.{}+00:00"),
            "ad": _unless(records.fault == NO_AD, _tokens(records), _numbered("a", records.ad)),
            "campaign": _numbered("k", records.ad % log.shape.campaigns),
            "user": _unless(records.user == NOBODY, _tokens(records), _numbered("u", records.user)),
            "placement": _numbered("", records.placement),
            "cost": _decimal(records.millionths, 6),
        }
        return {name: fields[name] for name in HEADERS[kind].split(",")}

    def lines(self, log: Log, records: Records, kind: str) -> pa.Array:
        fields = list(self.columns(log, records, kind).values())
        return _unless(records.fault == MALFORMED, _joined(*fields[:2], by=","), _joined(*fields, by=","))

    def write_raw(self, log: Log, base: Path) -> None:
        """Put the records that have a time into raw hourly partitions below `base`, as another receiver does."""
        for kind, source, records in (("ads", self.ads, log.ads), ("clicks", self.clicks, log.clicks)):
            usable = records.take(np.flatnonzero(records.fault != NO_TIME))
            usable = usable.take(np.argsort(usable.at, kind="stable"))
            columns = self.columns(log, usable, kind)
            cut = pa.array(usable.fault == MALFORMED)
            whole = list(columns)[:2]
            nothing = pa.scalar(None, pa.string())
            table = pa.table(
                {name: value if name in whole else pc.if_else(cut, nothing, value) for name, value in columns.items()}
                | {
                    "_file": pa.array([f"{self.name}_{kind}.csv"] * len(usable)).dictionary_encode(),
                    "_line": pa.array(np.arange(2, len(usable) + 2)),
                    "_malformed": pc.if_else(cut, _joined(*(columns[name] for name in whole), by=","), nothing),
                }
            )
            hours = usable.at // HOUR
            for hour in np.unique(hours).tolist():
                begin, end = np.searchsorted(hours, [hour, hour + 1]).tolist()
                day = log.shape.day + timedelta(days=hour // 24)
                directory = base / "raw" / source / f"{day}" / f"{hour % 24:02}"
                directory.mkdir(parents=True, exist_ok=True)
                path = directory / f"{self.name}.parquet"
                pq.write_table(table.slice(begin, end - begin), path, compression="zstd", store_schema=False)


class Exchange(Layout):
    """One headerless TSV; ids need several columns, times run together, prices are per thousand."""

    name, extension, shared = "exchange", ".tsv", True

    def ad(self, number: int) -> str:
        return f"{number // 10}:{number % 10}"

    def lines(self, log: Log, records: Records, kind: str) -> pa.Array:
        fields = [
            _numbered("", records.impression if kind == "ads" else records.click),
            _times(log, records, "{}{}{}{}{}{}{}"),
            pa.array([{"ads": "imp", "clicks": "clk"}[kind]] * len(records), pa.string()),
            _numbered("x", records.impression // 3),
            _numbered("", records.impression % 3 + 1),
            _numbered("", records.ad // 10),
            _unless(records.fault == NO_AD, _tokens(records), _numbered("", records.ad % 10)),
            _unless(records.user == NOBODY, _tokens(records), _numbered("10.0.0.", records.user // 4)),
            pa.array(AGENTS).take(pa.array(records.user % 4)),
            _decimal(records.millionths, 3) if kind == "ads" else pa.array(["-"] * len(records), pa.string()),
        ]
        cut, whole = _joined(*fields[:4], by="\t"), _joined(*fields, by="\t")
        return _unless(records.fault == MALFORMED, cut, whole)


class Mobile(Layout):
    """JSON lines with Tokyo's wall time; clicks do not name an impression, and a cut line says nothing."""

    name, extension, named, cut_lines_have_a_time = "mobile", ".jsonl", False, False

    def ad(self, number: int) -> str:
        return f"a{number}"

    def lines(self, log: Log, records: Records, kind: str) -> pa.Array:
        ids = {"ads": _numbered("m", records.impression), "clicks": _numbered("c", records.click)}
        nobody = pa.array(["null", '""', '"Na"']).take(pa.array(records.impression % 3))
        pieces = [
            '{"id": "',
            ids[kind],
            '", "at": "',
            _times(log, records, "{}-{}-{}T{}:{}:{}.{}", ahead=timedelta(hours=9)),
            '", "ad": {"id": ',
            _unless(records.fault == NO_AD, pa.array(["null"] * len(records)), _text(_numbered("a", records.ad))),
            ', "campaign": "',
            _numbered("k", records.ad % log.shape.campaigns),
            '"}, "user": ',
            _unless(records.user == NOBODY, nobody, _text(_numbered("u", records.user))),
            ', "slot": ',
            _numbered("", records.placement),
            *([', "price": ', _decimal(records.millionths, 6)] if kind == "ads" else []),
            "}",
        ]
        whole = _joined(*pieces)
        return _unless(records.fault == MALFORMED, pc.utf8_slice_codeunits(whole, 0, 40), whole)


LAYOUTS = (Portal(), Exchange(), Mobile())


def _times(log: Log, records: Records, pattern: str, *, ahead: timedelta = timedelta()) -> pa.Array:
    """Each time as the pattern has year, month, day, hour, minute, second and millisecond."""
    start = datetime.combine(log.shape.day, datetime.min.time(), UTC) + ahead
    # Few seconds are in a day, so each is spelled once.
    seconds, which = np.unique(records.at // SECOND, return_inverse=True)
    before, after = pattern.rsplit("{}", 1)
    spelled = [
        before.format(*(start + timedelta(seconds=second)).strftime("%Y %m %d %H %M %S").split())
        for second in seconds.tolist()
    ]
    thousandths = pa.array([f"{number:03}{after}" for number in range(1000)])
    texts = _joined(
        pa.array(spelled, pa.string()).take(pa.array(which)), thousandths.take(pa.array(records.at % SECOND))
    )
    return _unless(records.fault == NO_TIME, pa.array([NEVER] * len(records), pa.string()), texts)


def _numbered(prefix: str, numbers: Integers) -> pa.Array:
    texts = pc.cast(pa.array(numbers), pa.string())
    return _joined(prefix, texts) if prefix else texts


def _decimal(numbers: Integers, digits: int) -> pa.Array:
    """The numbers divided by a power of ten, written with as many digits after the point."""
    fraction = pc.cast(pa.array(numbers % 10**digits), pa.string())
    padded = pc.utf8_lpad(fraction, width=digits, padding="0")
    return _joined(pc.cast(pa.array(numbers // 10**digits), pa.string()), padded, by=".")


def _tokens(records: Records) -> pa.Array:
    return pa.array(NULL_TOKENS).take(pa.array(records.impression % len(NULL_TOKENS)))


def _text(values: pa.Array) -> pa.Array:
    return _joined('"', values, '"')


def _unless(exception: np.ndarray, then: pa.Array, otherwise: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(exception), then, otherwise) if exception.any() else otherwise


def _joined(*pieces: pa.Array | str, by: str = "") -> pa.Array:
    return pc.binary_join_element_wise(*pieces, by)


def _write_text(path: Path, header: str, lines: pa.Array, *, compressed: bool) -> None:
    _, offsets, text = lines.buffers()
    end = int(np.frombuffer(offsets, np.int32)[len(lines)])
    with gzip.open(path, "wb", compresslevel=1) if compressed else path.open("wb") as file:
        file.write(header.encode())
        # One after the other, the strings of an array are the text of the file.
        file.write(memoryview(text or b"")[:end])
