"""Where a workflow is: the names of its objects below `<base>/.workflow/<name>/`, and its token.

`workflow.json` has the token, and is created once. Numbers in names have 20 digits, as storage sorts names as text.
Not here: what the objects hold.
"""

from __future__ import annotations

import json
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from feed_assets.blackboard.location import impatient_s3_client, open_blackboard
from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, NotFoundError
from feed_assets.journal.numbered import NumberedEntries
from feed_assets.workflow.errors import JournalDamagedError, NoWorkflowError, WorkflowNameError

FOLDER: Final = ".workflow/"
DIGITS: Final = 20
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_TOKEN: Final = re.compile(r"[0-9a-f]{32}")
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Place:
    """A workflow's place on a blackboard. `token` identifies the workflow for ever."""

    board: Blackboard
    name: str
    token: str

    @property
    def prefix(self) -> str:
        """The prefix of all its keys."""
        return _prefix(self.name)

    @property
    def epochs(self) -> NumberedEntries:
        """An object for each epoch: who created it."""
        return NumberedEntries(self.board, f"{self.prefix}epochs/", DIGITS)

    def heartbeat(self, epoch: int) -> str:
        """The key of the counter that shows that an epoch's master lives."""
        return f"{self.heartbeats}{epoch:0{DIGITS}}"

    @property
    def heartbeats(self) -> str:
        """The prefix of the heartbeats."""
        return f"{self.prefix}heartbeat/"

    def journal(self, epoch: int) -> NumberedEntries:
        """The entries of an epoch."""
        return NumberedEntries(self.board, f"{self.journals}{epoch:0{DIGITS}}/", DIGITS)

    @property
    def journals(self) -> str:
        """The prefix of the entries of all epochs."""
        return f"{self.prefix}journal/"

    @property
    def snapshots(self) -> str:
        """The prefix of the snapshots."""
        return f"{self.prefix}snapshots/"

    def snapshot(self, epoch: int, number: int) -> str:
        """The key of the snapshot after this entry."""
        return f"{self.snapshots}{epoch:0{DIGITS}}-{number:0{DIGITS}}"


def open_board(base: str) -> Blackboard:
    """The blackboard at this URI for a journal: its requests to S3 end in seconds, and boto3 repeats none.

    Whoever writes a journal repeats its writes itself, as it must know whether they are decided.
    """
    return open_blackboard(base, s3_client_factory=impatient_s3_client)


def create_workflow(board: Blackboard, name: str) -> Place:
    """Create the workflow, unless it exists: then the same place for all who try. Raises WorkflowNameError."""
    key = _key(name)
    content = json.dumps({"format": _FORMAT, "name": name, "token": secrets.token_hex(16)})
    with suppress(AlreadyExistsError):  # somebody else's, or this one's, whose answer was lost
        board.create(key, content.encode())
    return open_workflow(board, name)


def open_workflow(board: Blackboard, name: str) -> Place:
    """The place of a workflow. Raises NoWorkflowError, JournalDamagedError, WorkflowNameError."""
    key = _key(name)
    try:
        data = board.read(key).data
    except NotFoundError:
        raise NoWorkflowError(
            f"There is no workflow {name!r} at {board.uri('')}: {board.uri(key)} is missing. Correct the name or the "
            "base, or begin it with `feed-assets workflow serve`."
        ) from None
    try:
        found = json.loads(data)
        token, made_by = str(found["token"]), int(found["format"])
    except (ValueError, KeyError, TypeError):
        token, made_by = "", _FORMAT
    if made_by > _FORMAT:
        raise JournalDamagedError(f"{board.uri(key)} is of a newer version of feed_assets (format {made_by}): update.")
    if not _TOKEN.fullmatch(token):
        raise JournalDamagedError(f"{board.uri(key)} has no token of 32 hexadecimal digits. Restore the object.")
    return Place(board, name, token)


def check_name(name: str) -> str:
    """Return the name. Raises WorkflowNameError if it cannot be that of a workflow."""
    if not _NAME.fullmatch(name):
        raise WorkflowNameError(
            f"{name!r} cannot be the name of a workflow: use 1 to 63 lower-case letters, digits, '-' and '_', and "
            "begin with a letter or a digit."
        )
    return name


def _key(name: str) -> str:
    return f"{_prefix(check_name(name))}workflow.json"


def _prefix(name: str) -> str:
    return f"{FOLDER}{name}/"
