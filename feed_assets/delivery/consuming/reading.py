"""A shard that a process reads: in a thread of its own, batch by batch, until it ends, is stopped, or loses its lease.

Here: get, settle, write down, move the checkpoint. One batch is in memory at a time, so a slow store slows reading. Not
here: what settling is (`settling`), and who reads which shard (`consumer`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from feed_assets.delivery.consuming.dispatching import Arrived
from feed_assets.delivery.consuming.figures import Figures
from feed_assets.delivery.consuming.patience import PASSING, Patience, StoppedError
from feed_assets.delivery.consuming.settling import Settling
from feed_assets.delivery.errors import RecordsLostError
from feed_assets.delivery.streams.port import Batch, ShardReader, Source
from feed_assets.delivery.tables import Checkpoint, LeaseLostError, move
from feed_assets.leases.port import Lease
from feed_assets.state.store import Store

_log = logging.getLogger(__name__)

IDLE_PAUSE: Final = 0.8
"""Seconds after a read that found nothing, beside the pause of the stream's reader."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When things are done. Seconds, or a number of records."""

    lease: timedelta = timedelta(seconds=30)
    looks: float = 5.0
    """Between two looks at shards, leases and other processes."""
    checkpoint: float = 10.0
    checkpoint_records: int = 100_000
    idle_checkpoint: float = 60.0
    """After so long the checkpoint of a shard without new records moves, too: it says that there were none."""
    first_pause: float = 0.5
    """The first pause after an error; the next are longer."""


@dataclass(slots=True, eq=False)
class Reading:
    """Reads one shard. `changed` is set when something happens that the process wants to know.

    `is_eager`: the checkpoint moves as soon as nothing is left, and any error ends the reading.
    """

    consumer: str
    shard: str
    lease: Lease
    at: Checkpoint
    source: Source
    settling: Settling
    state: Store
    now: Callable[[], datetime]
    pace: Pace
    figures: Figures
    changed: threading.Event
    accept_loss: bool = False
    is_eager: bool = False
    is_idle: bool = False
    is_over: bool = False
    """Whether nothing is read any more, and all that was settled is written down."""
    error: Exception | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    _left: list[Arrived] = field(default_factory=list)
    _records: int = 0
    _moved: float = field(default_factory=time.monotonic)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to read."""
        if self.at.sequence:  # else nobody knows what there is
            self.figures.until[self.shard] = self.at.until
        self._thread = threading.Thread(target=self._run, name=self.shard, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until nothing is read any more."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            with suppress(StoppedError):
                self._read()
            with suppress(LeaseLostError):
                self._end()
        except LeaseLostError:
            _log.warning("%s: another process reads %s now.", self.consumer, self.shard)
        except Exception as error:  # noqa: BLE001 - the process looks at it
            self.error = error
        finally:
            self.figures.forget(self.shard)
            self.is_over = True
            self.changed.set()

    def _read(self) -> None:
        """Read until the shard has ended. Raises StoppedError, LeaseLostError, and what no waiting mends."""
        reader = self.source.reader(self.shard, self.at.sequence or None)
        while not self.stop.is_set() and not self.at.is_over:
            began = self.now()
            try:
                batch = self._patience().until_done(reader.next)
            except RecordsLostError as error:
                reader = self._lost(error)
                continue
            self._settle(batch, began)
            self.is_idle = not batch.behind
            if self.is_idle:
                self.changed.set()
            if batch.is_end or self._is_due():
                self._move()
            if not batch.records and not batch.is_end and not self.is_eager:
                self.stop.wait(IDLE_PAUSE)

    def _settle(self, batch: Batch, began: datetime) -> None:
        """Settle a batch, which was asked for at `began`. Raises StoppedError."""
        patience = self._patience()
        if batch.records:
            self.is_idle = False
            self._left = patience.until_done(lambda: self.settling.take(batch.records))
            try:
                patience.until_done(lambda: self.settling.settle(self._left), self._write_down_if_due)
            finally:
                if self._left:
                    self._go_back(batch)
        last = batch.records[-1] if batch.records else None
        until = began if not batch.behind else last.arrived if last else self.at.until
        self.at = Checkpoint(last.sequence if last else self.at.sequence, batch.is_end, max(until, self.at.until))
        self._records += len(batch.records)
        self.figures.until[self.shard] = self.at.until

    def _go_back(self, batch: Batch) -> None:
        """Note that a batch was settled up to the first record that is left."""
        before = None
        for each in batch.records:
            if each.sequence == self._left[0].read.sequence:
                break
            before = each
        if before is not None:
            self.at = Checkpoint(before.sequence, is_over=False, until=max(before.arrived, self.at.until))
            self._records += 1

    def _is_due(self) -> bool:
        passed = time.monotonic() - self._moved
        if self._records:
            at_tip = self.is_eager and self.is_idle
            return at_tip or passed >= self.pace.checkpoint or self._records >= self.pace.checkpoint_records
        return passed >= self.pace.idle_checkpoint

    def _move(self) -> None:
        """Write down what took effect, and then move the checkpoint. Raises LeaseLostError."""
        patience = self._patience()
        patience.until_done(self.settling.write_down)
        patience.until_done(self._move_once)

    def _move_once(self) -> None:
        self.lease = move(self.state, self.lease, self.pace.lease, self.consumer, self.shard, self.at, now=self.now())
        self._records, self._moved = 0, time.monotonic()

    def _end(self) -> None:
        """Move the checkpoint a last time. If that fails, what follows the checkpoint is read again."""
        if not self._records:
            return
        try:
            self.settling.write_down()
            self._move_once()
        except PASSING as error:
            _log.warning("%s is read again from its last checkpoint: %s", self.shard, error)

    def _write_down_if_due(self) -> None:
        """Write down what was received while the store does not answer: an audit then names the right hop."""
        if time.monotonic() - self._moved >= self.pace.checkpoint:
            with suppress(*PASSING):
                self.settling.write_down()

    def _lost(self, error: RecordsLostError) -> ShardReader:
        """Go on with the oldest record that is left, if the loss is accepted. Raises the error."""
        self.figures.losses.inc()
        said = f"{error} All that arrived before {self.at.until:%Y-%m-%d %H:%M} UTC was settled."
        if not self.accept_loss:
            raise RecordsLostError(
                f"{said} `deliver consume --accept-loss` goes on with the oldest record that is left.",
                is_gone=error.is_gone,
            ) from None
        _log.error("A loss was accepted: %s", said)
        if error.is_gone:
            self.at = Checkpoint(self.at.sequence, is_over=True, until=self.now())
            self._move()
        return self.source.reader(self.shard, None)

    def _patience(self) -> Patience:
        def waits(reason: str) -> None:
            if reason:
                self.figures.waiting[self.shard] = reason
            else:
                self.figures.waiting.pop(self.shard, None)

        what = f"{self.consumer}: shard {self.shard}"
        return Patience(what, self.stop, not self.is_eager, self.pace.first_pause, waits)
