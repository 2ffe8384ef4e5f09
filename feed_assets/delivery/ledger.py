"""The ledger of a destination: which editions have begun and ended, in the control area of its feed.

Here: the objects `deliveries/<destination>/{begun,ended,acks,...}/<partition>/<edition>`, and the rule
that an edition begins once and ends once: both are created only if absent. Not here: what is sent
(`staging`), and sending.

An edition is a number that grows: max(the one before + 1, the second in which it began). So it is above all earlier
ones even if the ledger was lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any, Final, Literal, TypeVar
from uuid import uuid4

import msgspec

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import AlreadyExistsError, ConflictError, NotFoundError
from feed_assets.delivery.client.settings import Counters
from feed_assets.delivery.errors import LedgerError
from feed_assets.delivery.ordinals import Minutes, Ordinals, packed, unpacked
from feed_assets.file_feed.bounded_cache import BoundedCache
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.names import check_label, check_partition

FORMAT: Final = 1
AREA: Final = "deliveries"
LONGEST_STAGING: Final = timedelta(days=2)
"""How long a runner can take from its first staged file until its edition begins."""
_DIGITS: Final = 12

Found = TypeVar("Found")
Hop = Literal["acks", "received", "settled"]

_log = logging.getLogger(__name__)
_known: BoundedCache[tuple[str, str], Any] = BoundedCache(50_000)
"""What objects say that never change: a sensor looks at the last edition of every partition."""


class StagedFile(msgspec.Struct, frozen=True):
    """A file of rows to be sent: its key on the blackboard, and its rows."""

    key: str
    rows: int


class Base(msgspec.Struct, frozen=True):
    """What a stream may have of a partition: an edition, and the update that it sent; None: it sent deletes only."""

    edition: int
    update: str | None


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that has begun. `update` None: nothing valid is left, so all keys are deleted.

    `rules` change when rows are to be written differently. `bases` are the last delivered edition, and those abandoned
    since.
    """

    format: int = FORMAT
    destination: str
    partition: str | None
    edition: int
    update: str | None
    at: datetime
    bases: tuple[Base, ...]
    mode: Literal["changes", "all"]
    base_lost: bool = False
    rules: dict[str, Any]
    files: tuple[StagedFile, ...]
    puts: int
    deletes: int
    code: str = ""

    @property
    def rows(self) -> int:
        """The number of its ordinals."""
        return self.puts + self.deletes


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a delivery ended: each row was acknowledged (`delivered`), or another one takes its place (`abandoned`)."""

    format: int = FORMAT
    outcome: Literal["delivered", "abandoned"]
    at: datetime
    reason: str = ""
    acked: int = 0
    repeats: int = 0
    ambiguous: int = 0
    throttled: int = 0
    series: tuple[int, ...] = ()
    """Rows that the last sender got acknowledged in each period of `series_seconds`."""
    series_seconds: int = 1
    seconds: float = 0.0
    """How long the last sender took."""
    size: int = 0
    """Bytes that the last sender got acknowledged, with keys."""
    shards: int = 0
    """The open shards when it began."""

    def share(self, records_a_second: int, bytes_a_second: int) -> float:
        """The part of the limit of all shards, of records or of bytes, that the last sender used."""
        used = max(sum(self.series) / records_a_second, self.size / bytes_a_second)
        return used / max(self.shards * self.seconds, 0.001)

    @property
    def throttled_share(self) -> float:
        """The part of the stream's answers that refused a row because its shard was over its limit."""
        return self.throttled / max(1, self.acked + self.throttled)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one holder (a sender's attempt, a consumer of a shard) has seen of an edition.

    `ordinals` are packed. `repeats` counts rows that came again, in records of their own, `counts` what became of them.
    `sequence` is the last record of the edition that a consumer has read in its shard: what it reads again after a
    crash is no repeat.
    """

    format: int = FORMAT
    ordinals: bytes
    repeats: int = 0
    counts: dict[str, int] = {}
    minutes: Minutes = {}
    sequence: str = ""
    sent: Counters | None = None
    """What a sender's client has done."""

    def set(self) -> Ordinals:
        """The ordinals. Raises LedgerError."""
        return unpacked(self.ordinals)


def union(parts: Iterable[Part]) -> Ordinals:
    """The ordinals that any of these holders has seen. Raises LedgerError."""
    return reduce(or_, (each.set() for each in parts), Ordinals())


@dataclass(frozen=True, slots=True)
class Edition:
    """An edition in the listing: the tags of its two objects; "" if it has not ended."""

    partition: str | None
    number: int
    begun: str
    ended: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether it was delivered or abandoned."""
        return self.ended != ""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger of a destination of this feed."""

    feed: Feed
    destination: str

    def __post_init__(self) -> None:
        check_label(self.destination, "destination")

    def editions(self, within: str | None = None) -> dict[str | None, list[Edition]]:
        """The editions of all partitions, or of this one, oldest first: two listings."""
        ended = dict(self._listed("ended", within))
        found: dict[str | None, list[Edition]] = {}
        for place, tag in self._listed("begun", within):
            found.setdefault(place[0], []).append(Edition(*place, tag, ended.get(place, "")))
        return found

    def of(self, partition: str | None) -> list[Edition]:
        """The editions of a partition, oldest first."""
        return self.editions(partition).get(partition, [])

    def began(self, edition: Edition) -> Begun:
        """What an edition is to send. Raises LedgerError."""
        return self._remembered("begun", edition, edition.begun, Begun)

    def ended(self, edition: Edition) -> Ended:
        """How an edition that has ended did so. Raises LedgerError."""
        return self._remembered("ended", edition, edition.ended, Ended)

    def begin(self, begun: Begun) -> bool:
        """Begin an edition; False if another has this number."""
        return self._create("begun", begun.partition, begun.edition, begun)

    def end(self, begun: Begun, ended: Ended) -> Ended:
        """End an edition, and return how it has ended: two runners cannot do so differently."""
        if self._create("ended", begun.partition, begun.edition, ended):
            return ended
        return self.how_ended(begun) or ended

    def how_ended(self, begun: Begun) -> Ended | None:
        """How the edition has ended; None if it is open: one GET."""
        return self._read(self._key("ended", begun.partition, begun.edition), Ended)

    def is_abandoned(self, begun: Begun) -> bool:
        """Whether somebody has abandoned the edition: one GET."""
        ended = self.how_ended(begun)
        return ended is not None and ended.outcome == "abandoned"

    def first_seen(self, now: datetime) -> datetime:
        """When the destination was first seen, which is now if it never was."""
        key = f"{self.feed.control(AREA)}{self.destination}/since"
        with suppress(AlreadyExistsError):
            self.feed.blackboard.create(key, msgspec.json.encode(now))
        return msgspec.json.decode(self.feed.blackboard.read(key).data, type=datetime)

    def identity(self) -> dict[str, Any] | None:
        """What the destination was when it first began a delivery: one GET. Raises LedgerError."""
        return self._read(self._identity_key, dict)

    def identify(self, identity: Mapping[str, Any]) -> dict[str, Any]:
        """Keep what the destination is, for good; returns what was kept first."""
        if (found := self.identity()) is not None:
            return found
        with suppress(AlreadyExistsError):
            self.feed.blackboard.create(self._identity_key, msgspec.json.encode(identity))
        return self.identity() or dict(identity)

    def identify_again(self, identity: Mapping[str, Any]) -> None:
        """Keep another identity in place of the one there is. Raises NotFoundError, ConflictError."""
        found = self.feed.blackboard.read(self._identity_key).entry
        self.feed.blackboard.replace(self._identity_key, msgspec.json.encode(identity), tag=found.tag)

    @property
    def _identity_key(self) -> str:
        return f"{self.feed.control(AREA)}{self.destination}/identity"

    def staging_prefix(self, partition: str | None) -> str:
        """A new place for the files of an edition that will perhaps begin."""
        return f"{self._prefix('staged', partition)}{uuid4().hex}/"

    def holder(self, hop: Hop, partition: str | None, edition: int, name: str) -> PartWriter:
        """Writes what one holder sees of an edition at a hop."""
        key = f"{self._key(hop, partition, edition)}/{check_label(name, 'holder')}"
        return PartWriter(self.feed, key, is_alone=hop == "acks")

    def parts(self, hop: Hop, begun: Begun) -> dict[str, Part]:
        """What each holder saw of an edition at a hop: a listing, and a GET each. Raises LedgerError."""
        prefix = f"{self._key(hop, begun.partition, begun.edition)}/"
        found = {}
        for entry in list_all(self.feed.blackboard, prefix):
            if (part := self._read(entry.key, Part)) is not None:
                found[entry.key.removeprefix(prefix)] = part
        return found

    def summarize(self, begun: Begun, summary: Mapping[str, Any]) -> None:
        """Keep what a settled edition came to, for good. The first summary stays."""
        with suppress(AlreadyExistsError):
            self.feed.blackboard.create(
                self._key("summaries", begun.partition, begun.edition), msgspec.json.encode(summary)
            )

    def summarized(self) -> set[tuple[str | None, int]]:
        """The partitions and numbers of the editions that have a summary: a listing."""
        return {place for place, _ in self._listed("summaries", None)}

    def is_summarized(self, partition: str | None, number: int) -> bool:
        """Whether an edition has a summary, so that nobody writes down any more what was seen of it."""
        return self._read(self._key("summaries", partition, number), dict) is not None

    def settled_summary(self, edition: Edition) -> dict[str, Any] | None:
        """What an edition came to, if it has settled, and somebody has summarized it."""
        return self._read(self._key("summaries", edition.partition, edition.number), dict)

    def drop(self, begun: Begun, hops: Sequence[Hop], *, staged: bool) -> None:
        """Delete what was seen of an edition at these hops, and its staged files if nobody needs them any more."""
        board = self.feed.blackboard
        keys = [each.key for each in begun.files] if staged else []
        for hop in hops:
            prefix = f"{self._key(hop, begun.partition, begun.edition)}/"
            keys += [entry.key for entry in list_all(board, prefix)]
        board.delete(*keys)

    def forget(self, edition: Edition) -> None:
        """Delete all that is known of an edition that has ended."""
        self.drop(self.began(edition), ("acks", "received", "settled"), staged=True)
        for area in ("begun", "ended", "summaries"):  # in this order: without its end it would look open
            self.feed.blackboard.delete(self._key(area, edition.partition, edition.number))

    def delete_unused(self, partition: str | None, used: Collection[str]) -> None:
        """Delete staged files that no edition uses, once their runner cannot be at work any more."""
        before = utc_now() - LONGEST_STAGING
        listed = list_all(self.feed.blackboard, self._prefix("staged", partition))
        self.feed.blackboard.delete(*(each.key for each in listed if each.modified < before and each.key not in used))

    def _prefix(self, area: str, partition: str | None) -> str:
        inside = f"{check_partition(partition)}/" if partition is not None else ""
        return f"{self.feed.control(AREA)}{self.destination}/{area}/{inside}"

    def _key(self, area: str, partition: str | None, number: int) -> str:
        return f"{self._prefix(area, partition)}{number:0{_DIGITS}}"

    def _listed(self, area: str, within: str | None) -> Iterator[tuple[tuple[str | None, int], str]]:
        """Partition and number of each edition, and the tag of its object."""
        prefix = self._prefix(area, None)
        for entry in list_all(self.feed.blackboard, self._prefix(area, within)):
            partition, _, number = entry.key.removeprefix(prefix).rpartition("/")
            if not number.isdecimal():
                raise LedgerError(f"{self.feed.blackboard.uri(entry.key)} is no edition: remove it.")
            yield (partition or None, int(number)), entry.tag

    def _create(self, area: str, partition: str | None, number: int, content: msgspec.Struct) -> bool:
        key = self._key(area, partition, number)
        data = msgspec.json.encode(content)
        try:
            self.feed.blackboard.create(key, data)
        except AlreadyExistsError:
            return self.feed.blackboard.read(key).data == data  # the answer to this very write may have been lost
        return True

    def _remembered(self, area: str, edition: Edition, tag: str, form: type[Found]) -> Found:
        key = self._key(area, edition.partition, edition.number)
        known = self.feed.blackboard.uri(key), tag
        if (found := _known.get(known)) is None:
            found = self._read(key, form)
            if found is None:
                raise LedgerError(f"{self.feed.blackboard.uri(key)} is gone. Run the command again.")
            _known[known] = found
        return found

    def _read(self, key: str, form: type[Found]) -> Found | None:
        try:
            found = msgspec.json.decode(self.feed.blackboard.read(key).data, type=form)
        except NotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise LedgerError(
                f"{self.feed.blackboard.uri(key)} is damaged ({error}). Restore it, or delete it: then the next "
                "delivery sends the whole partition again."
            ) from None
        if getattr(found, "format", FORMAT) != FORMAT:
            raise LedgerError(f"{self.feed.blackboard.uri(key)} was written by a newer program. Update feed_assets.")
        return found


@dataclass(slots=True)
class PartWriter:
    """The object of one holder. For one thread.

    `is_alone`: nobody else writes it. A consumer's may have been written by who has the shard since, or had it before:
    then `write` raises ConflictError, and `read` says what there is to be joined.
    """

    feed: Feed
    key: str
    is_alone: bool = True
    _tag: str | None = None

    def write(
        self, ordinals: Ordinals, *, repeats: int = 0, counts: Mapping[str, int] | None = None,
        minutes: Mapping[int, tuple[str, str]] | None = None, sequence: str = "", sent: Counters | None = None,
    ) -> None:  # fmt: skip
        """Say what was seen up to now, in place of what was said before. Raises BlackboardError."""
        seen, by_block = dict(counts or {}), dict(minutes or {})
        part = Part(
            ordinals=packed(ordinals), repeats=repeats, counts=seen, minutes=by_block, sequence=sequence, sent=sent
        )
        data = msgspec.json.encode(part)
        board = self.feed.blackboard
        if self._tag is None:
            try:
                self._tag = board.create(self.key, data).tag
            except AlreadyExistsError as error:
                if not self.is_alone:
                    raise ConflictError(str(error)) from None
                self._tag = board.read(self.key).entry.tag
            else:
                return
        try:
            self._tag = board.replace(self.key, data, tag=self._tag).tag
        except ConflictError:
            # The answer to a write before was lost, or the delivery has ended, and its parts are gone.
            self._tag = None
            raise

    def read(self) -> Part | None:
        """What this holder said before, in an earlier life."""
        try:
            found = self.feed.blackboard.read(self.key)
        except NotFoundError:
            return None
        self._tag = found.entry.tag
        return msgspec.json.decode(found.data, type=Part)


def next_edition(before: Sequence[Edition], now: datetime) -> int:
    """The number of a new edition: above all before, and the second in which it begins."""
    return max((before[-1].number + 1 if before else 0), int(now.timestamp()))


def utc_now() -> datetime:
    """The time."""
    return datetime.now(UTC)


Clock = Callable[[], datetime]
