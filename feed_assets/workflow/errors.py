"""Errors of workflows, for users. Not here: refusals of calls (`calls`)."""

from __future__ import annotations

from feed_assets.errors import FeedAssetsError


class WorkflowError(FeedAssetsError):
    """A workflow cannot be used as it was asked; the message says what, where and what to do."""


class StageError(WorkflowError):
    """A stage asks for something that cannot be."""
