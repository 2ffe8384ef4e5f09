"""Which partitions of a destination are delivered, and which are due. Not here: delivering them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Literal

from feed_assets.delivery.ledger import Begun, Edition, Ended
from feed_assets.file_feed.names import begun as begun_at
from feed_assets.file_feed.scanning import latest_of_all

if TYPE_CHECKING:
    from feed_assets.delivery.delivering import Deliverer

State = Literal["delivered", "open", "behind", "new", "earlier", "to be removed"]


@dataclass(frozen=True, slots=True)
class Standing:
    """A partition at a destination: the update in force, the last edition, and how that one ended; each may be None.

    `is_wanted` is False for a partition that was never delivered, and is older than the destination wants.
    """

    partition: str | None
    in_force: str | None
    begun: Begun | None
    ended: Ended | None
    is_wanted: bool = True
    edition: Edition | None = None
    """The last edition, as the ledger lists it."""

    @property
    def state(self) -> State:
        """Whether there is something to deliver. `open`: an edition has begun and not ended."""
        if self.begun is None:
            return "new" if self.is_wanted else "earlier"
        if self.ended is None:
            return "open"
        if self.ended.outcome == "delivered" and self.begun.update == self.in_force:
            return "delivered"
        return "behind" if self.in_force else "to be removed"

    @property
    def is_due(self) -> bool:
        """Whether there is something to deliver."""
        return self.state not in {"delivered", "earlier"}


def standings(deliverer: Deliverer, *, now: datetime) -> Sequence[Standing]:
    """Every partition that is in force or was delivered, oldest first.

    Listings of feed and ledger, and two GETs a partition that are remembered. Raises LedgerError.
    """
    editions = deliverer.ledger.editions()
    in_force = {partition or None: update.name for partition, update in latest_of_all(deliverer.feed, now=now).items()}
    found = []
    for partition in sorted({*editions, *in_force}, key=lambda each: each or ""):
        last = editions[partition][-1] if partition in editions else None
        begun = deliverer.ledger.began(last) if last else None
        ended = deliverer.ledger.ended(last) if last and last.has_ended else None
        wanted = _is_wanted(deliverer, partition, in_force.get(partition))
        found.append(Standing(partition, in_force.get(partition), begun, ended, wanted, last))
    return found


def _is_wanted(deliverer: Deliverer, partition: str | None, update: str | None) -> bool:
    """Whether a partition that was never delivered belongs to the destination."""
    since = deliverer.to.since
    if isinstance(since, date):
        return partition is None or partition >= since.isoformat()
    if since == "now" and update is not None:
        return begun_at(update) >= (deliverer.ledger.first_seen(deliverer.now()) or datetime.min.replace(tzinfo=UTC))
    return True
