"""The order in which a page shows the groups of a workflow: columns, from the first stages to the last.

Not here: what a group has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def columns(groups: Sequence[str], feeds: Iterable[tuple[str, str]]) -> list[list[str]]:
    """The groups by column. A group stands behind all that feed it, except for those that it feeds again itself.

    >>> columns(["publish", "split", "total"], [("split", "total"), ("total", "publish"), ("publish", "total")])
    [['split'], ['total'], ['publish']]
    """
    after: dict[str, list[str]] = {each: [] for each in groups}
    for source, target in sorted(set(feeds)):
        if source != target and source in after and target in after:
            after[source].append(target)
    fed = {target for targets in after.values() for target in targets}
    order, back = _finished([*(each for each in groups if each not in fed), *groups], after)
    depths = dict.fromkeys(groups, 0)
    for source in reversed(order):
        for target in after[source]:
            if (source, target) not in back:
                depths[target] = max(depths[target], depths[source] + 1)
    return [[each for each in groups if depths[each] == depth] for depth in range(max(depths.values(), default=-1) + 1)]


def _finished(roots: Iterable[str], after: dict[str, list[str]]) -> tuple[list[str], set[tuple[str, str]]]:
    """The groups as a search in depth leaves them, and the feeds that close a circle."""
    order: list[str] = []
    back: set[tuple[str, str]] = set()
    entered: set[str] = set()
    for root in roots:
        if root in entered:
            continue
        entered.add(root)
        path = [(root, iter(after[root]))]
        while path:
            here, left = path[-1]
            there = next(left, None)
            if there is None:
                order.append(here)
                path.pop()
            elif there not in entered:
                entered.add(there)
                path.append((there, iter(after[there])))
            elif any(there == each for each, _ in path):
                back.add((here, there))
    return order, back
