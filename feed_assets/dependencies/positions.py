"""Sets of positions as sorted, disjoint, half-open ranges: `((0, 10), (12, 20))`. Not here: what positions mean."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

Ranges = tuple[tuple[int, int], ...]


def joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The union of ranges in any order.

    >>> joined([(12, 20), (0, 10), (5, 11), (11, 12)])
    ((0, 20),)
    """
    found: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if found and begin <= found[-1][1]:
            if end > found[-1][1]:
                found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return tuple(found)


def added(ranges: Ranges, more: Iterable[tuple[int, int]]) -> Ranges:
    """The union of a set and some more ranges; quick where these go on at the end."""
    for begin, end in more:
        if ranges and ranges[-1][1] == begin:
            ranges = (*ranges[:-1], (ranges[-1][0], end))
        elif not ranges or ranges[-1][1] < begin:
            ranges = (*ranges, (begin, end))
        else:
            ranges = joined((*ranges, (begin, end)))
    return ranges


def without(ranges: Ranges, other: Ranges) -> Ranges:
    """The positions of a set that another one does not have.

    >>> without(((0, 10),), ((2, 3), (5, 20)))
    ((0, 2), (3, 5))
    """
    found = []
    for begin, end in ranges:
        at = begin
        first = max(bisect_left(other, (begin, begin)) - 1, 0)
        for low, high in other[first:]:
            if high <= at:
                continue
            if low >= end:
                break
            if low > at:
                found.append((at, low))
            at = max(at, high)
        if at < end:
            found.append((at, end))
    return tuple(found)


def size(ranges: Iterable[tuple[int, int]]) -> int:
    """How many positions a set has."""
    return sum(end - begin for begin, end in ranges)
