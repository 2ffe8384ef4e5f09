"""The errors of the protocol. Storage that fails raises `blackboard.BlackboardError`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from feed_assets.errors import BAD_ARGUMENT, NO_VALID_UPDATE, FeedAssetsError

if TYPE_CHECKING:
    from feed_assets.file_feed.feed import Update


class FeedError(FeedAssetsError):
    """A feed cannot do what was requested. The message says what, where and what to do."""


class BadNameError(FeedError, ValueError):
    """The name is not legal for an update, version, partition, tag or file."""

    exit_code = BAD_ARGUMENT


class NoValidUpdateError(FeedError):
    """A partition has no valid update to read."""

    exit_code = NO_VALID_UPDATE


class MixedFeedError(FeedError):
    """A feed holds updates and partitions at one level, so it is unclear which it should hold."""

    exit_code = BAD_ARGUMENT


class ClaimLostError(FeedError):
    """The claim on an update is lost: its writer took too long, and retention gave it up."""


class NotPublishedError(FeedError):
    """The state of an update does not allow it to become, or to stay, published."""


class StartTakenError(NotPublishedError):
    """Another update of the same start is published (`update`), or was, and is not in force (None)."""

    def __init__(self, message: str, update: Update | None) -> None:
        super().__init__(message)
        self.update = update


class TornUpdateError(FeedError):
    """The files in storage are not the files that were written."""


class UpdateChangedError(FeedError):
    """The updates changed under a reader at each of its attempts."""


class UnreadableRecordError(FeedError):
    """A record in the control area is damaged, or has a format newer than this version knows."""


class SchemaChangeError(FeedError):
    """A new schema breaks what readers of this feed version rely on."""
