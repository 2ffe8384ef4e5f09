"""Rates of shards, against a stream that counts each sliding second itself."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feed_assets.delivery.client.limiter import ShardRate, ShardRates
from feed_assets.delivery.streams.port import Limits

STEP = 0.01


def new(*, records: int = 1_000, size: int = 1_000_000, share: float = 1.0, fraction: float = 0.99) -> ShardRate:
    limits = Limits(records_a_second=records, bytes_a_second=size)
    return ShardRates(limits, share=share, fraction=fraction, burst=0.04).new(0.0)


def sent(rate: ShardRate, sizes: Iterable[int], delays: Iterable[float], seconds: float) -> list[tuple[float, int]]:
    """When what arrives at the stream: each request has a delay on its way, and its answer takes 5 ms."""
    arrived: list[tuple[float, int]] = []
    answers: list[tuple[float, float, int, int]] = []
    waiting, delay = iter(sizes), iter(delays)
    first = next(waiting)
    for step in range(int(seconds / STEP)):
        now = step * STEP
        for answer in [answer for answer in answers if answer[0] <= now]:
            answers.remove(answer)
            rate.answered(answer[1], answer[0], answer[2], answer[3])
        records, size = rate.room(now, first)
        taken = 0, 0
        arrival = now + 0.005 + next(delay)
        while taken[0] < records and taken[1] + first <= size:
            taken = taken[0] + 1, taken[1] + first
            arrived.append((arrival, first))
            first = next(waiting)
        if taken[0]:
            rate.take(*taken)
            answers.append((arrival + 0.005, now, *taken))
    return sorted(arrived)


def most_in_a_second(arrived: list[tuple[float, int]]) -> tuple[int, int]:
    """The most records and the most bytes that arrive in any second."""
    times = [at for at, _ in arrived]
    sums = [0, *accumulate(size for _, size in arrived)]
    ends = [bisect_left(times, at + 1.0) for at in times]
    return (
        max(end - start for start, end in enumerate(ends)),
        max(sums[end] - sums[start] for start, end in enumerate(ends)),
    )


def endless(values: list) -> Iterable:
    while True:
        yield from values


def test_a_busy_shard_gets_99_percent_of_its_records_and_never_more_than_the_limit_in_a_second():
    arrived = sent(new(), endless([200]), endless([0.0]), 30)
    assert len(arrived) == pytest.approx(30 * 990, rel=0.002)
    assert most_in_a_second(arrived)[0] <= 1_000


def test_a_busy_shard_gets_99_percent_of_its_bytes():
    arrived = sent(new(), endless([5_000]), endless([0.0]), 30)
    assert sum(size for _, size in arrived) == pytest.approx(30 * 990_000, rel=0.005)
    assert most_in_a_second(arrived)[1] <= 1_000_000


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 300_000) | st.integers(1, 2_000), min_size=1, max_size=30),
    st.lists(st.just(0.0) | st.floats(0.0, 0.3), min_size=1, max_size=50),
    st.sampled_from([1.0, 0.5, 0.1]),
)
def test_whatever_requests_wait_for_no_second_sees_more_than_the_share(sizes, delays, share):
    sizes = [min(size, int(1_000_000 * share)) for size in sizes]
    arrived = sent(new(share=share), endless(sizes), endless([*delays, 0.0]), 8)
    records, size = most_in_a_second(arrived)
    assert records <= 1_000 * share
    assert size <= 1_000_000 * share


def test_a_record_above_the_limit_of_a_second_leaves_alone():
    arrived = sent(new(), endless([1_048_576]), endless([0.0]), 30)
    assert 25 <= len(arrived) <= 30
    assert min(after - before for (before, _), (after, _) in pairwise(arrived)) >= 1.0


def test_an_idle_shard_takes_no_more_than_a_burst_at_once():
    rate = new()
    assert rate.room(3_600.0, 200)[0] == 1 + int(1_000 * 0.99 * 0.04)


def test_a_refusal_halves_the_rate_once_for_all_requests_under_way_and_it_rises_by_five_percent_a_second():
    def in_a_second(rate: ShardRate, start: float) -> int:
        return sum(taken(rate, start + step * STEP) for step in range(int(1 / STEP)))

    def taken(rate: ShardRate, now: float) -> int:
        records, _ = rate.room(now, 1)
        rate.take(records, records)
        rate.answered(now, now, records, records)
        return records

    rate = new()
    full = in_a_second(rate, 10.0)
    rate.throttled(10.99, 11.0)
    rate.throttled(10.98, 11.01)  # left before the rate was halved
    rate.throttled(11.5, 11.51)  # the stream still counts what left before
    assert in_a_second(rate, 11.51) == pytest.approx(full * 0.55, rel=0.05)
    rate.throttled(12.52, 12.53)
    assert in_a_second(rate, 12.53) == pytest.approx(full * 0.32, rel=0.1)
    for second in range(14, 40):
        last = in_a_second(rate, second + 0.02)
    assert last == pytest.approx(full, rel=0.02)
