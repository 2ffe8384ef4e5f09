"""A feed as it is declared.

Here: the declaration as a value. Not here: any access to storage, and Dagster's metadata (`io_manager.asset_metadata`).
"""

from __future__ import annotations

from dataclasses import dataclass

from feed_assets.blackboard import Blackboard
from feed_assets.file_feed import Column, Feed


@dataclass(frozen=True, slots=True)
class FeedDeclaration:
    """A feed: its location, its schema, and how its updates come into force.

    `location` is `<name>/<version>` below the base; `identity` the columns that are unique in a partition; an
    `audited` feed is published by its checks.
    """

    location: str
    columns: tuple[Column, ...]
    identity: tuple[str, ...] = ()
    audited: bool = False

    def on(self, blackboard: Blackboard) -> Feed:
        """The feed itself, on this blackboard."""
        return Feed(blackboard, self.location)
