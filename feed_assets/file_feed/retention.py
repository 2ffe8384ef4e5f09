"""Which old updates may be removed, and which never.

Here: the policy, and what it allows to remove. Not here: taking updates away (`removal`), and what holds them
(`holds`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from feed_assets.blackboard import list_all
from feed_assets.file_feed.control import CLAIMS, RECORDS
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.holds import held_updates, own_control_found
from feed_assets.file_feed.names import begun, is_update_name
from feed_assets.file_feed.reading import is_valid
from feed_assets.file_feed.scanning import Scanned, scan
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
            message = f"{self}: keep at least 1 update, and let no time be negative."
            raise ValueError(message)


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

    Reads the listing of the feed and of its control area, or of the one partition `within`. Raises MixedFeedError, and
    FeedError where a tag is damaged, or a partition has a control area of its own: what is held there would not be
    seen.
    """
    held = held_updates(feed, None if within is None else {within}, now=now)
    controlled = _controlled(feed, within)
    removals: list[Removal] = []
    for scanned in scan(feed, first=within or "", last=within):
        if scanned.has_own_control:
            raise FeedError(own_control_found(feed, scanned.partition))
        controlled -= {(scanned.partition or None, name) for name in scanned.updates}
        removals += _outdated(feed, scanned, policy, now)
    removals += [
        Removal(partition, name, "was claimed and never written", 0, 0, valid=False, tag=None)
        for partition, name in controlled
        if _age(name, now) > max(policy.younger_than, policy.longest_write)
    ]
    free = (removal for removal in removals if (removal.partition, removal.update) not in held)
    return tuple(sorted(free, key=lambda removal: (removal.partition or "", removal.update)))


def _outdated(feed: Feed, scanned: Scanned, policy: Policy, now: datetime) -> Iterator[Removal]:
    valid = {name for name, found in scanned.updates.items() if is_valid(feed, found)}
    kept = set(sorted(valid)[-policy.keep :])
    for name, found in scanned.updates.items():
        age = policy.younger_than if name in valid else max(policy.younger_than, policy.longest_write)
        if name in kept or _age(name, now) <= age:
            continue
        newer = sum(other > name for other in valid)
        reason = f"outdated by {counted(newer, 'valid update')}" if name in valid else "is not valid"
        size = sum(file.size for file in found.files)
        tag = found.manifest.tag if found.manifest else None
        yield Removal(scanned.partition or None, name, reason, len(found.files), size, name in valid, tag)


def _controlled(feed: Feed, within: str | None) -> set[tuple[str | None, str]]:
    """The updates that the control area knows by a claim or a record."""
    known = set()
    for area in (CLAIMS, RECORDS):
        folder = feed.control(area)
        for entry in list_all(feed.blackboard, feed.control(area, within)):
            partition, _, rest = entry.key.removeprefix(folder).rpartition("/")
            name = ".".join(rest.split(".")[:2])
            if is_update_name(name):
                known.add((partition or None, name))
    return known


def _age(name: str, now: datetime) -> timedelta:
    return now - begun(name)
