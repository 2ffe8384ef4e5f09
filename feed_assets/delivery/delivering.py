"""Delivering a partition: beginning an edition, resuming an open one, and ending it.

Here: which update is sent, against which base, and what is written when. Not here: the objects of the ledger
(`ledger`), what is staged (`staging`), and how rows are sent (`sending`).

Beginning: resolve, pin, read the ledger, stage, create the edition only if absent, look again at ledger and feed. Two
runners of one edition do no harm. Two editions at once would: each leaves out rows that the other has changed. So who
finds another new edition after creating its own abandons its own, and who finds two open ones abandons both. The next
edition sends all rows, and deletes what any of them may have sent. An update is pinned until a later edition has been
delivered, because that one is compared with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from feed_assets.delivery import encoding
from feed_assets.delivery.backend import LARGE_ROWS, Backend, InThisProcess, rows_about
from feed_assets.delivery.client.settings import Counters
from feed_assets.delivery.destination import Destination
from feed_assets.delivery.encoding import Encoder
from feed_assets.delivery.errors import AbandonedError, DeliveryError, DestinationError, NotDeliveredError, StreamError
from feed_assets.delivery.ledger import Base, Begun, Clock, Edition, Ended, Ledger, Part, next_edition, union, utc_now
from feed_assets.delivery.ordinals import everything
from feed_assets.delivery.sending import LOCAL_STREAMS, Job
from feed_assets.delivery.staging import Comparison, Staged
from feed_assets.delivery.streams.address import open_stream
from feed_assets.delivery.streams.port import Limits, NotSentError, Stream
from feed_assets.delivery.turn import turn_of
from feed_assets.file_feed.errors import NoValidUpdateError, UpdateChangedError
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.holds import Pin, all_pins, pin, unpin
from feed_assets.file_feed.reading import ATTEMPTS, is_latest, is_valid, latest, updates_from
from feed_assets.state.store import Store

QUESTIONS: Final = 6
"""How often a stream is asked for its limits or shards. The client itself, which sends, asks longer."""
REMEMBERED: Final = timedelta(days=400)
"""How long replaced editions stay in the ledger: longer than any stream keeps records, which is up to 365 days."""
ADDRESSES: Final = ("stream", "store")
"""What may move to another address."""
FOR_EVER: Final = datetime(9998, 12, 31, tzinfo=UTC)

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery and how it ended. `counts` are those of this call's sender; None if nothing was left to send."""

    begun: Begun
    ended: Ended
    counts: Counters | None = None


