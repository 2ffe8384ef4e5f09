"""The client: takes records, gives futures, and decides what leaves when.

Here: linger and flush, what is sent again, pauses, and the end. Not here: rates (`limiter`), threads that send
(`worker`), and queues (`buffer`).
"""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import random
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from feed_assets.delivery.client.answers import Answered, Callback, OneFuture
from feed_assets.delivery.client.buffer import Buffer
from feed_assets.delivery.client.chunks import Rate, Receipt, Request
from feed_assets.delivery.client.limiter import ShardRates
from feed_assets.delivery.client.settings import ClientSettings, Clock, Counters, Series, SystemClock
from feed_assets.delivery.client.worker import Outcome, Verdict, Worker
from feed_assets.delivery.errors import DeliveryError, NotDeliveredError, StreamError
from feed_assets.delivery.streams.port import Acked, Limits, NotSentError, Record, Shard, Sink

DEFAULTS: Final = ClientSettings()
_PART: Final = 1_000
"""Records of a `put_many` that enter the queue together."""
_MAP_PAUSE: Final = 1.0
_THROTTLED_OFTEN: Final = 3
"""Requests with throttled records of one shard after which the shards are listed."""

Found = TypeVar("Found")


class Rates(Protocol):
    """The rates of all shards. `limiter.ShardRates` is the real one."""

    def new(self, start: float) -> Rate:
        """The rate of a shard that is new, from `start` on."""
        ...


class Sender(Protocol):
    """Sends requests in threads. `worker.Worker` is the real one."""

    def send(self, tag: Request, records: Sequence[Record]) -> None:
        """Send as soon as a thread is free."""
        ...

    def close(self) -> None:
        """End the threads."""
        ...


