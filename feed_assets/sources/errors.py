"""What can go wrong with a partner's log or its description, as errors a user can act on.

Here: the errors that several modules of this room raise. Not here: those of one module.
"""

from __future__ import annotations


class SourceError(Exception):
    """A source, or what was sent for it, cannot be used; the message says what, where, what to do."""


class LandingError(SourceError):
    """What a partner sent cannot be landed, and nothing of it was."""


class RawFilesGoneError(SourceError):
    """Raw files that a landing put there are gone, and with them records that nothing else holds."""
