"""The blackboard and the state database as Dagster resources.

Here: opening the store of a base or a URL, with credentials. Not here: the stores themselves.
"""

from typing import Any

import dagster as dg
from pydantic import ConfigDict, PrivateAttr, field_validator

from feed_assets.blackboard.credentials import has_credentials
from feed_assets.blackboard.location import check_location, open_blackboard
from feed_assets.blackboard.port import Blackboard
from feed_assets.state.store import Store


class BlackboardResource(dg.ConfigurableResource[None]):
    """The shared storage below one base: a directory, or `s3://bucket/prefix` with the environment's credentials."""

    model_config = ConfigDict(hide_input_in_errors=True)

    base: str

    _blackboard: Blackboard | None = PrivateAttr(default=None)

    @field_validator("base")
    @classmethod
    def _has_no_credentials(cls, base: str) -> str:
        """Refuse them here: Dagster shows the configuration of resources."""
        if has_credentials(base):
            check_location(base)
        return base

    @property
    def blackboard(self) -> Blackboard:
        """The opened store, the same object on each call."""
        if self._blackboard is None:
            self._blackboard = open_blackboard(self.base, s3_client_factory=s3_client)
        return self._blackboard


class StateResource(dg.ConfigurableResource[None]):
    """The state database. Dagster shows the URL: give a URL with a password as a `dg.EnvVar`."""

    url: str

    @property
    def store(self) -> Store:
        """The store. Raises StoreError if the URL cannot be used."""
        return Store(self.url)


def s3_client() -> Any:
    """A client of S3 with the credentials, the region and the endpoint of the environment, as Spark has them."""
    from dagster_aws.s3 import S3Resource  # noqa: PLC0415 - takes half of the definitions' load

    return S3Resource().get_client()
