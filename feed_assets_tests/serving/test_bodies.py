"""A body is unpacked as it comes, within its limits. Not here: over HTTP (`receiving.test_bodies`)."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest

from feed_assets.serving.bodies import Body, BodyError, BodyLimits, TooLargeError

LIMITS = BodyLimits(sent_bytes=2**24, unpacked_bytes=2**26, seconds=30)


def taken(content, limits, step=1000):
    body = Body(limits, packed=True)
    for start in range(0, len(content), step):
        body.take(content[start : start + step])
    return body.whole()


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_gzip_is_unpacked_as_it_comes_also_in_several_members(step):
    assert taken(gzip.compress(b"a" * 100) + gzip.compress(b"b" * 100), LIMITS, step) == b"a" * 100 + b"b" * 100


def test_a_bomb_is_refused_before_it_is_unpacked_and_a_cut_or_other_body_is_named():
    bomb = gzip.compress(b"\0" * 50_000_000)
    limits = BodyLimits(2**24, 10_000, 30)
    body = Body(limits, packed=True)

    with pytest.raises(TooLargeError, match="10,000"):
        body.take(bomb)
    assert len(body._unpacked) == 10_001
    with pytest.raises(BodyError, match="cut off"):
        taken(gzip.compress(b"abc")[:-1], limits)
    with pytest.raises(BodyError, match="The body is not gzip"):
        taken(b"abc", limits)
    with pytest.raises(BodyError, match="What follows the gzip in the body is not gzip"):
        taken(gzip.compress(b"abc") + b"abc", limits)


def test_a_body_that_comes_byte_by_byte_takes_no_more_memory_than_its_bytes():
    body = Body(LIMITS, packed=False)
    tracemalloc.start()
    try:
        for _ in range(100_000):
            body.take(bytes([1]))
        assert tracemalloc.get_traced_memory()[1] < 300_000
    finally:
        tracemalloc.stop()
