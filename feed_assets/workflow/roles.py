"""What a token may do with a workflow. Not here: whose a request is (`serving.access`)."""

from collections.abc import Mapping
from typing import Final

from feed_assets.serving.access import Caller

READ: Final = "read"
"""Look at groups and tasks, with their payloads."""
WORK: Final = "work"
"""Also sessions, leases and what follows, and inserts: what workers need."""
CONTROL: Final = "control"
"""All that workers may do, and configurations and orders: what people need."""
_INCLUDED_IN: Final[Mapping[str, tuple[str, ...]]] = {
    READ: (READ, WORK, CONTROL),
    WORK: (WORK, CONTROL),
    CONTROL: (CONTROL,),
}


def may(caller: Caller, verb: str, name: str) -> bool:
    """Whether the caller may do this with the workflow of this name."""
    return any(caller.may(each, name) for each in _INCLUDED_IN[verb])


def require(caller: Caller, verb: str, name: str) -> None:
    """Raise HTTPException, 403, unless the caller may do this with the workflow of this name."""
    if not may(caller, verb, name):
        caller.require(verb, name)
