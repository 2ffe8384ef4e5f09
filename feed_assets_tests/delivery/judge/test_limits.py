"""The sliding second of a shard against a naive model that remembers everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from feed_assets_tests.delivery.judge.limits import SECOND, SlidingSecond

MOST_EVENTS, MOST_BYTES = 4, 100

gaps = st.sampled_from([0, 1, SECOND // 4, SECOND // 2, SECOND - 1, SECOND, SECOND + 1])
events = st.lists(st.tuples(gaps, st.integers(0, MOST_BYTES)), max_size=60)


@given(events)
def test_an_event_passes_exactly_if_it_and_those_of_the_last_second_are_within_both_limits(events):
    window, now, passed = SlidingSecond(), 0, []
    for gap, size in events:
        now += gap
        recent = [other for at, other in passed if at > now - SECOND]
        fits = len(recent) < MOST_EVENTS and sum(recent) + size <= MOST_BYTES
        assert window.admit(now, size, MOST_EVENTS, MOST_BYTES) == fits
        if fits:
            passed.append((now, size))


@given(st.lists(st.tuples(gaps, st.integers(0, 5 * MOST_BYTES)), max_size=60))
def test_events_larger_than_the_limit_pass_alone_and_keep_the_average(events):
    window, now, passed = SlidingSecond(), 0, []
    for gap, size in events:
        now += gap
        if window.admit(now, size, MOST_EVENTS, MOST_BYTES):
            passed.append((now, size))
    for first, (begin, _) in enumerate(passed):
        total = 0
        for at, size in passed[first:]:
            assert total <= MOST_BYTES * ((at - begin) / SECOND + 1)
            total += size