@dataclass(frozen=True, slots=True)
class Deliverer:
    """Delivers partitions of one feed to one destination. Local streams are files of `folder`.

    The state database keeps two deliveries to one stream apart; without one, the caller does.
    """

    feed: Feed
    to: Destination
    folder: Path
    now: Clock = utc_now
    state: Store | None = None
    code: str = ""
    said: Callable[[str], object] = lambda _: None
    """Gets a sentence when something else than usual happens."""
    told: Callable[[int, int], object] = lambda _done, _all: None
    """Gets the acknowledged rows and all rows while a delivery is sent."""
    large: Backend = field(default_factory=InThisProcess)
    """Stages and sends deliveries of `large_rows` and more."""
    large_rows: int = LARGE_ROWS
    ledger: Ledger = field(init=False)
    encoder: Encoder = field(init=False)

    def __post_init__(self) -> None:
        if self.feed.location != self.to.feed:
            raise DestinationError(f"{self.to.name} is for {self.to.feed}, and not for {self.feed.location}.")
        object.__setattr__(self, "ledger", Ledger(self.feed, self.to.name))
        object.__setattr__(self, "encoder", Encoder(self.to.columns, self.to.key, self.to.shard_columns))

    def deliver(self, partition: str | None, *, again: bool = False, without_base: bool = False) -> Delivery | None:
        """Deliver the update in force of a partition, or resume its open edition; None: nothing to do.

        `again` sends all rows of an update that was delivered already, `without_base` although the update before is
        gone: then vanished keys stay. Raises DeliveryError; nothing was sent if it is a BadRowsError or
        DestinationError or StreamBusyError.
        """
        with turn_of(self.to.stream_address, self.state):
            return self._deliver(partition, again=again, without_base=without_base)

    def _deliver(self, partition: str | None, *, again: bool, without_base: bool) -> Delivery | None:
        self.require_same()
        for _ in range(ATTEMPTS):
            editions = self.ledger.of(partition)
            update = latest(self.feed, partition, now=self.now())
            if not all(each.has_ended for each in editions):
                if (begun := self._resumable(editions, update)) is not None:
                    return self._send(begun)
                continue  # all editions have ended now
            if self._is_delivered(editions, update) and (update is None or not again):
                return None
            begun = self._begin(partition, update, editions, everything_again=again, without_base=without_base)
            if begun is not None:
                return self._send(begun)
        raise UpdateChangedError(
            f"{self.feed.title(partition)} changed during each of {ATTEMPTS} beginnings. Nothing was sent: try again."
        )

    def abandon(self, begun: Begun, reason: str) -> Ended:
        """End an edition without sending the rest. What was sent stays; the next edition takes its place."""
        return self.ledger.end(begun, Ended(outcome="abandoned", at=self.now(), reason=reason))

    def _is_delivered(self, editions: Sequence[Edition], update: Update | None) -> bool:
        if not editions:
            return update is None
        begun, ended = self.ledger.began(editions[-1]), self.ledger.ended(editions[-1])
        return ended.outcome == "delivered" and begun.update == (update.name if update else None)

    def _resumable(self, editions: Sequence[Edition], update: Update | None) -> Begun | None:
        """The open edition that is to be resumed; others are abandoned."""
        found = [self.ledger.began(each) for each in editions if not each.has_ended]
        reasons = [self._outdated(each, update) or ("another one was open" if len(found) > 1 else "") for each in found]
        for begun, reason in zip(found, reasons, strict=True):
            if reason:
                self.abandon(begun, reason)
        return found[0] if reasons == [""] else None

    def _outdated(self, begun: Begun, update: Update | None) -> str:
        """Why an open edition is not resumed; "" if it is."""
        in_force = update.name if update else None
        if begun.update == in_force:
            return ""
        if begun.update is not None and not self._is_valid(begun):
            return f"{begun.update} is not valid any more"
        over = self.now() - begun.at
        if begun.update is None or over > timedelta(seconds=self.to.resume_within):
            return f"{in_force} is in force, and this edition was open for {int(over.total_seconds())} s"
        return ""

    def _is_valid(self, begun: Begun) -> bool:
        name = begun.update or ""
        found = updates_from(self.feed, begun.partition, start=name, newest=name)
        return name in found and is_valid(self.feed, found[name])

    def _begin(
        self,
        partition: str | None,
        update: Update | None,
        editions: Sequence[Edition],
        *,
        everything_again: bool,
        without_base: bool,
    ) -> Begun | None:
        """Begin an edition; None if the ledger or the feed changed meanwhile."""
        before = [(self.ledger.began(each), self.ledger.ended(each)) for each in editions[self._base_of(editions) :]]
        number = next_edition(editions, self.now())
        try:
            held = (
                pin(self.feed, partition, update.name, until=FOR_EVER, holder=self._holder(number)) if update else None
            )
        except NoValidUpdateError:
            return None
        is_all = everything_again or without_base or self._sends_all(before)
        bases = () if without_base else tuple(Base(each.edition, each.update) for each, _ in before)
        updates = [each for each in map(self._base_update(partition), bases) if each is not None]
        comparison = Comparison(update, None if is_all or not updates else updates[0], tuple(updates))
        limits = self._asked(lambda stream: stream.limits())
        staged = self._staged(comparison, limits, partition)
        begun = Begun(
            destination=self.to.name,
            partition=partition,
            edition=number,
            update=update.name if update else None,
            at=self.now(),
            bases=bases,
            mode="all" if is_all else "changes",
            base_lost=without_base,
            rules=self._rules(),
            files=staged.files,
            puts=staged.puts,
            deletes=staged.deletes,
            code=self.code,
        )
        # Only now: a destination whose rows were refused has sent nothing, and may still become another one.
        self._require(self.ledger.identify(self._identity()))
        if not self.ledger.begin(begun):
            self.feed.blackboard.delete(*(each.key for each in staged.files))
            if held:
                unpin(self.feed, held)
            return None
        reason = "another edition began at the same time" if self._is_beside_another(begun, editions) else ""
        if not (is_latest(update) if update else latest(self.feed, partition, now=self.now()) is None):
            reason = "another update came into force while it began"
        if reason:
            self.abandon(begun, reason)
        return None if reason else begun

    def _is_beside_another(self, begun: Begun, editions: Sequence[Edition]) -> bool:
        """Whether the ledger has got an edition that this one was not compared with."""
        known = {begun.edition, *(each.number for each in editions)}
        return any(each.number not in known for each in self.ledger.of(begun.partition))

    def _base_of(self, editions: Sequence[Edition]) -> int:
        """The place of the last delivered edition; 0 if none was."""
        for place in range(len(editions) - 1, -1, -1):
            if editions[place].has_ended and self.ledger.ended(editions[place]).outcome == "delivered":
                return place
        return 0

    def _sends_all(self, before: Sequence[tuple[Begun, Ended]]) -> bool:
        """Whether rows equal to the base are sent, too: the stream may have others since, or other rules wrote them."""
        return (
            self.to.mode == "all"
            or len(before) != 1
            or before[0][1].outcome != "delivered"
            or before[0][0].rules != self._rules()
        )

    def _base_update(self, partition: str | None) -> Callable[[Base], Update | None]:
        """Finds the update of a base. Raises DeliveryError if it is gone."""

        def find(base: Base) -> Update | None:
            if base.update is None:
                return None
            found = updates_from(self.feed, partition, start=base.update, newest=base.update).get(base.update)
            if found is None or not found.files:
                raise DeliveryError(
                    f"{self.feed.title(partition)} has lost {base.update}, which edition {base.edition} of "
                    f"{self.to.name} has sent, so nobody knows which keys have vanished. Nothing was sent. "
                    "`feed-assets deliver replay --without-base` sends all rows of the update in force; vanished keys "
                    "stay in the store."
                )
            return found.update(self.feed, partition)

        return find

    def _staged(self, comparison: Comparison, limits: Limits, partition: str | None) -> Staged:
        rows = rows_about([each for each in (comparison.update, *comparison.gone) if each is not None])
        prefix = self.ledger.staging_prefix(partition)
        return self._backend(rows).stage(comparison, self.encoder, limits, self.feed.blackboard, prefix)

    def _backend(self, rows: int) -> Backend:
        return self.large if rows >= self.large_rows else InThisProcess()

    def _send(self, begun: Begun) -> Delivery:
        """Send the rows that are not acknowledged yet, and end the edition."""
        acks = self.ledger.parts("acks", begun).values()
        counts, seconds, shards = None, 0.0, 0
        if left := begun.rows - len(union(acks)):
            shards = self._asked(lambda stream: len(stream.shards()))
            job, since = Job(self.ledger, self.to, self.folder, begun, self.told), time.monotonic()
            try:
                counts = self._backend(left).send(job)
            except DeliveryError:
                if self.ledger.how_ended(begun) is None:
                    raise
            seconds = time.monotonic() - since
            acks = self.ledger.parts("acks", begun).values()
        ended = self.ledger.how_ended(begun)  # by another runner
        if ended is None and len(missing := everything(begun.rows) - union(acks)):
            raise NotDeliveredError(
                f"{len(missing):,} of {begun.rows:,} rows of edition {begun.edition} of {self.to.name} are not "
                "acknowledged. The edition stays open: run the command again."
            )
        ended = ended or self.ledger.end(begun, self._ended(acks, counts, seconds, shards))
        if ended.outcome == "abandoned":
            raise AbandonedError(f"Edition {begun.edition} of {self.to.name} was abandoned meanwhile: {ended.reason}.")
        self._release(begun)
        return Delivery(begun, ended, counts)

    def _ended(self, acks: Collection[Part], counts: Counters | None, seconds: float, shards: int) -> Ended:
        acked = len(union(acks))
        return Ended(
            outcome="delivered",
            at=self.now(),
            acked=acked,
            repeats=sum(len(each.set()) for each in acks) - acked,
            ambiguous=sum(each.sent.ambiguous for each in acks if each.sent),
            throttled=sum(each.sent.throttled for each in acks if each.sent),
            series=counts.series if counts else (),
            series_seconds=counts.series_seconds if counts else 1,
            seconds=round(seconds, 3),
            size=counts.acked_bytes if counts else 0,
            shards=shards,
        )

    def _release(self, begun: Begun) -> None:
        """Let go of what only this edition needed of those before, and of what nobody can ask for any more."""
        since = begun.bases[0].edition if begun.bases else 0
        forgotten = self.now().timestamp() - REMEMBERED.total_seconds()
        used = {each.key for each in begun.files}
        for each in self.ledger.of(begun.partition):
            if each.number > begun.edition:
                used |= {file.key for file in self.ledger.began(each).files}
            elif since <= each.number < begun.edition:
                self.ledger.drop(self.ledger.began(each), ("acks",), staged=True)
            elif each.has_ended and each.number < min(since, forgotten):
                self.ledger.forget(each)
        self.ledger.delete_unused(begun.partition, used)
        prefix = f"delivery.{self.to.name}."
        for held in all_pins(self.feed, begun.partition):
            number = held.holder.removeprefix(prefix)
            if held.holder.startswith(prefix) and number.isdecimal() and int(number) < begun.edition:
                unpin(self.feed, Pin(held.partition, held.update, held.until, held.holder))

    def require_same(self) -> None:
        """Raise DestinationError if another destination has delivered under this name: one GET."""
        self._require(self.ledger.identity() or {})

    def move(self) -> Sequence[str]:
        """Say that stream and store are those of before, under other addresses. Returns what has moved.

        Raises DestinationError if something else has changed.
        """
        there, here = self.ledger.identity() or {}, self._identity()
        self._require({name: value for name, value in there.items() if name not in ADDRESSES})
        moved = [name for name in ADDRESSES if there and there[name] != here[name]]
        if moved:
            self.ledger.identify_again(here)
        return moved

    def _require(self, there: Mapping[str, Any]) -> None:
        here, name = self._identity(), self.to.name
        for field_name, value in there.items():
            if here.get(field_name, value) != value:
                moved = f", or, if it has only moved, run `feed-assets deliver moved {name}`"
                raise DestinationError(
                    self.to.problem(
                        field_name,
                        f"is {here[field_name]!r}, and {name} has delivered with {value!r}. Versions of both would not "
                        f"compare: write {value!r} again, or choose a new name for the destination"
                        f"{moved if field_name in ADDRESSES else ''}",
                    )
                )

    def _identity(self) -> dict[str, Any]:
        """What stays as long as the destination has this name."""
        rules = self._rules()
        return {name: rules[name] for name in ("key", "stream", "store", "values")} | {"space": self.to.store_space}

    def _rules(self) -> dict[str, Any]:
        to = self.to
        return {
            "columns": list(to.columns),
            "key": list(to.key),
            "shard_key": list(to.shard_columns),
            "stream": to.stream_address,
            "store": to.store,
            "values": to.values,
            "encoding": encoding.FORMAT,
        }

    def _holder(self, number: int) -> str:
        return f"delivery.{self.to.name}.{number}"

    def open_stream(self) -> Stream:
        """The destination's stream."""
        return open_stream(self.to.stream, self.folder / LOCAL_STREAMS)

    def _asked(self, question: Callable[[Stream], Found]) -> Found:
        """What the stream answers, perhaps not at once. Raises StreamError."""
        for tries in range(QUESTIONS):
            try:
                with self.open_stream() as stream:
                    return question(stream)
            except NotSentError as error:
                said = str(error)
                time.sleep(0.1 * 2**tries)
        raise StreamError(f"{self.to.stream_address} did not answer: {said.rstrip('.')}. Run the command again.")
