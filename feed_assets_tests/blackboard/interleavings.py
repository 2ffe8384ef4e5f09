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

    `check` judges every state, and says by AssertionError that it is not as it must be; states that look alike to it
    are judged once. `observe` is called once for each content of storage. Programs may end with the `expected` errors.
    Without `content_tags`, tags do not tell the content (see `Blackboard.tag_of`). Raises ViolationError, for a
    shortest way that leads to one.
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
    checked: set[int] = set()
    waiting = deque([first])
    while waiting:
        state = waiting.popleft()
        here = reached[state] = run.reached(state)
        # Most states differ only in programs under way, of which a check sees nothing.
        if id(here) not in checked:
            checked.add(id(here))
            _check(here, check, state, cause)
        steps = run.steps(state)
        following[state] = tuple([each for each, _ in steps])
        for each, what in steps:
            if each not in cause:
                cause[each] = state, what
                waiting.append(each)
    return Exploration(reached, following, first)


def _check(
    reached: Reached,
    check: Callable[[Reached], None],
    state: _State,
    cause: Mapping[_State, tuple[_State, _Step] | None],
) -> None:
    try:
        check(reached)
    except AssertionError as error:
        way = "\n".join(_way(state, cause))
        message = f"{error}\nafter these requests:\n{way}\nwith this in storage:\n{_listing(reached)}"
        raise ViolationError(message) from error


class Numbers(Generic[_Value]):
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


_State = tuple[int, ...]
"""The number of what is stored, and for each program the number of its progress."""

_Step = tuple[Any, ...]
"""What happened, in words with places for the actor's name and the request: few steps are ever told."""

_Move = tuple[int, int, _Step]
"""The number of what is stored after a step, that of its program's progress, and the step."""


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
        self._stored = Numbers[Stored]()
        self._objects: dict[int, Objects] = {}
        self._answers = Numbers[Any]()  # an answer, and the number of the answers before it
        self._answers.of(None)  # the number of no answer yet
        self._requests = Numbers[Request]()
        self._ends = Numbers[_Crash | End]()
        self._progress = Numbers[_Progress]()
        self._observations = Numbers[Hashable]()
        self._observed: dict[int, int] = {}
        self._next_of: dict[tuple[int, int], tuple[int | None, int | None]] = {}
        self._performed: dict[tuple[int, int], tuple[int, Any]] = {}
        self._moves: list[dict[tuple[int, int], list[_Move]]] = [{} for _ in actors]
        self._witnessed: dict[tuple[int, int, int], int] = {}
        self._reached: dict[tuple[int, ...], Reached] = {}
        self._ended: list[bool] = []  # by the number of a progress
        self._running: list[bool] = []

    def first(self, objects: Objects) -> _State:
        start = self._number(_Progress())
        return (self._stored.of(tuple(sorted(objects.items()))), *[start for _ in self._actors])

    def reached(self, state: _State) -> Reached:
        """The same object for all states in which the same is stored and the same programs have ended alike."""
        ended = self._ended
        seen = (state[0], *[progress if ended[progress] else 0 for progress in state[1:]])
        found = self._reached.get(seen)
        if found is None:
            found = self._reached[seen] = self._as_seen(state)
        return found

    def _as_seen(self, state: _State) -> Reached:
        results, witnessed = {}, {}
        for actor, number in zip(self._actors, state[1:], strict=True):
            progress = self._progress[number]
            if progress.end is not None and isinstance(end := self._ends[progress.end], End):
                results[actor.name] = end.result
                witnessed[actor.name] = frozenset(self._observations[each] for each in progress.witnessed)
        objects = self._objects.get(state[0])
        if objects is None:
            objects = self._objects[state[0]] = dict(self._stored[state[0]])
        return Reached(objects, results, witnessed)

    def steps(self, state: _State) -> list[tuple[_State, _Step]]:
        found = []
        stored = state[0]
        for at, known in enumerate(self._moves, start=1):
            moves = known.get((stored, state[at]))
            if moves is None:
                moves = known[stored, state[at]] = list(self._moves_of(at - 1, stored, self._progress[state[at]]))
            for after, progress, what in moves:
                moved = (after, *state[1:at], progress, *state[at + 1 :])
                found.append((self._witnessing(moved, stored, at) if self._witnesses else moved, what))
        return found

    def _moves_of(self, at: int, stored: int, progress: _Progress) -> Iterator[_Move]:
        """All that a program can do next: a few moves of which very many states are made."""
        if progress.end is not None:
            return
        actor = self._actors[at]
        number, end = self._next(at, progress.answers)
        if number is None:  # it ends without any request
            yield stored, self._number(progress._replace(answers=0, end=end)), ("{}: ends", actor.name)
            return
        request = self._requests[number]
        after, answer = self._perform(stored, number)
        yield after, self._answered(at, progress, answer), ("{}: {}", actor.name, request)
        if actor.may_crash:
            crashed = self._number(_Progress(end=self._ends.of(_Crash())))
            yield stored, crashed, ("{}: crashes before {}", actor.name, request)
        if progress.lost < actor.lost_answers and request.operation in WRITES:
            lost = Failed(UnavailableError, f"The answer to {request} was lost.")
            unsure = progress._replace(lost=progress.lost + 1)
            yield after, self._answered(at, unsure, lost), ("{}: {}, its answer lost", actor.name, request)

    def _witnessing(self, state: _State, stored_before: int, moved: int) -> _State:
        """The state in which every program that is running has witnessed what is in storage."""
        seen = self._observation(stored_before), self._observation(state[0])
        found = state
        for at in self._witnesses:
            now = state[at + 1]
            if at + 1 == moved or self._running[now]:
                after = self._witnessed.get((now, *seen))
                if after is None:
                    progress = self._progress[now]
                    after = self._number(progress._replace(witnessed=progress.witnessed.union(seen)))
                    self._witnessed[now, *seen] = after
                if after != now:
                    found = (*found[: at + 1], after, *found[at + 2 :])
        return found

    def _observation(self, stored: int) -> int:
        if stored not in self._observed:
            self._observed[stored] = self._observations.of(self._observe(dict(self._stored[stored])))
        return self._observed[stored]

    def _answered(self, at: int, progress: _Progress, answer: Any) -> int:
        answers = self._answers.of((progress.answers, answer))
        _, end = self._next(at, answers)
        if end is not None:
            return self._number(_Progress(end=end, witnessed=progress.witnessed))
        return self._number(_Progress(answers, None, progress.lost, progress.witnessed))

    def _number(self, progress: _Progress) -> int:
        number = self._progress.of(progress)
        if number == len(self._ended):
            self._ended.append(progress.end is not None)
            self._running.append(bool(progress.answers) and progress.end is None)
        return number

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
