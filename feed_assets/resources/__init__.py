"""Settings, the clock, storage, Spark, alerts and mail, as Dagster resources.

Here: reading the environment, opening connections, starting the JVM. Not here: what runs do with them.
"""

from feed_assets.resources.data_catalog import CatalogResource
from feed_assets.resources.notifier import Alert, MailResource, Notifier, WebhookNotifier
from feed_assets.resources.settings import Clock, Settings, SettingsError
from feed_assets.resources.spark import SparkResource
from feed_assets.resources.storage import BlackboardResource, StateResource
from feed_assets.resources.warehouse import WarehouseResource

__all__ = [
    "Alert",
    "BlackboardResource",
    "CatalogResource",
    "Clock",
    "MailResource",
    "Notifier",
    "Settings",
    "SettingsError",
    "SparkResource",
    "StateResource",
    "WarehouseResource",
    "WebhookNotifier",
]
