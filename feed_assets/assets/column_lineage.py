"""Column lineage in Dagster's metadata, for cleaned assets of any kind. The lineage of updates is in their records."""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

from feed_assets.assets.external import raw_key
from feed_assets.engine.sql import columns_in
from feed_assets.sources.spec import Source

COLUMN_LINEAGE = "dagster/column_lineage"


def clean_lineage(sources: Iterable[Source]) -> dict[str, dg.TableColumnLineage]:
    """The metadata entry for the clean asset of these sources, from the partners' columns in their expressions.

    A source that declares no columns, because its files have a header, has no lineage.
    """
    lineage: dict[str, list[dg.TableColumnDep]] = {}
    for source in sources:
        for column, expression in source.expressions.items():
            used = columns_in(expression, source.format.declared)
            lineage.setdefault(column, []).extend(dg.TableColumnDep(raw_key(source), name) for name in used)
    return {COLUMN_LINEAGE: dg.TableColumnLineage(lineage)}
