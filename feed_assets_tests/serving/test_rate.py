"""A name that has spent more than a second's worth waits until it owes nothing."""

from __future__ import annotations

from types import SimpleNamespace

from feed_assets.serving.rate import Rate


def test_a_name_that_has_waited_for_as_long_as_it_was_told_may_spend_again_and_others_never_wait():
    clock = SimpleNamespace(now=0.0)
    rate = Rate(10, lambda: clock.now)
    assert rate.wait("a") is None
    rate.spend("a", 35)
    assert (rate.wait("a"), rate.wait("b")) == (2.5, None)

    clock.now += 2.4
    assert rate.wait("a") is not None
    clock.now += 0.2
    assert rate.wait("a") is None


def test_what_is_not_spent_adds_up_to_one_second_and_without_a_rate_nobody_waits():
    clock = SimpleNamespace(now=0.0)
    rate, free = Rate(10, lambda: clock.now), Rate(0)
    rate.spend("a", 1)
    clock.now += 3600
    rate.spend("a", 10)
    free.spend("a", 10**9)

    assert (rate.wait("a"), free.wait("a")) == (0.0, None)
