"""What the answers to a request mean for each of its records.

Here: values. Not here: what follows (`facade`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from operator import itemgetter

from feed_assets.delivery.client.chunks import Chunk, Receipt, Request
from feed_assets.delivery.client.worker import Outcome, Verdict
from feed_assets.delivery.streams.port import Acked, Answer


class Answered:
    """The records of a request by what became of them: acked, by receipt; to be sent again; the same, throttled."""

    __slots__ = ("acked", "acked_size", "again", "is_ambiguous", "problem", "shards", "throttled")

    def __init__(self, request: Request, outcome: Outcome) -> None:
        self.acked: dict[Receipt, tuple[list[int], list[Acked]]] = {}
        self.acked_size = 0
        self.again: list[Chunk] = []
        self.throttled: list[Chunk] = []
        self.is_ambiguous = outcome.verdict is not Verdict.NOT_SENT
        self.problem = str(outcome.error or "the stream failed to store any record of a request")
        answers = outcome.answers
        at = 0
        for chunk in request.chunks:
            if outcome.verdict is Verdict.ACKED:
                ordinals, found = self.acked.setdefault(chunk.receipt, ([], []))
                ordinals += chunk.ordinals
                found += answers[at : at + len(chunk)]  # type: ignore[arg-type]  # the verdict says that all are acked
                self.acked_size += chunk.size
            elif outcome.verdict is Verdict.PARTLY:
                self._add(chunk, answers[at : at + len(chunk)])
            else:
                self.again.append(chunk)
            at += len(chunk)
        self.shards: set[str] = set()
        for _, found in self.acked.values():
            self.shards.update(map(itemgetter(0), found))

    @property
    def has_progress(self) -> bool:
        """Whether the stream works: it has taken a record, or said that a shard was over its limit."""
        return bool(self.acked or self.throttled)

    def _add(self, chunk: Chunk, answers: Sequence[Answer]) -> None:
        again, throttled = Chunk(chunk.lane, chunk.receipt), Chunk(chunk.lane, chunk.receipt)
        for record, ordinal, size, answer in zip(chunk.records, chunk.ordinals, chunk.sizes, answers, strict=True):
            if isinstance(answer, Acked):
                ordinals, found = self.acked.setdefault(chunk.receipt, ([], []))
                ordinals.append(ordinal)
                found.append(answer)
                self.acked_size += size
            else:
                (throttled if answer.throttled else again).append(record, ordinal, size)
        self.again += [again] if again.records else []
        self.throttled += [throttled] if throttled.records else []


class OneFuture:
    """The receipt of a record with a future."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: Future[Acked] = Future()
        self.future.set_running_or_notify_cancel()  # what is under way cannot be cancelled

    def acked(self, ordinals: Sequence[int], answers: Sequence[Acked]) -> None:  # noqa: ARG002 - of the protocol
        """The future has its answer, unless the client has failed before."""
        if not self.future.done():
            self.future.set_result(answers[0])

    def failed(self, error: Exception) -> None:
        """The future has failed."""
        if not self.future.done():
            self.future.set_exception(error)


class Callback:
    """The receipt of records without futures. The client itself says if it fails."""

    __slots__ = ("_done",)

    def __init__(self, done: Callable[[Sequence[int]], None]) -> None:
        self._done = done

    def acked(self, ordinals: Sequence[int], answers: Sequence[Acked]) -> None:  # noqa: ARG002 - of the protocol
        """The callback gets the ordinals."""
        self._done(ordinals)

    def failed(self, error: Exception) -> None:
        """Nothing: `close` raises the error."""
