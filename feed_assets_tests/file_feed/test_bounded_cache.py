from __future__ import annotations

from feed_assets.file_feed.bounded_cache import BoundedCache


def test_a_cache_never_holds_more_values_than_its_limit():
    cache = BoundedCache(3)

    sizes = []
    for number in range(10):
        cache[number] = str(number)
        sizes.append(len(cache))

    assert max(sizes) == 3
    assert cache[9] == "9"