class Client:
    """Puts records to a stream, as fast as its shards allow. Threads may share it.

    Each record is sent until the stream has it: none is dropped by age. The block waits for all of them::

        with Client(sink) as client:
            future = client.put("p1", b"...")
        print(future.result().shard)

    A client fails as a whole: if sending again would not help (StreamError), or nothing moves for `give_up_after`
    (NotDeliveredError). Then all futures fail, and so do all further calls. An interpreter that ends with open records
    says how many, and exits with 1.
    """

    def __init__(
        self,
        sink: Sink,
        settings: ClientSettings = DEFAULTS,
        *,
        limits: Limits | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Read limits and shards of the stream, and start. `limits` replaces those of the stream.

        Raises StreamError, NotDeliveredError. The sink stays open when the client closes.
        """
        self._sink = sink
        self._settings = settings
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._work = threading.Condition(self._lock)
        self._space = threading.Condition(self._lock)
        self._idle = threading.Condition(self._lock)
        self._telling = threading.Lock()
        self._process = os.getpid()
        self._error: Exception | None = None
        self._is_closing = self._is_stopped = False

        found_limits = self._patiently(sink.limits)
        self._limits = limits or settings.limits(found_limits)
        shards = self._patiently(sink.shards)
        now = self._clock.now()
        rates: Rates = ShardRates(self._limits, settings.share, settings.fraction, settings.burst)
        self._buffer = Buffer(shards, self._limits, rates.new, settings.queue_bytes, now)
        self._known = {shard.name for shard in shards}
        self._throttles: dict[str, int] = {}
        self._map_read_at, self._map_due, self._is_reading = now, now + settings.map_every, False

        self._due: float | None = None
        self._next_turn = self._progress_at = now
        self._failures = 0
        self._resume_at = self._failed_at = now
        self._problem = ""
        self._acked = self._acked_size = self._throttled = self._ambiguous = self._retried = self._requests = 0
        self._series = Series(now)

        self._worker: Sender = Worker(sink, self._answered, settings.requests)
        self._pacer = threading.Thread(target=self._pace, name="client-pacer", daemon=True)
        self._pacer.start()
        _open_clients.add(self)

    def put(self, key: str, data: bytes, ordinal: int = 0) -> Future[Acked]:
        """Put a record; blocks while the queue is full. The future has shard and sequence number, or a DeliveryError.

        `ordinal` names the record in messages. Raises BadRowsError if the stream never takes such a record, and what
        the client failed with.
        """
        receipt = OneFuture()
        self._enter([Record(key, data)], [ordinal], receipt)
        return receipt.future

    def put_many(
        self, records: Sequence[Record], ordinals: Sequence[int], done: Callable[[Sequence[int]], None]
    ) -> None:
        """Put many records without a future for each; blocks while the queue is full.

        `done` gets the ordinals of those that the stream has, some at a time, in any order. Threads of the client call
        it, never two at once, and for the last time before `close` returns. Raises as `put` does; records before the
        bad one may be sent then.
        """
        receipt = Callback(done)
        for start in range(0, len(records), _PART):
            self._enter(records[start : start + _PART], ordinals[start : start + _PART], receipt)

    def flush(self) -> None:
        """Send what waits, without waiting for more. Returns at once. Raises what the client failed with."""
        with self._lock:
            self._raise_error()
            self._send_now()

    def close(self) -> None:
        """Wait until the stream has all records, and end. Raises what the client failed with."""
        with self._lock:
            self._is_closing = True
            self._send_now()
            while self._buffer.open:
                self._idle.wait()
        self._stop()
        self._raise_error()

    def stop(self, error: Exception) -> None:
        """End at once, without sending what waits: all open futures fail with this error."""
        self._fail(error)
        self._stop()

    def counters(self) -> Counters:
        """What was done until now."""
        with self._lock:
            now = self._clock.now()
            self._series.add(now, 0)
            return Counters(
                acked=self._acked,
                acked_bytes=self._acked_size,
                throttled=self._throttled,
                ambiguous=self._ambiguous,
                retried=self._retried,
                requests=self._requests,
                open=self._buffer.open,
                queue_bytes=self._buffer.size,
                blocked=self._buffer.blocked(now),
                series=tuple(self._series.counts),
                series_seconds=self._series.seconds,
            )

    def unfinished(self) -> str:
        """What this process would lose if it ended now, in words; empty if nothing."""
        if self._process != os.getpid():
            return ""  # a fork has a copy of the client; its records are its parent's
        if self._error is not None:
            return f"{self._sink.title}: the client failed, and was not closed: {self._error}"
        if self._buffer.open:
            return (
                f"{self._sink.title}: {self._buffer.open} records are not acknowledged, and the client was not closed."
            )
        return ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self.stop(NotDeliveredError(f"{self._sink.title}: interrupted with {self._buffer.open} open records."))
        elif kind is not None:
            with suppress(DeliveryError):  # the block's own error says more, or is the same
                self.close()
        else:
            self.close()

    # Entering

    def _enter(self, records: Sequence[Record], ordinals: Sequence[int], receipt: Receipt) -> None:
        routing = self._buffer.routing
        chunks = routing.chunks(records, ordinals, receipt)  # without the lock: this takes the most time
        with self._lock:
            while True:
                self._raise_error()
                if self._is_closing:
                    raise ValueError(f"The client of {self._sink.title} is closed.")
                if routing is not self._buffer.routing:
                    routing = self._buffer.routing
                    chunks = [new for chunk in chunks for new in self._buffer.rerouted(chunk.whole())]
                if not self._buffer.open:
                    self._progress_at = self._clock.now()
                chunks = [chunk for chunk in chunks if not self._buffer.admit(chunk)]
                now = self._clock.now()
                self._set_due(now if self._buffer.fills_a_request else now + self._settings.linger)
                if not chunks:
                    return
                self._space.wait()

    def _set_due(self, at: float) -> None:
        """Send what waits at this time, or before."""
        if self._due is None or at < self._due:
            self._due = at
            self._work.notify()

    def _send_now(self) -> None:
        if self._buffer.waiting:
            self._set_due(self._clock.now())

    # What leaves when: the pacer's thread

    def _pace(self) -> None:
        try:
            with self._lock:
                while not self._is_stopped and self._error is None:
                    self._clock.wait(self._work, self._step(self._clock.now()))
        except Exception as error:  # noqa: BLE001 - no progress, or a bug: either ends the delivery
            self._fail(error)

    def _step(self, now: float) -> float:
        """Do what is due. The seconds until something else is."""
        settings = self._settings
        next_at = [now + settings.map_every if self._is_reading else self._map_due]
        if self._map_due <= now and not self._is_reading:
            self._is_reading = True
            threading.Thread(target=self._read_map, name="client-shards", daemon=True).start()
        if self._buffer.open:
            next_at.append(self._progress_at + settings.give_up_after)
            if next_at[-1] <= now:
                raise self._no_progress()
        free = settings.requests - len(self._buffer.under_way)
        if self._due is not None and free:
            start = max(self._due, self._resume_at, self._next_turn)
            if start <= now:
                for request in self._buffer.requests(now, free):
                    self._requests += 1
                    self._worker.send(request, request.records)
                start = self._next_turn = now + settings.turn
                if not self._buffer.waiting:
                    self._due = None
            next_at.append(start)
        return max(0.0, min(next_at) - now)

    # Answers: the worker's threads

    def _answered(self, request: Request, outcome: Outcome) -> None:
        answered = Answered(request, outcome)
        try:
            with self._telling:
                for receipt, (ordinals, answers) in answered.acked.items():
                    receipt.acked(ordinals, answers)
        except Exception as error:  # noqa: BLE001 - a bug of a callback must end the delivery, too
            self._fail(error)
        if outcome.verdict is Verdict.FAILED:
            self._fail(outcome.error or StreamError(f"{self._sink.title}: refused."))
        with self._lock:
            now = self._clock.now()
            self._buffer.answered(request, now)
            self._count(answered, now)
            if self._error is None:
                if answered.has_progress:
                    self._failures = 0
                else:
                    self._pause(answered.problem, request, now)
                self._send_again(answered, request, now)
            self._space.notify_all()
            self._work.notify()
            if not self._buffer.open:
                self._idle.notify_all()

    def _count(self, answered: Answered, now: float) -> None:
        acked = sum(len(ordinals) for ordinals, _ in answered.acked.values())
        again = sum(len(chunk) for chunk in answered.again)
        self._acked += acked
        self._acked_size += answered.acked_size
        self._throttled += sum(len(chunk) for chunk in answered.throttled)
        if answered.is_ambiguous:
            self._ambiguous += again
        else:
            self._retried += again
        if acked:
            self._progress_at = now
            self._series.add(now, acked)
        if answered.shards - self._known:
            self._read_map_soon(now)

    def _pause(self, problem: str, request: Request, now: float) -> None:
        """No record of the request was taken: wait, with full jitter. Requests under way together count once."""
        self._problem = problem
        if request.taken >= self._failed_at:
            self._failed_at = now
            self._resume_at = now + self._jitter(self._failures)
            self._failures += 1

    def _send_again(self, answered: Answered, request: Request, now: float) -> None:
        self._buffer.give_back(answered.again)
        for lane in set(self._buffer.give_back(answered.throttled)):
            lane.rate.throttled(request.taken, now)
            name = lane.shard.name
            self._throttles[name] = self._throttles.get(name, 0) + 1
            if self._throttles[name] >= _THROTTLED_OFTEN:
                self._read_map_soon(now)
        if answered.again or answered.throttled:
            self._set_due(now)

    # Shards

    def _read_map_soon(self, now: float) -> None:
        self._map_due = min(self._map_due, max(now, self._map_read_at + _MAP_PAUSE))

    def _read_map(self) -> None:
        shards: Sequence[Shard] | None = None
        try:
            shards = self._sink.shards()
        except NotSentError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - StreamError, or a bug: both end the delivery
            self._fail(error)
            return
        with self._lock:
            now = self._clock.now()
            self._is_reading = False
            self._map_read_at = now
            if shards is None:
                self._problem = problem
                self._map_due = now + _MAP_PAUSE
            else:
                self._map_due = now + self._settings.map_every
                self._throttles.clear()
                names = {shard.name for shard in shards}
                if names != {lane.shard.name for lane in self._buffer.routing.lanes} and self._error is None:
                    self._known |= names
                    self._buffer.replace(shards, now)
                    self._space.notify_all()  # who waits looks for the shards again
            self._work.notify()

    # The end

    def _patiently(self, ask: Callable[[], Found]) -> Found:
        """Ask the stream until it answers."""
        start = self._clock.now()
        for failures in itertools.count():
            try:
                return ask()
            except NotSentError as error:
                if self._clock.now() - start >= self._settings.give_up_after:
                    raise NotDeliveredError(f"{self._sink.title}: no answer. The last problem: {error}") from error
            with self._work:
                self._clock.wait(self._work, self._jitter(failures))
        raise AssertionError  # for mypy: the loop has no end

    def _jitter(self, failures: int) -> float:
        longest = min(self._settings.longest_pause, self._settings.first_pause * 2 ** min(failures, 30))
        return random.uniform(0.0, longest)  # noqa: S311 - jitter

    def _no_progress(self) -> NotDeliveredError:
        last = f" The last problem: {self._problem}" if self._problem else ""
        return NotDeliveredError(
            f"{self._sink.title}: no record was acknowledged for {self._settings.give_up_after:g} s; "
            f"{self._buffer.open} wait.{last}"
        )

    def _fail(self, error: Exception) -> None:
        """End with this error: all futures fail now, also those of requests under way."""
        with self._lock:
            if self._error is not None or self._is_stopped:
                return
            self._error = error
            receipts = self._buffer.clear()
            self._work.notify_all()
            self._space.notify_all()
            self._idle.notify_all()
        for receipt in receipts:  # without the lock: futures call back
            receipt.failed(error)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            self._work.notify_all()
        self._pacer.join()
        self._worker.close()
        _open_clients.discard(self)


_open_clients: Final[set[Client]] = set()


def _fail_with_open_records() -> None:
    """Say what is lost when the interpreter ends now, and fail.

    Nothing raised here would change the exit code, so the process ends here.
    """
    lost = [words for client in _open_clients if (words := client.unfinished())]
    if lost:
        logging.shutdown()  # what the interpreter would still do
        sys.stderr.write("".join(f"Error: {words} Use `with Client(...)`, or call `close()`.\n" for words in lost))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


atexit.register(_fail_with_open_records)
