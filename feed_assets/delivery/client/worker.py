"""Requests: threads send them, and judge what the answers mean.

Not here: which records a request has (`facade`), what is sent again (there, too), and how one request reaches its
stream (`streams`).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, TypeVar

from feed_assets.delivery.errors import StreamError
from feed_assets.delivery.streams.port import Acked, AmbiguousError, Answer, NotSentError, Record, Sink


class Verdict(Enum):
    """What became of a request."""

    ACKED = auto()
    """The stream has all records."""
    PARTLY = auto()
    """Each record has its own answer."""
    NOT_SENT = auto()
    """The stream has none of the records."""
    AMBIGUOUS = auto()
    """Nobody knows."""
    FAILED = auto()
    """Sending again would not help."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request: `answers` if there are any, else the error."""

    verdict: Verdict
    answers: Sequence[Answer] = ()
    error: Exception | None = None


Tag = TypeVar("Tag")


class Worker(Generic[Tag]):
    """Sends requests in threads, which it starts when they are needed. It does not send again.

    `answered` is called with the request's tag in the thread that sent it.
    """

    def __init__(self, sink: Sink, answered: Callable[[Tag, Outcome], None], threads: int) -> None:
        self._sink = sink
        self._answered = answered
        self._most = threads
        self._threads: list[threading.Thread] = []
        self._waiting: queue.SimpleQueue[tuple[Tag, Sequence[Record]] | None] = queue.SimpleQueue()
        self._busy = 0
        self._lock = threading.Lock()

    def send(self, tag: Tag, records: Sequence[Record]) -> None:
        """Send the records as soon as a thread is free."""
        with self._lock:
            self._busy += 1
            if self._busy > len(self._threads) < self._most:
                # A daemon: an interpreter that ends waits for no answer. The facade says what is open then.
                thread = threading.Thread(target=self._work, name=f"client-request-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._waiting.put((tag, records))

    def close(self) -> None:
        """End the threads when the requests under way are answered."""
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _work(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            tag, records = waiting
            outcome = attempt(self._sink, records)
            self._answered(tag, outcome)
            with self._lock:
                self._busy -= 1


def attempt(sink: Sink, records: Sequence[Record]) -> Outcome:
    """Send the records once, and judge the answer."""
    try:
        answers = sink.put(records)
    except NotSentError as error:
        return Outcome(Verdict.NOT_SENT, error=error)
    except AmbiguousError as error:
        return Outcome(Verdict.AMBIGUOUS, error=error)
    except StreamError as error:
        return Outcome(Verdict.FAILED, error=error)
    except Exception as error:  # noqa: BLE001 - a bug of a sink must end the delivery, not a thread that nobody sees
        return Outcome(Verdict.FAILED, error=error)
    if len(answers) != len(records):
        return Outcome(Verdict.AMBIGUOUS, error=AmbiguousError(f"{len(records)} records have {len(answers)} answers"))
    return Outcome(Verdict.ACKED if set(map(type, answers)) <= {Acked} else Verdict.PARTLY, answers)
