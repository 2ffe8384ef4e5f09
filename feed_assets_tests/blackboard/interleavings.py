"""Every order in which programs that share a blackboard can run: for proving a protocol on a small scale.

Here: running programs one request at a time, in all interleavings, with crashes and lost answers in between. Not here:
what must hold (the caller's `check` says that), and programs that wait for each other: each is a function of what
storage answers and of nothing else, as it is run again from its start for each further request (see `replay`).
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

from feed_assets.blackboard.port import BlackboardError, UnavailableError
from feed_assets_tests.blackboard.replay import WRITES, End, Failed, Program, Request, Stored, next_step, perform

Objects = Mapping[str, bytes]
_Value = TypeVar("_Value", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Actor:
    """A program that takes part, and what may happen to it.

    `program` returns something hashable. With `witness`, what is observed in storage while it runs is kept. With
    `may_crash` it may stop for good before any of its requests. `lost_answers` is how often a write of it may land and
    be answered with UnavailableError all the same.
    """

    name: str
    program: Program
    witness: bool = False
    may_crash: bool = False
    lost_answers: int = 0


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
    with _no_search_for_garbage():
        return _explore(_Run(actors, expected, observe, content_tags=content_tags), objects, check)


@contextmanager
def _no_search_for_garbage() -> Iterator[None]:
    """States have no cycles, and there are so many that the search for garbage would take a third of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _explore(run: _Run, objects: Objects, check: Callable[[Reached], None]) -> Exploration:
    first = run.first(objects)
    cause: dict[_State, tuple[_State, _Step] | None] = {first: None}
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
            message = f"{error}\nafter these requests:\n{way}\nwith this in storage:\n{_listing(reached[state])}"
            raise ViolationError(message) from error
        steps = [(run.witnessing(each, state), what) for each, what in run.steps(state)]
        following[state] = tuple(each for each, _ in steps)
        for each, what in steps:
            if each not in cause:
                cause[each] = state, what
                waiting.append(each)
    return Exploration(reached, following, first)


class _Numbers(Generic[_Value]):
    """Numbers for values, the same for equal ones. States are made of them, as numbers are quickly compared."""

    def __init__(self) -> None:
        self._numbers: dict[_Value, int] = {}
        self._values: list[_Value] = []

    def of(self, value: _Value) -> int:
        number = self._numbers.setdefault(value, len(self._values))
        if number == len(self._values):
            self._values.append(value)
        return number

    def __getitem__(self, number: int) -> _Value:
        return self._values[number]


@dataclass(frozen=True, slots=True)
class _Crash:
    """What becomes of a program that stopped."""


class _Progress(NamedTuple):
    """How far a program has come: the number of what it was answered, or of how it ended."""

    answers: int = 0
    end: int | None = None
    lost: int = 0
    witnessed: frozenset[int] = frozenset()


class _State(NamedTuple):
    """The number of what is stored, and how far each program has come."""

    stored: int
    progress: tuple[_Progress, ...]


_Step = tuple[Any, ...]
"""What happened, in words with places for the actor's name and the request: few steps are ever told."""


