"""Where the objects of a workflow are, below `<base>/.workflow/<name>/`. Not here: what they hold."""

from __future__ import annotations

import re
from typing import Final
from uuid import uuid4

from feed_assets.blackboard.keys import check_key
from feed_assets.workflow.errors import WorkflowError

ROOT: Final = ".workflow/"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)


def check_name(name: str) -> str:
    """Return the name of a workflow. Raises WorkflowError if it cannot be one."""
    if not _NAME.fullmatch(name):
        raise WorkflowError(
            f"{name!r} is no name of a workflow: use up to 63 lower-case letters, digits, - and _, such as revenue."
        )
    return name


def root_of(name: str) -> str:
    """The prefix of a workflow's objects."""
    return f"{ROOT}{check_name(name)}/"


def new_input(name: str, file: str) -> str:
    """The key of a file that somebody inserts, unlike any other. Raises InvalidKeyError for a name that cannot be."""
    return check_key(f"{root_of(name)}input/{uuid4().hex}/{file}")


def scratch_of(name: str) -> str:
    """The prefix of the files that its workers write."""
    return f"{root_of(name)}scratch/"
