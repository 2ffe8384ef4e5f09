"""A process that ends again and again starts ever later, and at once after it has worked."""

from __future__ import annotations

from feed_assets.processes.restarts import Restarts


def test_pauses_double_up_to_the_longest_and_begin_anew_after_work() -> None:
    now = [0.0]
    restarts = Restarts(1.0, 60.0, clock=lambda: now[0])
    assert restarts.is_due

    pauses = []
    for _ in range(9):
        restarts.ended()
        began = now[0]
        while not restarts.is_due:
            now[0] += 0.5
        pauses.append(now[0] - began)
    restarts.worked()
    restarts.ended()

    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    now[0] += 1
    assert restarts.is_due


def test_a_process_that_fails_for_days_starts_again_after_the_longest_pause() -> None:
    now = [0.0]
    restarts = Restarts(1.0, 60.0, clock=lambda: now[0])

    for _ in range(2000):
        restarts.ended()

    now[0] = 60.0
    assert restarts.is_due
