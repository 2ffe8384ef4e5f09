"""What can go wrong with a workflow: errors that a user can mend, below FeedAssetsError.

Not here: refusals of single calls, which the service answers.
"""

from __future__ import annotations

from feed_assets.errors import BAD_ARGUMENT, FeedAssetsError


class WorkflowError(FeedAssetsError):
    """The workflow cannot be used; the message says what, where and what to do."""


class WorkflowNameError(WorkflowError, ValueError):
    """The name cannot be the name of a workflow."""

    exit_code = BAD_ARGUMENT


class NoWorkflowError(WorkflowError):
    """There is no workflow of this name."""


class SupersededError(WorkflowError):
    """A later master reigns, or is about to. This process must end, or become a candidate again."""


class JournalDamagedError(WorkflowError):
    """The journal or a snapshot has lost bytes that it needs; the message names what to restore."""


class StoreSilentError(WorkflowError):
    """The store has decided nothing for a minute. Whether the last bytes are stored is unknown."""


class StoppedError(WorkflowError):
    """The candidate was asked to stop before it reigned."""


class UnfitStoreError(WorkflowError):
    """The store does not decide which of several writers has created an object, so it can hold no journal."""


class UnreachableError(WorkflowError):
    """No master of the workflow answers; the message says since when, and what was last heard."""


class StageError(WorkflowError):
    """A stage asks for something that cannot be."""
