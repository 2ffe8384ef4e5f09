"""Long random histories of three masters: with kills, lost answers, and requests that storage carries out late.

The real code runs in threads, of which one at a time does one request. `test_orders` has all orders of shorter ones.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import BlackboardError, UnavailableError
from feed_assets.errors import FeedAssetsError
from feed_assets_tests.blackboard.replay import WRITES, Failed
from feed_assets_tests.workflow.actors import begun, candidate, faults_of, master, ordered

PLAN = "wswwswsw"


class Killed(BaseException):
    """The end of a program, at a request."""


class Turns:
    """A program in a thread of its own, and its blackboard: each request waits for its turn."""

    def __init__(self, program: Callable[..., int], history: History) -> None:
        self.result: object = None
        self.is_over = False
        self._history = history
        self._mine, self._back = threading.Lock(), threading.Lock()
        self._mine.acquire()
        self._back.acquire()
        self._fault = ""
        self._thread = threading.Thread(target=self._run, args=(program,), daemon=True)
        self._thread.start()
        self._back.acquire()

    def go_on(self, fault: str = "") -> None:
        """Let it do its next request, and run up to the one after."""
        self._fault = fault
        self._mine.release()
        self._back.acquire()

    def _run(self, program: Callable[..., int]) -> None:
        try:
            self.result = program(self)
        except FeedAssetsError as error:
            self.result = Failed(type(error), str(error))
        except Killed:
            self.result = "killed"
        finally:
            self.is_over = True
            self._back.release()

    def uri(self, key: str) -> str:
        return self._history.board.uri(key)

    def tag_of(self, data: bytes) -> str | None:
        return self._history.board.tag_of(data)

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        return partial(self._request, operation)

    def _request(self, operation: str, *arguments: Any, **options: Any) -> Any:
        if operation == "upload":
            operation, arguments = "create", (arguments[0], arguments[1].read_bytes())
        self._back.release()
        self._mine.acquire()
        if self._fault == "killed":
            raise Killed
        request = partial(getattr(self._history.board, operation), *arguments, **options)
        if operation in WRITES and str(arguments[0]).startswith(".workflow/"):
            if self._fault == "late":
                self._history.late.append(request)
                raise UnavailableError("The request is on its way.")
            if self._fault == "lost":
                request()
                raise UnavailableError("The answer is lost.")
        return request()


class History:
    """One random history, by its seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        start = begun("wsw")
        self.board = MemoryBlackboard(start)
        self.late: list[Callable[[], object]] = []
        self._actors = {"a": Turns(partial(master, PLAN, start), self)}
        self._actors |= {name: Turns(partial(candidate, name, PLAN), self) for name in "bc"}

    def run(self) -> list[str]:
        """What is wrong at its end, or at a moment before."""
        while running := [each for each in self._actors.values() if not each.is_over]:
            one = self.random.choice(running)
            for _ in range(self.random.choice((1, 1, 2, 5, 20))):
                if not one.is_over:
                    one.go_on(self.random.choices(("", "late", "lost", "killed"), (94, 3, 3, 0.3))[0])
            while self.late and self.random.random() < 0.1:
                self._carry_out(self.random.randrange(len(self.late)))
            if found := self._faults():
                return found
        while self.late:
            self._carry_out(0)
        return self._faults() + self._unknown_to_the_next()

    def results(self) -> dict[str, object]:
        return {name: each.result for name, each in self._actors.items() if each.is_over}

    def _faults(self) -> list[str]:
        return faults_of(self.board.objects(), self.results())

    def _carry_out(self, at: int) -> None:
        try:
            self.late.pop(at)()
        except BlackboardError:
            return

    def _unknown_to_the_next(self) -> list[str]:
        candidate("next", "", self.board)
        return self._faults()


def histories(seeds: range) -> set[str]:
    ended: set[str] = set()
    with ordered():
        for seed in seeds:
            history = History(seed)
            assert not (found := history.run()), f"history {seed}: {found[0]}"
            for result in history.results().values():
                ended.add(result.kind.__name__ if isinstance(result, Failed) else type(result).__name__)
    return ended


def test_in_random_histories_no_acknowledged_mutation_is_lost() -> None:
    assert histories(range(60)) >= {"int", "SupersededError"}


@pytest.mark.slow
def test_nor_in_many_more() -> None:
    assert histories(range(1000, 1800)) == {"int", "SupersededError", "str", "UnavailableError"}
