"""The blackboard and the state database as Dagster resources.

Here: opening the store of a base or a URL, with credentials. Not here: the stores themselves.
"""

from typing import Any, Self

import dagster as dg
from dagster_aws.s3 import S3Resource
from pydantic import PrivateAttr

from feed_assets.blackboard import Blackboard, open_blackboard
from feed_assets.state import Store


class BlackboardResource(dg.ConfigurableResource[None]):
    """The shared storage below one base: a directory or `s3://bucket/prefix`.

    `S3Resource` of dagster-aws gives the client and its settings: region, endpoint, profile.
    """

    base: str
    s3: dg.ResourceDependency[S3Resource]

    @classmethod
    def at(cls, base: str) -> Self:
        """The blackboard at a base; for S3, with the credentials and endpoint of the environment."""
        return cls(base=base, s3=S3Resource())

    _blackboard: Blackboard | None = PrivateAttr(default=None)

    @property
    def blackboard(self) -> Blackboard:
        """The opened store, the same object on each call."""
        if self._blackboard is None:
            self._blackboard = open_blackboard(self.base, s3_client_factory=self._client)
        return self._blackboard

    def _client(self) -> Any:
        return self.s3.get_client()


class StateResource(dg.ConfigurableResource[None]):
    """The state database. Dagster shows the URL: give a URL with a password as a `dg.EnvVar`."""

    url: str

    @property
    def store(self) -> Store:
        """The store. Raises StoreError if the URL cannot be used."""
        return Store(self.url)
