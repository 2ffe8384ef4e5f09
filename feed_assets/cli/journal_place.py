"""Where a receiver's journal is, unless its command is told another place. Not here: the journal (`journal`)."""

from __future__ import annotations

from pathlib import Path

from feed_assets.blackboard.location import local_directory

BLACKBOARD = "blackboard"
JOURNAL = ".receiving"
"""Below a local base. No name of a feed begins with a dot."""
VARIABLES = "FEED_ASSETS_RECEIVE"
"""The variables of the receiver's options begin with it."""


def default_journal(base: str) -> Path:
    """The directory of the journal that nobody named."""
    return (local_directory(base) or Path.cwd()).absolute() / JOURNAL
