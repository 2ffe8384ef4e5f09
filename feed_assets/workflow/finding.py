"""Finding the master of a workflow by name: a client that looks the address up on the storage, again after a failover.

Not here: sending calls (`client`).
"""

from __future__ import annotations

import os
import re
from typing import Final

from pydantic import Field, field_validator

from feed_assets.environment import Section, SettingsError
from feed_assets.workflow.client import PATIENCE_SECONDS, Client
from feed_assets.workflow.epochs import newest_address
from feed_assets.workflow.places import Place

VARIABLE: Final = "FEED_ASSETS_WORKFLOW_TOKEN"
_TOKEN: Final = re.compile(r"fa_[0-9a-f]+_[A-Za-z0-9_-]+")


class WorkflowSettings(Section):
    """How programs of this installation ask a task master."""

    workflow_token: str = Field("", validation_alias=VARIABLE, repr=False)
    """The token with which commands, workers and sensors ask a task master that has tokens.

    Default: none, as on the master's own machine.
    """

    @field_validator("workflow_token")
    @classmethod
    def _is_token(cls, text: str) -> str:
        if text and not _TOKEN.fullmatch(text):
            raise SettingsError(
                f"{VARIABLE} is wrong, and not shown: it takes a token as `feed-assets serve tokens add` prints it, such "
                "as fa_0123abcd_..."
            )
        return text


def client_of(place: Place, build: str, *, patience: float = PATIENCE_SECONDS) -> Client:
    """A client of the master of a workflow, wherever that is. `build` says who asks, for people."""

    def find() -> str | None:
        found = newest_address(place)
        return found.url if found else None

    token = WorkflowSettings.read(os.environ).workflow_token
    return Client(place.token, find, build, authorization=f"Bearer {token}" if token else None, patience=patience)
