"""The deliveries of a project: their assets, checks and sensor. Needs the extra `delivery`.

Not here: which feeds are delivered (`assets.delivered`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import dagster as dg

from feed_assets.assets.deliveries import delivery_assets
from feed_assets.checks.deliveries import delivery_checks
from feed_assets.resources.settings import Settings
from feed_assets.sensors.deliveries import deliveries


@dataclass(frozen=True, slots=True)
class Deliveries:
    """What deliveries add to the definitions of a project."""

    assets: tuple[dg.AssetsDefinition, ...] = ()
    checks: tuple[dg.AssetChecksDefinition, ...] = ()
    sensors: tuple[dg.SensorDefinition, ...] = ()

    @classmethod
    def of(
        cls,
        specs: Sequence[dg.AssetSpec],
        feeds: Iterable[dg.AssetsDefinition | dg.AssetSpec],
        settings: Settings,
    ) -> Deliveries:
        """The deliveries that `delivered` has named. `feeds` are the project's other assets.

        Raises DestinationError, DagsterInvalidDefinitionError.
        """
        found = delivery_assets(specs, feeds, settings)
        sensor = deliveries(
            {name: to for name, (_, to) in found.items()},
            settings.local_state,
            interval_seconds=settings.sensor_seconds,
            scan_seconds=settings.scan_seconds,
            run_config=settings.run_config,
        )
        checks = (delivery_checks(asset, to, settings.local_state) for asset, to in found.values())
        return cls(tuple(asset for asset, _ in found.values()), tuple(checks), (sensor,))
