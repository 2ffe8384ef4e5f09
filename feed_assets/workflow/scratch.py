"""Names of the files that workers and people make for tasks: no two are alike. Not here: the journal's (`places`)."""

from __future__ import annotations

from uuid import uuid4

from feed_assets.blackboard.keys import check_key
from feed_assets.workflow.places import FOLDER


def scratch_of(workflow: str) -> str:
    """The prefix of the files that workers write."""
    return f"{FOLDER}{workflow}/scratch/"


def new_input(workflow: str, file: str) -> str:
    """The key of a file that somebody inserts. Raises InvalidKeyError for a name that cannot be one."""
    return check_key(f"{FOLDER}{workflow}/input/{uuid4().hex}/{file}")
