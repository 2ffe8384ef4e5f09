"""A process that consumes a stream: it takes its share of the shards, and reads each in a thread.

Here: which shard is read when, and the life of the process. A child begins when all its parents have ended, so the
records of a key stay in order. Not here: reading a shard (`reading`), and how processes share them (`sharing`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from feed_assets.delivery.consuming.figures import Figures
from feed_assets.delivery.consuming.patience import PASSING, Patience, StoppedError
from feed_assets.delivery.consuming.reading import Pace, Reading
from feed_assets.delivery.consuming.settling import Settling
from feed_assets.delivery.consuming.sharing import Sharing, readable
from feed_assets.delivery.errors import RecordsLostError
from feed_assets.delivery.ledger import Clock, utc_now
from feed_assets.delivery.streams.port import NotSentError, Shard, Source
from feed_assets.delivery.tables import Checkpoint, LeaseLostError, checkpoints, move
from feed_assets.errors import FeedAssetsError
from feed_assets.leases.holding import Holding
from feed_assets.leases.in_database import DatabaseLeases
from feed_assets.state.store import Store

KEEPING_SECONDS = 60.0
_TICK = 0.1
_NEVER_READ = datetime(1970, 1, 1, tzinfo=UTC)

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Consumer:
    """Consumes a stream as `name`; processes of one name share the shards. `settling` makes what settles a shard.

    `prepare` is called first, and `keep` once a minute, by the first of the processes. Both may fail for a while. The
    stream keeps its records for `retention`.
    """

    name: str
    stream: Source
    state: Store
    settling: Callable[[str], Settling]
    now: Clock = utc_now
    pace: Pace = field(default_factory=Pace)
    accept_loss: bool = False
    prepare: Callable[[], object] = lambda: None
    keep: Callable[[], object] = lambda: None
    figures: Figures = field(default_factory=Figures)
    retention: timedelta = timedelta(hours=24)
    _readings: dict[str, Reading] = field(default_factory=dict)
    _changed: threading.Event = field(default_factory=threading.Event)
    _until_idle: bool = False
    _settled: int = 0
    _rank: int | None = None
    _others: int = 0
    """Shards that other processes have."""
    _late: set[str] = field(default_factory=set)

    @property
    def shards(self) -> list[str]:
        """The shards that this process reads now."""
        return sorted(self._readings.copy())

    def run(self, stop: threading.Event, *, until_idle: bool = False) -> int:
        """Consume until `stop` is set, or until nothing is left; returns how many records were settled.

        Shards that another process had when it died are left until its leases have ended, so they are waited for.
        What was settled is checkpointed at the end, and the leases are released. A store, a stream or a database that
        does not answer is waited for, except with `until_idle`. Raises StreamError, RecordsLostError, LedgerError,
        SpaceTakenError, with `until_idle` also StoreUnusableError, BlackboardError, StoreError, NotSentError,
        PoisonedError.
        """
        self._until_idle = until_idle
        keeping = threading.Thread(target=self._keep, args=(ended := threading.Event(),), daemon=True)
        with Holding(DatabaseLeases(self.state), self.pace.lease, self.now) as holding:
            sharing = Sharing(self.name, self.state, holding, self.pace.lease, self.now)
            try:
                with suppress(StoppedError):
                    self._patience(stop).until_done(self.prepare)
                    if not until_idle:
                        keeping.start()
                    self._share_until(stop, sharing)
            finally:
                ended.set()
                for each in self._readings.values():
                    each.stop.set()
                last = list(self._readings.values())
                for each in last:
                    each.join()
                    self._forget(sharing, each)
                if keeping.is_alive():
                    keeping.join()
        for each in last:  # a shard may have failed while the others were stopped
            if each.error is not None:
                raise each.error
        return self._settled

    def _share_until(self, stop: threading.Event, sharing: Sharing) -> None:
        """Keep this process's share of the shards read until it is to end. Raises what ended a shard."""
        idle_since: float | None = None
        while not stop.is_set():
            self._changed.clear()
            is_idle = self._patience(stop).until_done(lambda: self._share(sharing))
            self._tell_if_late()
            idle_since = (idle_since or time.monotonic()) if is_idle else None
            if idle_since is not None and self._until_idle:
                # After the length of a lease, those of others are renewed ones: their shards are in good hands.
                are_alive = time.monotonic() - idle_since > sharing.length.total_seconds()
                if are_alive or not self._others:
                    return
            until = time.monotonic() + self.pace.looks
            while not stop.is_set() and time.monotonic() < until and not self._changed.wait(_TICK):
                pass

    def _share(self, sharing: Sharing) -> bool:
        """Take and give back shards; returns whether nothing is left to be read."""
        for each in [each for each in self._readings.values() if each.is_over]:
            self._forget(sharing, each)
            if each.error is not None:
                raise each.error
        # A reading that has become idle is idle with respect to the shards that are listed after that.
        idle = {shard for shard, each in self._readings.items() if each.is_idle}
        # In this order: a checkpoint of a shard that is newer than the list would be one of a shard that is gone.
        known = checkpoints(self.state, self.name)
        shards = {each.name: each for each in self.stream.all_shards()}
        self._require_all(sharing, shards, known)
        wanted = readable(shards, known)
        share = sharing.look(wanted)
        self._rank = share.rank
        going_on = [each for each in self._readings.values() if not each.stop.is_set()]
        for each in going_on[share.shards :]:
            _log.info("%s gives %s back: another process joined.", self.name, each.shard)
            each.stop.set()
        free = list(share.free)
        while free and len(self._readings) < share.shards:
            # Processes begin at different shards, so they seldom want the same one.
            shard = free.pop((share.rank or 0) % len(free))
            if shard not in self._readings and self._begin(sharing, shard):
                self._changed.set()
        own = set(self._readings)
        self._others = len(set(wanted) - own - set(free))
        return not share.free and all(each in idle for each in own) and share.rank is not None

    def _begin(self, sharing: Sharing, shard: str) -> bool:
        """Begin to read a shard; False if somebody was faster, or has read it to its end."""
        lease = sharing.take(shard)
        if lease is None:
            return False
        # Somebody may have moved the checkpoint before the lease was free.
        at = checkpoints(self.state, self.name).get(shard, Checkpoint("", is_over=False, until=_NEVER_READ))
        if at.is_over:
            sharing.give_back(shard)
            return False
        reading = Reading(
            consumer=self.name,
            shard=shard,
            lease=lease,
            at=at,
            source=self.stream,
            settling=self.settling(shard),
            state=self.state,
            now=self.now,
            pace=self.pace,
            figures=self.figures,
            changed=self._changed,
            accept_loss=self.accept_loss,
            is_eager=self._until_idle,
        )
        self._readings[shard] = reading
        reading.start()
        return True

    def _forget(self, sharing: Sharing, reading: Reading) -> None:
        del self._readings[reading.shard]
        self._settled += reading.settling.settled
        try:
            sharing.give_back(reading.shard)
        except PASSING as error:
            _log.warning("The lease of %s was not released, and ends by itself: %s", reading.shard, error)

    def _require_all(self, sharing: Sharing, shards: Mapping[str, Shard], known: Mapping[str, Checkpoint]) -> None:
        """Raise RecordsLostError if the stream has dropped a shard before its end was read, or note it as over."""
        for name, at in known.items():
            if name in shards or at.is_over or name in self._readings:
                continue
            said = (
                f"{self.stream.title}: shard {name} is gone, and with it all records after {at.sequence or 'the first'}"
                f" that were not read. All that arrived before {at.until:%Y-%m-%d %H:%M} UTC was settled. "
            )
            if not self.accept_loss:
                raise RecordsLostError(f"{said}`deliver consume --accept-loss` goes on without them.", is_gone=True)
            if (lease := sharing.take(name)) is not None:
                _log.error("A loss was accepted: %s", said)
                self.figures.losses.inc()
                with suppress(LeaseLostError):
                    over = Checkpoint(at.sequence, is_over=True, until=at.until)
                    move(self.state, lease, self.pace.lease, self.name, name, over, now=self.now())
                sharing.give_back(name)

    def _tell_if_late(self) -> None:
        """Log each shard once that is so late that records may be lost."""
        late = set(self.figures.late(self.retention / 2, self.now()))
        for shard in sorted(late - self._late):
            _log.error(
                "%s: shard %s was settled up to %s, and the stream keeps records for %s: what is not read before is "
                "lost. Start more consumers, or make the store faster.",
                self.name, shard, self.figures.until.get(shard), self.retention,
            )  # fmt: skip
        self._late = late

    def _keep(self, ended: threading.Event) -> None:
        """Call `keep` now and then, in the first of the processes only."""
        while True:
            if self._rank == 0:
                try:
                    self.keep()
                except (FeedAssetsError, NotSentError) as error:
                    _log.error("%s: deliveries were not looked at: %s", self.name, error)
            if ended.wait(KEEPING_SECONDS if self._rank == 0 else self.pace.looks):
                return

    def _patience(self, stop: threading.Event) -> Patience:
        return Patience(self.name, stop, not self._until_idle, self.pace.first_pause)
