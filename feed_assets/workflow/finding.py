"""Finding the master of a workflow by name: a client that looks the address up on the storage, again after a failover.

Not here: sending calls (`client`).
"""

from __future__ import annotations

import os

from feed_assets.workflow.client import PATIENCE_SECONDS, Client
from feed_assets.workflow.epochs import newest_address
from feed_assets.workflow.places import Place
from feed_assets.workflow.settings import WorkflowSettings


def client_of(place: Place, build: str, *, patience: float = PATIENCE_SECONDS) -> Client:
    """A client of the master of a workflow, wherever that is. `build` says who asks, for people."""

    def find() -> str | None:
        found = newest_address(place)
        return found.url if found else None

    token = WorkflowSettings.read(os.environ).workflow_token
    return Client(place.token, find, build, authorization=f"Bearer {token}" if token else None, patience=patience)
