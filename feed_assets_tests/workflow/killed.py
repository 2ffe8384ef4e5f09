"""A master that kills itself at one of its requests, in a process of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import count
from multiprocessing.connection import Connection
from typing import Any

from feed_assets.workflow.places import open_board, open_workflow
from feed_assets.workflow.reigns import take_over
from feed_assets.workflow.snapshots import snapshot_once, truncate
from feed_assets_tests.workflow.states import Mutations

DONE = b"done"


def serve(base: str, kill_at: int, answers: Connection) -> None:
    """Reign, and send each mutation that is durable. Killed before request `kill_at`; if negative, after it."""
    board = open_board(base)
    asked = count(1)

    def counting(perform: Callable[..., Any]) -> Callable[..., Any]:
        def request(*arguments: Any, **options: Any) -> Any:
            number = next(asked)
            if number == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = perform(*arguments, **options)
            if number == -kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return request

    for name in ("page", "read", "create", "upload", "delete"):
        setattr(board, name, counting(getattr(board, name)))
    place = open_workflow(board, "revenue")
    reign, state = take_over(place, Mutations, address="", start_heart=lambda _: None)
    for number in range(6):
        mutation = b"%d" % number
        reign.append(state.position + 1, [mutation])
        state.replay(mutation)
        answers.send_bytes(mutation)
        if number % 2 and (made := snapshot_once(place, Mutations)):
            truncate(place, made, epoch=reign.epoch)
    answers.send_bytes(DONE)
