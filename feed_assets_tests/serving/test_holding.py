"""The memory of all requests together is limited, and given back however a request ends."""

from __future__ import annotations

from contextlib import ExitStack, suppress

import pytest

from feed_assets.serving.holding import HeldBytes, TooMuchHeldError


def test_all_requests_together_hold_no_more_than_they_may_and_a_refused_one_holds_what_it_had_until_it_ends():
    held = HeldBytes(100)
    with ExitStack() as stack:
        first, second = (stack.enter_context(held.of_a_request()) for _ in range(2))
        first(60)
        second(40)
        with pytest.raises(TooMuchHeldError, match="send it again"):
            first(1)
        assert held.total == 100
    assert held.total == 0


def test_a_request_that_fails_gives_its_bytes_back():
    held = HeldBytes(100)
    with suppress(ValueError), held.of_a_request() as hold:
        hold(100)
        raise ValueError

    assert held.total == 0
