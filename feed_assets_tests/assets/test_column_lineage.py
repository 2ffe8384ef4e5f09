"""The lineage of columns: complete, and about columns that exist."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feed_assets.ads.assets.effectiveness_lineage import ADS, CATALOG, CLICKS, EFFECTIVENESS
from feed_assets.ads.partners import partners_directory
from feed_assets.ads.schemas import AD_CATALOG, AD_EFFECTIVENESS, CLEAN_ADS, CLEAN_CLICKS, KINDS
from feed_assets.assets.column_lineage import clean_lineage
from feed_assets.engine.sql import columns_in
from feed_assets.sources.loading import load_sources

UPSTREAM = {ADS: CLEAN_ADS, CLICKS: CLEAN_CLICKS, CATALOG: AD_CATALOG}


def test_every_column_of_effectiveness_is_made_from_columns_that_exist():
    assert set(EFFECTIVENESS) == set(AD_EFFECTIVENESS.names)
    for column, made_from in EFFECTIVENESS.items():
        assert made_from, column
        for key, names in made_from.items():
            assert set(names) <= set(UPSTREAM[key].names), column


def test_a_clean_column_is_made_from_the_columns_in_the_partners_expressions():
    (source,) = [source for source in load_sources(partners_directory(), KINDS) if source.key == "ads/open_bandit_ads"]

    (lineage,) = clean_lineage([source]).values()

    made_from = {
        column: {(dep.asset_key.to_user_string(), dep.column_name) for dep in deps}
        for column, deps in lineage.deps_by_column.items()
    }
    assert set(made_from) | {"source"} == set(CLEAN_ADS.names)
    assert made_from["event_time"] == {("raw/ads/open_bandit_ads", "timestamp")}
    assert {name for deps in made_from.values() for _, name in deps} <= set(source.format.declared)


@pytest.mark.parametrize(
    ("expression", "used"),
    [
        ("ad", ["ad"]),
        ("`ad`", ["ad"]),
        ("concat('ad', Item)", ["item"]),
        ("item(ad)", ["ad"]),
        ("advert", []),
        ("CAST(NULL AS string)", []),
    ],
)
def test_only_names_outside_literals_are_columns(expression, used):
    assert columns_in(expression, ["ad", "item"]) == used


@given(st.text(max_size=40))
def test_any_text_is_searched_without_an_error(expression):
    assert set(columns_in(expression, ["a.b", "(", "x"])) <= {"a.b", "(", "x"}
