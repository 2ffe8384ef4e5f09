"""The data catalog as a Dagster resource. Not here: the catalog itself (`feed_assets.data_catalog`)."""

import dagster as dg

from feed_assets.data_catalog.glue import GlueCatalog, open_catalog


class CatalogResource(dg.ConfigurableResource[None]):
    """A database of AWS Glue, with the credentials of the environment."""

    database: str

    @property
    def catalog(self) -> GlueCatalog:
        """The catalog; nothing is requested yet."""
        return open_catalog(self.database)
