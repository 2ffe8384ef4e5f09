"""The errors of data dependencies. Each message says what is wrong, where, and what to do."""

from __future__ import annotations

from feed_assets.errors import BAD_ARGUMENT, FeedAssetsError


class DependencyError(FeedAssetsError, ValueError):
    """A fact, a slot or a command that the dependency service cannot take. Nothing was changed."""


class UnknownDatasetError(DependencyError):
    """No dataset of this name is declared."""

    exit_code = BAD_ARGUMENT


class UnknownFlowError(DependencyError):
    """No flow, or no partition, of this name; the message lists what there is."""

    exit_code = BAD_ARGUMENT


class RefusedFactError(DependencyError):
    """A fact contradicts what is known, or cannot be true."""


class StateCopyError(DependencyError):
    """The copy of the state on the blackboard cannot be written, read or restored."""


class EventsGoneError(DependencyError):
    """The events after a cursor are deleted. `newest` is the number to go on from, after a look at the answers."""

    def __init__(self, message: str, newest: int) -> None:
        super().__init__(message)
        self.newest = newest


class TriggerError(FeedAssetsError):
    """A trigger that cannot be; the message says what to write instead."""
