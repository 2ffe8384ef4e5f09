"""What can go wrong with a delivery: errors that a user can mend, below FeedAssetsError."""

from __future__ import annotations

from typing import Self

from feed_assets.errors import BAD_ARGUMENT, FeedAssetsError


class DeliveryError(FeedAssetsError):
    """Something of a delivery failed; the message says what, where and what to do."""


class DestinationError(DeliveryError, ValueError):
    """The description of a destination is wrong; a line for each problem, with its place."""

    exit_code = BAD_ARGUMENT


class BadRowsError(DeliveryError):
    """Rows of the update cannot be delivered. Nothing was sent."""


class LedgerError(DeliveryError):
    """The ledger of a destination is damaged, or was written by a newer program."""


class StreamError(DeliveryError):
    """A stream cannot be used: sending again would not help. The message names the stream, permission or key."""


class StreamBusyError(DeliveryError):
    """Another delivery to the stream is under way. Nothing was sent."""


class StoreUnusableError(DeliveryError):
    """A key-value store cannot be used."""


class SpaceTakenError(StoreUnusableError):
    """The space of a store belongs to another destination."""

    @classmethod
    def of(cls, store: str, space: str, owner: str) -> Self:
        """The error about a space that `owner` has."""
        return cls(
            f"{store}: the space {space!r} belongs to {owner!r}, and versions of two destinations do not compare: "
            "choose another space."
        )


class AbandonedError(DeliveryError):
    """The edition was abandoned while it was sent: another one takes its place."""


class RecordsLostError(DeliveryError):
    """The stream has dropped records that the consumer has not read.

    `is_gone`: the whole shard is. Else a reader from the oldest record finds what is left.
    """

    def __init__(self, message: str, *, is_gone: bool = False) -> None:
        super().__init__(message)
        self.is_gone = is_gone


class PoisonedError(DeliveryError):
    """The function of a destination fails for a record. The message names the record by its id, and has no data."""


class NotDeliveredError(DeliveryError):
    """Rows were not acknowledged in time. The delivery stays open, and is resumed."""
