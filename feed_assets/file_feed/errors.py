"""What can go wrong with a feed, each with a name of its own.

Here: the errors of the protocol. Not here: storage that fails (`blackboard.BlackboardError`).
"""


class FeedError(Exception):
    """A feed cannot do what was asked; the message says what, where and what to do."""


class BadNameError(FeedError, ValueError):
    """A name that no update, version, partition, tag or file of a feed can have."""


class NoValidUpdateError(FeedError):
    """A partition has no valid update to read."""


class MixedFeedError(FeedError):
    """A feed holds updates and partitions at one level, so it is not clear which it is."""


class ClaimLostError(FeedError):
    """The claim on an update is somebody else's by now: a writer that took too long was given up."""


class NotPublishedError(FeedError):
    """The state of an update does not allow that it becomes, or stays, published."""


class TornUpdateError(FeedError):
    """The files that are there are not those that were written."""


class UpdateChangedError(FeedError):
    """The updates moved under a reader each time it tried."""


class UnreadableRecordError(FeedError):
    """A record in the control area is damaged, or of a later format than is known here."""


class SchemaChangeError(FeedError):
    """A schema that readers of this version do not expect."""
