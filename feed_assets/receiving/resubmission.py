"""Landing corrected records again: each record once, however often its correction comes.

Here: the batches of corrected records, and which records they have. Not here: which records are in quarantine
(`operations.quarantined`), and the command (`cli.quarantine_command`).

A batch is an object that names the place of each of its records, and is created before it lands. So whoever finds a
place in a batch knows that the record has landed, or lands when that batch is completed; and two that resubmit at the
same time cannot both create the batch of a number. The file of a batch is always the same, so it lands once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, NotFoundError
from feed_assets.receiving.door import Door
from feed_assets.receiving.receipts import ENDING
from feed_assets.receiving.rejections import marked
from feed_assets.sources.layout import RAW, content_digest
from feed_assets.sources.ledger import Landing, newest_landing
from feed_assets.sources.scratch import scratch_directory
from feed_assets.sources.spec import Source

BATCHES: Final = f"{RAW}.resubmitted/"
RECORD_BYTES: Final = 2**20
_DIGITS: Final = 6
_FILE: Final = re.compile(r"resubmitted-([0-9]{6,12})\.jsonl")

TWICE: Final = "is twice in the file; leave one"
NOT_THERE: Final = "is not in quarantine; check source, file and line"


class Place(msgspec.Struct, frozen=True):
    """A record of a landed file of a source."""

    file: str
    line: int


class Correction(msgspec.Struct, frozen=True):
    """A corrected record, and the place of the record that it replaces. `record` is JSON, in one line."""

    place: Place
    record: bytes


class CorrectionError(Exception):
    """A line is no line of exported records; the message begins with its number."""


class _Exported(msgspec.Struct):
    """What counts of a line of `feed-assets quarantine export`."""

    source: str
    file: str
    line: int
    record: msgspec.Raw


class Batch(msgspec.Struct, frozen=True):
    """Corrected records: `lines` are those of the file that lands, and `places` what each replaces."""

    places: tuple[Place, ...]
    lines: tuple[str, ...]

    @property
    def content(self) -> bytes:
        """The content of the file that lands."""
        return "".join(f"{line}\n" for line in self.lines).encode()

    @property
    def sha256(self) -> str:
        """The digest of the content, in hex."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, slots=True)
class Resubmitted:
    """What became of corrections: landings of their batches, and each that did not land with the reason.

    Of the landings, some may complete batches of earlier calls.
    """

    landed: tuple[Correction, ...]
    landings: tuple[Landing, ...]
    before: tuple[Correction, ...]
    refused: tuple[tuple[Correction, str], ...]


def read_corrections(content: bytes) -> dict[str, list[Correction]]:
    """The corrections in the JSON lines of a file, by the source that they name. Raises CorrectionError."""
    found: dict[str, list[Correction]] = {}
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            each = _exported(line)
            # If the partner sent no object, its text was exported.
            record = bytes(each.record)
            if record.startswith(b'"'):
                record = msgspec.json.decode(record, type=str).encode()
        except (msgspec.DecodeError, RecursionError) as error:
            raise CorrectionError(
                f"{number} is no line of `feed-assets quarantine export`: {error}. Leave all fields but `record` as "
                "they are."
            ) from None
        record = record.strip().replace(b"\n", b" ").replace(b"\r", b" ")
        found.setdefault(each.source, []).append(Correction(Place(each.file, each.line), record))
    return found


def batches(blackboard: Blackboard, source: str) -> Iterator[tuple[str, Batch]]:
    """The batches of a source, each with the name of its file. A listing, and a read for each."""
    prefix = f"{BATCHES}{source}/"
    for entry in list_all(blackboard, prefix):
        name = entry.key.removeprefix(prefix).removesuffix(".json")
        yield _file(name), _decode(blackboard.read(entry.key).data)


def batch_of(blackboard: Blackboard, source: str, file: str) -> Batch | None:
    """The batch whose file has this name, None if it is no file of a batch."""
    if (match := _FILE.fullmatch(file)) is None:
        return None
    try:
        return _decode(blackboard.read(_key(source, match[1])).data)
    except NotFoundError:
        return None


def resubmit(
    blackboard: Blackboard,
    source: Source,
    corrections: Sequence[Correction],
    quarantined: Collection[Place],
    land: Callable[[Path], Landing],
) -> Resubmitted:
    """Land the corrections whose places are quarantined and in no batch yet, together with batches that did not land.

    `land` lands a file of the source, and is called only if there is something to land; its errors are raised. The
    same call completes it then.
    """
    judged = dict(Door.of(source, record_bytes=RECORD_BYTES).judge(each.record for each in corrections))
    while True:
        there = dict(batches(blackboard, source.key))
        known = {place for batch in there.values() for place in batch.places}
        new: dict[Place, Correction] = {}
        before: list[Correction] = []
        refused: list[tuple[Correction, str]] = []
        for index, each in enumerate(corrections):
            if each.place in known:
                before.append(each)
            elif reason := _refusal(each, new, quarantined, judged.get(index, "")):
                refused.append((each, reason))
            else:
                new[each.place] = each
        if not new:
            break
        batch = Batch(tuple(new), tuple(_line(each) for each in new.values()))
        number = f"{len(there) + 1:0{_DIGITS}}"
        with suppress(AlreadyExistsError):  # of another process: its batch may have some of these records
            blackboard.create(_key(source.key, number), msgspec.json.encode(batch))
            there[_file(number)] = batch
            break
    due = [(file, batch) for file, batch in there.items() if not _has_landed(blackboard, source, batch)]
    landings = []
    with scratch_directory("feed-assets-resubmit-") as scratch:
        for file, batch in due:
            (scratch / file).write_bytes(batch.content)
            landings.append(land(scratch / file))
    return Resubmitted(tuple(new.values()), tuple(landings), tuple(before), tuple(refused))


def _refusal(each: Correction, new: Collection[Place], quarantined: Collection[Place], judged: str) -> str:
    if each.place in new:
        return TWICE
    return judged if each.place in quarantined else NOT_THERE


def _line(each: Correction) -> str:
    return marked(f"resubmitted {each.place.file}:{each.place.line}", each.record).decode()


def _has_landed(blackboard: Blackboard, source: Source, batch: Batch) -> bool:
    return newest_landing(blackboard, source.key, content_digest(source.key, batch.sha256)) is not None


def _file(number: str) -> str:
    return f"resubmitted-{number}{ENDING}"


def _key(source: str, number: str) -> str:
    return f"{BATCHES}{source}/{number}.json"


_decode = msgspec.json.Decoder(Batch).decode
_exported = msgspec.json.Decoder(_Exported).decode
