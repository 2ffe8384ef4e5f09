"""One program that uses a blackboard, a request at a time.

Here: its next request after certain answers, found by running it again from its start, and what storage answers. Not
here: several programs, and the order in which they run (see `interleavings`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import Blackboard, BlackboardError, Content, Entry, Page

WRITES = {"create", "replace", "copy", "delete"}
_ALWAYS = datetime(2000, 1, 1, tzinfo=UTC)

Program = Callable[[Blackboard], Hashable]

Stored = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """What a program came to that ended with one of the errors it may end with."""

    kind: type[Exception]
    message: str


@dataclass(frozen=True, slots=True)
class Request:
    operation: str
    arguments: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return f"{self.operation} {self.arguments[0]}"


@dataclass(frozen=True, slots=True)
class End:
    result: Hashable


def next_step(
    program: Program, answers: tuple[Any, ...], expected: tuple[type[Exception], ...], *, content_tags: bool
) -> Request | End:
    """The program's next request after these answers, or its end. It may end with one of the `expected` errors."""
    try:
        return End(program(_Replayed(answers, content_tags=content_tags)))
    except _Suspended as suspended:
        return suspended.request
    except expected as error:
        return End(Failed(type(error), str(error)))


def perform(stored: Stored, request: Request) -> tuple[Stored, Any]:
    """What is stored after the request, and the answer to it."""
    # Equal contents have equal tags and times here, so that states which differ only in those are the same.
    board = MemoryBlackboard(dict(stored), clock=lambda: _ALWAYS)
    try:
        answer = getattr(board, request.operation)(*request.arguments, **dict(request.options))
    except BlackboardError as error:
        answer = Failed(type(error), str(error))
    if request.operation in WRITES:
        stored = tuple(board.objects().items())
    return stored, answer


class _Suspended(BaseException):
    """A program has come to a request that was not answered yet. No error, so that no program handles it."""

    def __init__(self, request: Request) -> None:
        super().__init__(str(request))
        self.request = request


class _Replayed:
    """A blackboard that gives the answers of before, and suspends the program at the first new request."""

    def __init__(self, answers: tuple[Any, ...], *, content_tags: bool) -> None:
        self._answers = iter(answers)
        self._tags = MemoryBlackboard(content_tags=content_tags)

    def page(self, prefix: str, *, after: str = "", folders: bool = False) -> Page:
        answer: Page = self._ask("page", prefix, after=after, folders=folders)
        return answer

    def read(self, key: str, *, limit: int | None = None) -> Content:
        answer: Content = self._ask("read", key, limit=limit)
        return answer

    def create(self, key: str, data: bytes) -> Entry:
        answer: Entry = self._ask("create", key, data)
        return answer

    def replace(self, key: str, data: bytes, *, tag: str) -> Entry:
        answer: Entry = self._ask("replace", key, data, tag=tag)
        return answer

    def upload(self, key: str, source: Path) -> Entry:
        answer: Entry = self._ask("create", key, source.read_bytes())
        return answer

    def copy(self, source: str, key: str) -> Entry:
        answer: Entry = self._ask("copy", source, key)
        return answer

    def delete(self, *keys: str) -> None:
        for key in keys:
            self._ask("delete", key)

    def flush(self, *keys: str) -> None:
        pass

    def tag_of(self, data: bytes) -> str | None:
        return self._tags.tag_of(data)

    def uri(self, key: str) -> str:
        return self._tags.uri(key)

    def _ask(self, operation: str, *arguments: Any, **options: Any) -> Any:
        for answer in self._answers:
            if isinstance(answer, Failed):
                raise answer.kind(answer.message)
            return answer
        raise _Suspended(Request(operation, arguments, tuple(options.items())))
