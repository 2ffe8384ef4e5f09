"""The declaration of a feed, as a value. Not here: storage, and Dagster's metadata (`feed_events.declarations`)."""

from __future__ import annotations

from dataclasses import dataclass

from feed_assets.blackboard.port import Blackboard
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.record import Column

Place = tuple[str, str | None]
"""The location of a feed, and one of its partitions; None for a feed without partitions."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The columns by which reports compare two updates of a feed.

    `sums` are added up, over all rows and for each value of `by`. Each ratio is a name, and the two of the sums whose
    quotient it is: `("CTR", "clicks", "impressions")`. A ratio of at most 1 is shown in percent.
    """

    by: str
    sums: tuple[str, ...]
    ratios: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class FeedDeclaration:
    """A feed: its location and its schema.

    `location` is `<name>/<version>` below the base. `identity` names the columns that are unique in a partition. The
    checks of an `audited` feed publish its updates. `table` is the table of the warehouse that has its rows; "": none.
    Reports on late data compare updates by `figures`; if it is None, by their numbers of rows.
    """

    location: str
    columns: tuple[Column, ...]
    identity: tuple[str, ...] = ()
    audited: bool = False
    table: str = ""
    figures: Figures | None = None

    def on(self, blackboard: Blackboard) -> Feed:
        """The feed on this blackboard."""
        return Feed(blackboard, self.location)
