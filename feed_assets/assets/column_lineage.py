"""Which columns each column is made from, as Dagster's UI shows it.

Here: the metadata entry, and the lineage of cleaned assets of any kind. Not here: the computation itself
(`sources.canonical`), and the lineage of updates, which is in their records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import dagster as dg

from feed_assets.assets.external import raw_key
from feed_assets.sources import Source

COLUMN_LINEAGE = "dagster/column_lineage"
LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


def clean_lineage(sources: Iterable[Source]) -> dict[str, dg.TableColumnLineage]:
    """The metadata entry for the clean asset of these sources: from the partners' columns in their expressions.

    A source that does not declare its columns, because its files have a header, has no lineage.
    """
    lineage: dict[str, list[tuple[dg.AssetKey, str]]] = {}
    for source in sources:
        for column, expression in source.expressions.items():
            used = columns_in(expression, source.format.declared)
            lineage.setdefault(column, []).extend((raw_key(source), name) for name in used)
    return lineage_entry(lineage)


def columns_in(expression: str, declared: Iterable[str]) -> list[str]:
    """Which of the declared columns a SQL expression names; case does not count, literals do not either."""
    text = LITERAL.sub("''", expression)
    return [
        name
        for name in declared
        if re.search(rf"`{re.escape(name)}`|(?<![\w`.]){re.escape(name)}(?![\w`]|\s*\()", text, re.IGNORECASE)
    ]


def lineage_entry(lineage: Mapping[str, Iterable[tuple[dg.AssetKey, str]]]) -> dict[str, dg.TableColumnLineage]:
    """The metadata entry for an asset: for each column, the assets and the columns it is made from."""
    return {
        COLUMN_LINEAGE: dg.TableColumnLineage(
            {
                column: [dg.TableColumnDep(asset_key=key, column_name=name) for key, name in made_from]
                for column, made_from in lineage.items()
            }
        )
    }
