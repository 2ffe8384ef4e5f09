"""Whether a store can hold a journal: it must decide which of several writers has created an object.

Here: asking it, before a master serves. Not here: all that feeds need of a store (`blackboard.probing`, `feed-assets
doctor`).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final
from uuid import uuid4

from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, UnavailableError
from feed_assets.workflow.errors import UnfitStoreError

WRITERS: Final = 4
RACES: Final = 3
_TRIES: Final = 10


def check_store(board: Blackboard) -> None:
    """Let some writers create one object at the same moment, some times. Costs 20 requests; leaves nothing behind.

    Raises UnfitStoreError if not exactly one of them is told that it has; UnavailableError if nothing can be said.
    """
    folder = f".probe/{uuid4().hex}/"
    keys = [f"{folder}{number}" for number in range(_TRIES)]
    decided = 0
    silent: UnavailableError | None = None
    try:
        with ThreadPoolExecutor(WRITERS) as pool:
            for key in keys:

                def create(writer: int, key: str = key) -> bool | UnavailableError:
                    try:
                        board.create(key, f"{writer}".encode())
                    except AlreadyExistsError:
                        return False
                    except UnavailableError as error:
                        return error
                    return True

                answers = list(pool.map(create, range(WRITERS)))
                created = answers.count(True)
                if created > 1 or answers == [False] * WRITERS or (created and create(WRITERS) is True):
                    raise UnfitStoreError(
                        f"{board.uri('')} told {max(2, created)} writers of one object that they have "
                        "created it. Two masters would both believe to reign there, and lose each other's tasks: use a "
                        "store that honours `If-None-Match: *` on PUT. `feed-assets doctor` shows what it honours."
                    )
                errors = [each for each in answers if isinstance(each, UnavailableError)]
                silent, decided = (errors[0], decided) if errors else (silent, decided + 1)
                if decided == RACES:
                    return
    finally:
        with suppress(UnavailableError):  # what stays is no part of anything
            board.delete(*keys)
    if silent is not None:
        raise silent
