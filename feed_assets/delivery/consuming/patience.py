"""Waiting for a store, a stream, a ledger or a database that does not answer now. Not here: what is done meanwhile."""

from __future__ import annotations

import itertools
import logging
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from feed_assets.blackboard.port import BlackboardError
from feed_assets.delivery.errors import PoisonedError, SpaceTakenError, StoreUnusableError
from feed_assets.delivery.streams.port import NotSentError
from feed_assets.state.address import StoreError

FIRST_PAUSE: Final = 0.5
MOST_PAUSE: Final = 30.0
QUESTIONS: Final = 8
"""How often a stream is asked by who has no patience."""
SAID_AGAIN: Final = 10
"""After so many pauses the reason is logged again."""
PASSING: Final = (StoreUnusableError, BlackboardError, StoreError, NotSentError, PoisonedError)
"""Errors that may pass by themselves, or by a repair, while the process waits."""

Answer = TypeVar("Answer")
_log = logging.getLogger(__name__)


class StoppedError(Exception):
    """The process is to end, and does not wait any longer."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Tries again, after pauses that grow, until `stop` is set.

    Without patience, the first error is raised, except that a stream is asked up to `QUESTIONS` times: it throttles.

    `waits` gets the reason when a wait begins, and "" when it is over.
    """

    what: str
    stop: threading.Event
    is_patient: bool = True
    first_pause: float = FIRST_PAUSE
    waits: Callable[[str], object] = lambda _: None

    def until_done(self, act: Callable[[], Answer], meanwhile: Callable[[], object] = lambda: None) -> Answer:
        """What `act` returns when it succeeds. `meanwhile` is called in each pause. Raises StoppedError."""
        reason = ""
        for number, pause in enumerate(_pauses(self.first_pause)):
            try:
                answer = act()
            except PASSING as error:
                if isinstance(error, SpaceTakenError) or not (self.is_patient or _may_be_throttled(error, number)):
                    raise
                if str(error) != reason or number % SAID_AGAIN == 0:
                    reason = str(error)
                    _log.error("%s waits: %s", self.what, reason)
                    self.waits(reason)
            else:
                if reason:
                    _log.warning("%s goes on.", self.what)
                    self.waits("")
                return answer
            meanwhile()
            if self.stop.wait(pause):
                raise StoppedError
        raise StoppedError  # never: the pauses have no end


def _may_be_throttled(error: Exception, number: int) -> bool:
    return isinstance(error, NotSentError) and number + 1 < QUESTIONS


def _pauses(first: float) -> Iterator[float]:
    for number in itertools.count():
        yield random.uniform(0.5, 1.0) * min(MOST_PAUSE, first * 2 ** min(number, 20))  # noqa: S311 - no secret
