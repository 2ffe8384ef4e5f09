"""Tags, freshness policies and code references of all assets, for Dagster's catalog.

Not here: the attributes of a single asset, and column lineage (`column_lineage`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import dagster as dg

from feed_assets.blackboard.location import local_directory
from feed_assets.feed_events.declarations import raw_source
from feed_assets.resources.settings import Settings
from feed_assets.sources.spec import Source

WARN_AFTER, FAIL_AFTER = timedelta(hours=26), timedelta(hours=36)
"""Time since an asset's last materialization: a day, plus the buffer of its sources and time for repairs."""


def in_catalog(
    assets: Iterable[dg.AssetsDefinition | dg.AssetSpec], sources: Sequence[Source], settings: Settings, *, domain: str
) -> list[Any]:
    """The assets with tags, a freshness policy and references to their code; raw assets refer to their source's YAML.

    An asset with a freshness policy keeps it. If `domain` is empty, assets get no tag `domain`.
    """
    by_key = {source.key: source for source in sources}
    usual = dg.FreshnessPolicy.time_window(fail_window=FAIL_AFTER, warn_window=WARN_AFTER)

    def described(spec: dg.AssetSpec) -> dg.AssetSpec:
        storage = "local" if local_directory(settings.base) else settings.base.partition("://")[0]
        partitioned = spec.partitions_def is not None
        # Under a fixed clock nothing is late.
        fresh = partitioned and settings.as_of is None
        source = by_key.get(raw_source(spec.metadata) or "")
        origin = source.origin if source else None
        references = {"dagster/code_references": _reference(str(origin), origin.name)} if origin else {}
        return spec.replace_attributes(
            tags={**spec.tags, **({"domain": domain} if domain else {}), "storage": storage},
            metadata={**spec.metadata, **references},
            freshness_policy=spec.freshness_policy or (usual if fresh else None),
        )

    with warnings.catch_warnings():
        # Code references are a beta feature; they only add links.
        warnings.simplefilter("ignore", dg.BetaWarning)
        linked: list[Any] = list(dg.with_source_code_references(list(assets)))
    return list(dg.map_asset_specs(described, linked))


def _reference(path: str, label: str) -> dg.CodeReferencesMetadataValue:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.CodeReferencesMetadataValue(
            code_references=[dg.LocalFileCodeReference(file_path=path, line_number=1, label=label)]
        )
