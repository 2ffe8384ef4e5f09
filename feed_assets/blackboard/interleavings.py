"""Every order in which programs that share a blackboard can run: for proving a protocol on a small scale.

Here: running programs one request at a time, in all interleavings, with crashes and lost answers in between. Not here:
what must hold (the caller's `check` says that), and programs that wait for each other: each is a function of what
storage answers and of nothing else, as it is run again from its start for each further request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import Blackboard, BlackboardError, Content, Entry, Page, UnavailableError

_WRITES = {"create", "replace", "copy", "delete"}
_ALWAYS = datetime(2000, 1, 1, tzinfo=UTC)

Objects = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Actor:
    """A program that takes part, and what may happen to it.

    `program` returns something hashable. With `witness`, what is observed in storage while it runs is kept. With
    `may_crash` it may stop for good before any of its requests. `lost_answers` is how often a write of it may land and
    be answered with UnavailableError all the same.
    """

    name: str
    program: Callable[[Blackboard], Hashable]
    witness: bool = False
    may_crash: bool = False
    lost_answers: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """What a program came to that ended with one of the errors it may end with."""

    kind: type[Exception]
    message: str


@dataclass(frozen=True, slots=True)
class Reached:
    """A state that can be reached: storage, and what the programs that have ended returned.

    `witnessed` holds, of each of these that is to witness, all that was observed from its first request to its last.
    """

    objects: Objects
    results: Mapping[str, Hashable]
    witnessed: Mapping[str, frozenset[Hashable]]


class ViolationError(Exception):
    """A state was reached in which the check does not hold; the message tells the requests that lead there."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """All states that can be reached, and the steps between them."""

    _states: dict[_State, Reached]
    _next: dict[_State, tuple[_State, ...]]
    _first: _State

    def __len__(self) -> int:
        return len(self._states)

    def states(self) -> Iterator[Reached]:
        """Every state, those with fewer requests behind them first."""
        yield from self._states.values()

    def ends(self) -> Iterator[Reached]:
        """The states in which all programs have ended."""
        yield from (self._states[state] for state, following in self._next.items() if not following)

    def schedules(self, avoiding: Callable[[Reached], bool] = lambda _: False) -> int:
        """How many interleavings there are in which no state is as `avoiding` says."""

        @cache
        def count(state: _State) -> int:
            if avoiding(self._states[state]):
                return 0
            following = self._next[state]
            return sum(count(each) for each in following) if following else 1

        return count(self._first)


def explore(
    objects: Objects,
    actors: tuple[Actor, ...],
    *,
    check: Callable[[Reached], None] = lambda _: None,
    observe: Callable[[Objects], Hashable] = lambda _: None,
    expected: tuple[type[Exception], ...] = (BlackboardError,),
    content_tags: bool = True,
) -> Exploration:
    """Run the programs from this storage in every interleaving; states that are the same are gone on from once.

    `check` is called in every state, and says by AssertionError that it is not as it must be; `observe` once for each
    content of storage. Programs may end with the `expected` errors. Without `content_tags`, tags do not tell the
    content (see `Blackboard.tag_of`). Raises ViolationError, for a shortest way that leads to one.
    """
    run = _Run(actors, expected, content_tags=content_tags)
    observed = cache(lambda stored: observe(dict(stored)))
    first = _State(tuple(sorted(objects.items())), tuple(_Progress() for _ in actors))
    cause: dict[_State, tuple[_State, str] | None] = {first: None}
    reached: dict[_State, Reached] = {}
    following: dict[_State, tuple[_State, ...]] = {}
    waiting = deque([first])
    while waiting:
        state = waiting.popleft()
        reached[state] = run.reached(state)
        try:
            check(reached[state])
        except AssertionError as error:
            way = "\n".join(_way(state, cause))
            message = f"{error}\nafter these requests:\n{way}\nwith this in storage:\n{_listing(state)}"
            raise ViolationError(message) from error
        steps = [(run.witnessing(each, state, observed), what) for each, what in run.steps(state)]
        following[state] = tuple(each for each, _ in steps)
        for each, what in steps:
            if each not in cause:
                cause[each] = state, what
                waiting.append(each)
    return Exploration(reached, following, first)


@dataclass(frozen=True, slots=True)
class _Request:
    operation: str
    arguments: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return f"{self.operation} {self.arguments[0]}"


@dataclass(frozen=True, slots=True)
class _Crash:
    """What becomes of a program that stopped."""


@dataclass(frozen=True, slots=True)
class _End:
    result: Hashable


@dataclass(frozen=True, slots=True)
class _Progress:
    """How far a program has come: what it was answered, or how it ended."""

    answers: tuple[Any, ...] = ()
    end: _Crash | _End | None = None
    lost: int = 0
    witnessed: frozenset[Hashable] = frozenset()


@dataclass(frozen=True)
class _State:
    stored: tuple[tuple[str, bytes], ...]
    progress: tuple[_Progress, ...]
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.stored, self.progress)))

    def __hash__(self) -> int:
        return self._hash


class _Run:
    """The programs, and what each does next after certain answers."""

    def __init__(self, actors: tuple[Actor, ...], expected: tuple[type[Exception], ...], *, content_tags: bool) -> None:
        self._actors = actors
        self._expected = expected
        self._content_tags = content_tags
        self._known: dict[tuple[int, tuple[Any, ...]], _Request | _End] = {}

    def reached(self, state: _State) -> Reached:
        ended = [
            (actor.name, progress)
            for actor, progress in zip(self._actors, state.progress, strict=True)
            if isinstance(progress.end, _End)
        ]
        return Reached(
            dict(state.stored),
            {name: progress.end.result for name, progress in ended if isinstance(progress.end, _End)},
            {name: progress.witnessed for name, progress in ended},
        )

    def steps(self, state: _State) -> Iterator[tuple[_State, str]]:
        for at, (actor, progress) in enumerate(zip(self._actors, state.progress, strict=True)):
            if progress.end is not None:
                continue
            request = self._next(at, progress.answers)
            if isinstance(request, _End):  # it ends without any request
                yield self._moved(state, at, replace(progress, answers=(), end=request)), f"{actor.name}: ends"
                continue
            stored, answer = _perform(state.stored, request)
            yield self._moved(state, at, progress, stored, answer), f"{actor.name}: {request}"
            if actor.may_crash:
                crashed = _Progress(end=_Crash())
                yield self._moved(state, at, crashed), f"{actor.name}: crashes before {request}"
            if progress.lost < actor.lost_answers and request.operation in _WRITES:
                lost = Failed(UnavailableError, f"The answer to {request} was lost.")
                unsure = replace(progress, lost=progress.lost + 1)
                yield self._moved(state, at, unsure, stored, lost), f"{actor.name}: {request}, its answer lost"

    def witnessing(self, state: _State, before: _State, observed: Callable[[Any], Hashable]) -> _State:
        """The state in which every program that is running has witnessed what is in storage."""
        seen = frozenset({observed(before.stored), observed(state.stored)})
        progress = tuple(
            replace(now, witnessed=now.witnessed | seen)
            if actor.witness and (now != then or (now.answers and now.end is None))
            else now
            for actor, now, then in zip(self._actors, state.progress, before.progress, strict=True)
        )
        return _State(state.stored, progress)

    def _moved(
        self,
        state: _State,
        at: int,
        progress: _Progress,
        stored: tuple[tuple[str, bytes], ...] | None = None,
        answer: Any = None,
    ) -> _State:
        if stored is not None:
            answers = (*progress.answers, answer)
            following = self._next(at, answers)
            if isinstance(following, _End):
                progress = _Progress(end=following, witnessed=progress.witnessed)
            else:
                progress = replace(progress, answers=answers)
        everyone = (*state.progress[:at], progress, *state.progress[at + 1 :])
        return _State(state.stored if stored is None else stored, everyone)

    def _next(self, at: int, answers: tuple[Any, ...]) -> _Request | _End:
        known = self._known.get((at, answers))
        if known is None:
            known = self._known[at, answers] = self._replay(self._actors[at], answers)
        return known

    def _replay(self, actor: Actor, answers: tuple[Any, ...]) -> _Request | _End:
        try:
            return _End(actor.program(_Replayed(answers, content_tags=self._content_tags)))
        except _Suspended as suspended:
            return suspended.request
        except self._expected as error:
            return _End(Failed(type(error), str(error)))


class _Suspended(BaseException):
    """A program has come to a request that was not answered yet. No error, so that no program handles it."""

    def __init__(self, request: _Request) -> None:
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
        raise _Suspended(_Request(operation, arguments, tuple(options.items())))


def _perform(stored: tuple[tuple[str, bytes], ...], request: _Request) -> tuple[tuple[tuple[str, bytes], ...], Any]:
    """What is stored after the request, and the answer to it."""
    # Equal contents have equal tags and times here, so that states which differ only in those are the same.
    board = MemoryBlackboard(dict(stored), clock=lambda: _ALWAYS)
    try:
        answer = getattr(board, request.operation)(*request.arguments, **dict(request.options))
    except BlackboardError as error:
        answer = Failed(type(error), str(error))
    if request.operation in _WRITES:
        stored = tuple(board.objects().items())
    return stored, answer


def _way(state: _State, cause: Mapping[_State, tuple[_State, str] | None]) -> list[str]:
    way = []
    step = cause[state]
    while step is not None:
        state, what = step
        way.append(what)
        step = cause[state]
    return way[::-1]


def _listing(state: _State) -> str:
    return "\n".join(f"{key} {data[:60]!r}" for key, data in state.stored)