class _Run:
    """The programs, and what each does next after certain answers."""

    def __init__(
        self,
        actors: tuple[Actor, ...],
        expected: tuple[type[Exception], ...],
        observe: Callable[[Objects], Hashable],
        *,
        content_tags: bool,
    ) -> None:
        self._actors = actors
        self._witnesses = [at for at, actor in enumerate(actors) if actor.witness]
        self._expected = expected
        self._observe = observe
        self._content_tags = content_tags
        self._stored = _Numbers[Stored]()
        self._objects: dict[int, Objects] = {}
        self._answers = _Numbers[Any]()  # an answer, and the number of the answers before it
        self._answers.of(None)  # the number of no answer yet
        self._requests = _Numbers[Request]()
        self._ends = _Numbers[_Crash | End]()
        self._observations = _Numbers[Hashable]()
        self._observed: dict[int, int] = {}
        self._next_of: dict[tuple[int, int], tuple[int | None, int | None]] = {}
        self._performed: dict[tuple[int, int], tuple[int, Any]] = {}

    def first(self, objects: Objects) -> _State:
        return _State(self._stored.of(tuple(sorted(objects.items()))), tuple(_Progress() for _ in self._actors))

    def reached(self, state: _State) -> Reached:
        ended = {
            actor.name: (end.result, frozenset(self._observations[each] for each in progress.witnessed))
            for actor, progress in zip(self._actors, state.progress, strict=True)
            if progress.end is not None and isinstance(end := self._ends[progress.end], End)
        }
        results = {name: result for name, (result, _) in ended.items()}
        objects = self._objects.get(state.stored)
        if objects is None:
            objects = self._objects[state.stored] = dict(self._stored[state.stored])
        return Reached(objects, results, {name: seen for name, (_, seen) in ended.items()})

    def steps(self, state: _State) -> Iterator[tuple[_State, _Step]]:
        for at, (actor, progress) in enumerate(zip(self._actors, state.progress, strict=True)):
            if progress.end is not None:
                continue
            number, end = self._next(at, progress.answers)
            if number is None:  # it ends without any request
                yield self._moved(state, at, progress._replace(answers=0, end=end)), ("{}: ends", actor.name)
                continue
            request = self._requests[number]
            stored, answer = self._perform(state.stored, number)
            yield self._answered(state, at, progress, stored, answer), ("{}: {}", actor.name, request)
            if actor.may_crash:
                crashed = _Progress(end=self._ends.of(_Crash()))
                yield self._moved(state, at, crashed), ("{}: crashes before {}", actor.name, request)
            if progress.lost < actor.lost_answers and request.operation in WRITES:
                lost = Failed(UnavailableError, f"The answer to {request} was lost.")
                unsure = progress._replace(lost=progress.lost + 1)
                yield self._answered(state, at, unsure, stored, lost), ("{}: {}, its answer lost", actor.name, request)

    def witnessing(self, state: _State, before: _State) -> _State:
        """The state in which every program that is running has witnessed what is in storage."""
        if not self._witnesses:
            return state
        seen = self._observation(before.stored), self._observation(state.stored)
        progress = list(state.progress)
        for at in self._witnesses:
            now = progress[at]
            if now is not before.progress[at] or (now.answers and now.end is None):
                witnessed = now.witnessed
                if seen[0] not in witnessed or seen[1] not in witnessed:
                    progress[at] = _Progress(now.answers, now.end, now.lost, witnessed.union(seen))
        return _State(state.stored, tuple(progress))

    def _observation(self, stored: int) -> int:
        if stored not in self._observed:
            self._observed[stored] = self._observations.of(self._observe(dict(self._stored[stored])))
        return self._observed[stored]

    def _answered(self, state: _State, at: int, progress: _Progress, stored: int, answer: Any) -> _State:
        answers = self._answers.of((progress.answers, answer))
        _, end = self._next(at, answers)
        if end is not None:
            moved = _Progress(end=end, witnessed=progress.witnessed)
        else:
            moved = _Progress(answers, None, progress.lost, progress.witnessed)
        return self._moved(state, at, moved, stored)

    def _moved(self, state: _State, at: int, progress: _Progress, stored: int | None = None) -> _State:
        everyone = (*state.progress[:at], progress, *state.progress[at + 1 :])
        return _State(state.stored if stored is None else stored, everyone)

    def _perform(self, stored: int, request: int) -> tuple[int, Any]:
        """The number of what is stored after the request, and the answer to it."""
        known = self._performed.get((stored, request))
        if known is None:
            after, answer = perform(self._stored[stored], self._requests[request])
            known = self._performed[stored, request] = self._stored.of(after), answer
        return known

    def _next(self, at: int, answers: int) -> tuple[int | None, int | None]:
        """The number of the program's next request after these answers; or that of how it ends."""
        known = self._next_of.get((at, answers))
        if known is None:
            following = next_step(
                self._actors[at].program,
                self._all_answers(answers),
                self._expected,
                content_tags=self._content_tags,
            )
            if isinstance(following, End):
                known = None, self._ends.of(following)
            else:
                known = self._requests.of(following), None
            self._next_of[at, answers] = known
        return known

    def _all_answers(self, answers: int) -> tuple[Any, ...]:
        found = []
        while answers:
            answers, answer = self._answers[answers]
            found.append(answer)
        return tuple(reversed(found))


def _way(state: _State, cause: Mapping[_State, tuple[_State, _Step] | None]) -> list[str]:
    way = []
    step = cause[state]
    while step is not None:
        state, (words, *parts) = step
        way.append(words.format(*parts))
        step = cause[state]
    return way[::-1]


def _listing(reached: Reached) -> str:
    return "\n".join(f"{key} {data[:60]!r}" for key, data in reached.objects.items())
