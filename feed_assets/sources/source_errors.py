"""Errors that several modules of this room raise. Not here: those of one module."""

from __future__ import annotations

from feed_assets.errors import FeedAssetsError


class SourceError(FeedAssetsError):
    """A source, or a file sent for it, cannot be used; the message says what, where, what to do."""


class LandingError(SourceError):
    """A partner's file cannot be landed; none of its records landed."""


class PassingError(LandingError):
    """A partner's file cannot be landed now, for a reason that may pass: it changes, or a disk does not read it."""


class OvertakenError(LandingError):
    """Another content of this name landed meanwhile, which may be newer. `generation` is its landing's."""

    def __init__(self, message: str, generation: int) -> None:
        super().__init__(message)
        self.generation = generation


class RawFilesGoneError(SourceError):
    """Raw files of a landing are gone, and nothing else holds their records."""
