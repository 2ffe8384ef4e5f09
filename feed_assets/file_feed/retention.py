"""Planning which old updates may be removed.

Here: the policy, and the plan. Not here: removing updates (`removal`), and what holds them (`holds`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from feed_assets.file_feed.contents import Contents, contents
from feed_assets.file_feed.errors import FeedError, MixedFeedError
from feed_assets.file_feed.feed import CONTROL, Feed
from feed_assets.file_feed.holds import held_updates, own_control_found
from feed_assets.file_feed.manifest import is_removal, replaced_by
from feed_assets.file_feed.names import begun
from feed_assets.file_feed.reading import Found, is_valid, not_one_level
from feed_assets.file_feed.recovery import recover
from feed_assets.file_feed.states import manifest_content
from feed_assets.file_feed.wording import counted


@dataclass(frozen=True, slots=True)
class Policy:
    """The updates to keep in each partition: the newest `keep` valid ones, and those younger than `younger_than`.

    An update that is not valid may be in the making: it is kept for at least `longest_write` from its claim on, which
    includes the time in which its writer resolves and computes.
    """

    keep: int
    younger_than: timedelta
    longest_write: timedelta

    def __post_init__(self) -> None:
        if self.keep < 1 or self.younger_than < timedelta(0) or self.longest_write < timedelta(0):
            raise ValueError(f"{self}: keep at least 1 update, and let no time be negative.")


@dataclass(frozen=True, slots=True)
class Removal:
    """An update that may be removed, and why. `tag` is the tag of its manifest at the time of the plan, or None."""

    partition: str | None
    update: str
    reason: str
    files: int
    bytes: int
    valid: bool
    tag: str | None


def plan(
    feed: Feed, policy: Policy, *, now: datetime, within: str | None = None, recovering: bool = False
) -> tuple[Removal, ...]:
    """The updates that may be removed: never the latest valid one of a partition, nor a held one.

    Changes nothing, unless `recovering`: then it first restores the updates of interrupted removals (see `recovery`),
    and lists the partitions of these updates again. Use it before `carry_out`.

    One pass over the listings of the feed, or of the partition `within` (see `contents`). Raises MixedFeedError, and
    FeedError if a tag is damaged, or if a partition has a control area of its own, whose holds are not seen.
    """
    held = held_updates(feed, None if within is None else {within}, now=now)
    listings = _recovered(feed, within) if recovering else _listed(feed, within)
    free = (each for each in _removable(feed, listings, policy, now) if (each.partition, each.update) not in held)
    return tuple(sorted(free, key=lambda removal: (removal.partition or "", removal.update)))


def _recovered(feed: Feed, within: str | None) -> Iterator[Contents]:
    """The partitions after interrupted removals were undone."""
    for listed in _listed(feed, within):
        if not recover(feed, listed.partition, listed.updates.values()):
            yield listed
        else:
            again = contents(feed, within=listed.partition, mixed=True)
            yield from (each for each in again if each.partition == listed.partition)


def _listed(feed: Feed, within: str | None) -> Iterator[Contents]:
    """As `contents`. A removed claim whose manifest is left does not count as an update at its level."""
    partitioned = False
    for listed in contents(feed, within=within, mixed=True):
        if listed.partition is not None:
            partitioned = partitioned or _holds_updates(feed, listed)
        elif partitioned and _holds_updates(feed, listed):
            raise MixedFeedError(not_one_level(feed, mixed=True))
        yield listed


def _holds_updates(feed: Feed, listed: Contents) -> bool:
    return not all(_is_left_over(feed, found) for found in listed.updates.values())


def _is_left_over(feed: Feed, found: Found) -> bool:
    """Whether this is only the manifest of a removal that never gives back an update."""
    if found.paths:
        return False
    content = manifest_content(feed, found)
    return is_removal(content) and replaced_by(content) is None


def _removable(feed: Feed, listings: Iterable[Contents], policy: Policy, now: datetime) -> Iterator[Removal]:
    for listed in listings:
        if listed.partition is not None and listed.updates and CONTROL in listed.odd:
            raise FeedError(own_control_found(feed, listed.partition))
        yield from _outdated(feed, listed, policy, now)
        yield from _never_written(listed, policy, now)


def _never_written(listed: Contents, policy: Policy, now: datetime) -> Iterator[Removal]:
    for name in {*listed.claims, *listed.records}.difference(listed.updates):
        if _age(name, now) > max(policy.younger_than, policy.longest_write):
            yield Removal(listed.partition, name, "was claimed and never written", 0, 0, valid=False, tag=None)


def _outdated(feed: Feed, listed: Contents, policy: Policy, now: datetime) -> Iterator[Removal]:
    valid = {name for name, found in listed.updates.items() if is_valid(feed, found)}
    kept = set(sorted(valid)[-policy.keep :])
    for name, found in listed.updates.items():
        age = policy.younger_than if name in valid else max(policy.younger_than, policy.longest_write)
        if name in kept or _age(name, now) <= age:
            continue
        newer = sum(other > name for other in valid)
        reason = f"outdated by {counted(newer, 'valid update')}" if name in valid else "is not valid"
        size = sum(file.size for file in found.files)
        tag = found.manifest.tag if found.manifest else None
        yield Removal(listed.partition, name, reason, len(found.files), size, name in valid, tag)


def _age(name: str, now: datetime) -> timedelta:
    return now - begun(name)
