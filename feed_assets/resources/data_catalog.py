"""The data catalog as a Dagster resource. Not here: the catalog itself (`feed_assets.data_catalog`)."""

import dagster as dg
from pydantic import PrivateAttr

from feed_assets.data_catalog import GlueCatalog, open_catalog


class CatalogResource(dg.ConfigurableResource[None]):
    """A database of AWS Glue, with the credentials of the environment."""

    database: str

    _catalog: GlueCatalog | None = PrivateAttr(default=None)

    @property
    def catalog(self) -> GlueCatalog:
        """The catalog; nothing is requested yet. The same one each time, as making a client takes long."""
        if self._catalog is None:
            self._catalog = open_catalog(self.database)
        return self._catalog
