"""Which old updates may be removed, and which never.

Here: the policy, and what it allows to remove. Not here: taking updates away (`removal`), and what holds them
(`holds`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from feed_assets.file_feed.contents import Contents, contents
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.feed import CONTROL, Feed
from feed_assets.file_feed.holds import held_updates, own_control_found
from feed_assets.file_feed.names import begun
from feed_assets.file_feed.reading import is_valid
from feed_assets.file_feed.wording import counted


@dataclass(frozen=True, slots=True)
class Policy:
    """What is kept of each partition: the newest `keep` valid updates, and those begun less than `younger_than` ago.

    What is not valid may still be in the making, and is kept for `longest_write` at least: from its claim on, so the
    time in which its writer resolves and computes counts, too.
    """

    keep: int
    younger_than: timedelta
    longest_write: timedelta

    def __post_init__(self) -> None:
        if self.keep < 1 or self.younger_than < timedelta(0) or self.longest_write < timedelta(0):
            raise ValueError(f"{self}: keep at least 1 update, and let no time be negative.")


@dataclass(frozen=True, slots=True)
class Removal:
    """An update that may go, and why. `tag` is that of its manifest when this was planned, None if it had none."""

    partition: str | None
    update: str
    reason: str
    files: int
    bytes: int
    valid: bool
    tag: str | None


def plan(feed: Feed, policy: Policy, *, now: datetime, within: str | None = None) -> tuple[Removal, ...]:
    """What may be removed; nothing is changed. Never the latest valid update of a partition, nor one that is held.

    One pass over the listings of the feed, or of the one partition `within`, a partition at a time (see `contents`).
    Raises MixedFeedError, and FeedError where a tag is damaged, or a partition has a control area of its own: what is
    held there would not be seen.
    """
    held = held_updates(feed, None if within is None else {within}, now=now)
    free = (each for each in _removable(feed, policy, now, within) if (each.partition, each.update) not in held)
    return tuple(sorted(free, key=lambda removal: (removal.partition or "", removal.update)))


def _removable(feed: Feed, policy: Policy, now: datetime, within: str | None) -> Iterator[Removal]:
    for there in contents(feed, within=within):
        if there.partition is not None and there.updates and CONTROL in there.odd:
            raise FeedError(own_control_found(feed, there.partition))
        yield from _outdated(feed, there, policy, now)
        yield from _never_written(there, policy, now)


def _never_written(there: Contents, policy: Policy, now: datetime) -> Iterator[Removal]:
    for name in {*there.claims, *there.records}.difference(there.updates):
        if _age(name, now) > max(policy.younger_than, policy.longest_write):
            yield Removal(there.partition, name, "was claimed and never written", 0, 0, valid=False, tag=None)


def _outdated(feed: Feed, there: Contents, policy: Policy, now: datetime) -> Iterator[Removal]:
    valid = {name for name, found in there.updates.items() if is_valid(feed, found)}
    kept = set(sorted(valid)[-policy.keep :])
    for name, found in there.updates.items():
        age = policy.younger_than if name in valid else max(policy.younger_than, policy.longest_write)
        if name in kept or _age(name, now) <= age:
            continue
        newer = sum(other > name for other in valid)
        reason = f"outdated by {counted(newer, 'valid update')}" if name in valid else "is not valid"
        size = sum(file.size for file in found.files)
        tag = found.manifest.tag if found.manifest else None
        yield Removal(there.partition, name, reason, len(found.files), size, name in valid, tag)


def _age(name: str, now: datetime) -> timedelta:
    return now - begun(name)
