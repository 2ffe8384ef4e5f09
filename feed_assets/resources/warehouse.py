"""The warehouse as a Dagster resource. Not here: the warehouses themselves (`feed_assets.warehouse`)."""

import dagster as dg

from feed_assets.warehouse.address import VARIABLE, open_warehouse, warehouse_kind
from feed_assets.warehouse.port import Warehouse


class WarehouseResource(dg.ConfigurableResource[None]):
    """The warehouse at a URL. Dagster shows the URL: give a server's as a `dg.EnvVar`."""

    url: str

    @classmethod
    def at(cls, url: str) -> "WarehouseResource":
        """The warehouse of FEED_ASSETS_WAREHOUSE, which is `url`; only the path of a file is shown."""
        return cls(url=url if warehouse_kind(url) == "duckdb" else dg.EnvVar(VARIABLE))

    @property
    def warehouse(self) -> Warehouse:
        """The warehouse; nothing is opened yet. Raises WarehouseError if the URL cannot be used."""
        return open_warehouse(self.url)
