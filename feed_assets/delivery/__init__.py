"""Delivery: an update of a feed goes to a Kinesis stream, and from there into a key-value store; no row is lost.

Words: a *destination* is a named stream and its rules. A *delivery* is one update sent to one destination. Its
*edition* is a number that grows with each delivery of a partition. Its rows have *ordinals*, 0 to rows - 1. The
*version* (partition, edition, ordinal) says which value of a key stays.

Here: destinations (`destination`), what is sent (`staging`, `encoding`), the ledger of editions (`ledger`), the client
of streams (`client`), streams and stores (`streams`, `stores`), the consumer (`consuming`), and the audit of all hops
(`audit`). Not here: Dagster, and Spark.
"""

from typing import TYPE_CHECKING

from feed_assets.lazy import loaded_when_used

if TYPE_CHECKING:
    from feed_assets.delivery.client.facade import Client
    from feed_assets.delivery.client.settings import ClientSettings
    from feed_assets.delivery.consuming.dispatching import Record
    from feed_assets.delivery.delivering import Deliverer
    from feed_assets.delivery.destination import Destination, load_destination
    from feed_assets.delivery.errors import DeliveryError
    from feed_assets.delivery.lookups import Lookups
    from feed_assets.delivery.streams.address import open_stream

__all__ = [
    "Client",
    "ClientSettings",
    "Deliverer",
    "DeliveryError",
    "Destination",
    "Lookups",
    "Record",
    "load_destination",
    "open_stream",
]

__getattr__ = loaded_when_used(
    __name__,
    {
        "Client": "feed_assets.delivery.client.facade",
        "ClientSettings": "feed_assets.delivery.client.settings",
        "Record": "feed_assets.delivery.consuming.dispatching",
        "Deliverer": "feed_assets.delivery.delivering",
        "Destination": "feed_assets.delivery.destination",
        "load_destination": "feed_assets.delivery.destination",
        "DeliveryError": "feed_assets.delivery.errors",
        "Lookups": "feed_assets.delivery.lookups",
        "open_stream": "feed_assets.delivery.streams.address",
    },
)
