"""Facts of quality as rows, and back."""

from __future__ import annotations

import json

import pytest

from feed_assets.datasets.grains import Grain
from feed_assets.datasets.slots import parse_slot
from feed_assets.dependencies.quality.marks import (
    Author,
    Backfill,
    CheckResult,
    ColumnProfile,
    Computation,
    Ended,
    Fact,
    Mark,
    Profile,
    QualityError,
    Signature,
    SlotProfile,
    SlotRange,
    SlotRevision,
)
from feed_assets.dependencies.quality.rows import Row, from_row, to_row

HOUR = SlotRevision(parse_slot("raw/ads eu/fr hour 2026-11-27T15:00Z"), 2)
DAY = SlotRevision(parse_slot("clean-ads/v1.0 - day 2026-11-27"), 1)
SIGNED = Signature(Author.person("ann"), 5, "bots: 40 %")
FACTS: list[Fact] = [
    Mark("m1", HOUR, SIGNED, evidence="rows: 430"),
    Mark("m2", DAY, SIGNED, removal=Signature(Author.check("rows"), 6, "the check passes")),
    CheckResult(DAY, "audit", passed=False, at=7),
    Computation(DAY, (HOUR, DAY._replace(revision=3)), "run", 8),
    Ended(SlotRange("raw/ads", "-", Grain.FIVE_MINUTES, 0, 600, 3), 4, 12, equal=True),
    Backfill("b1", (HOUR.slot, DAY.slot), SIGNED),
    Backfill("b2", (HOUR.slot,), SIGNED, closed=SIGNED, abandoned=True),
]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: type(fact).__name__)
def test_a_fact_survives_json(fact: Fact):
    kind, key, content = to_row(fact)
    assert from_row(Row(kind, key, json.loads(json.dumps(content)))) == fact


def test_a_profile_survives_json():
    profile = Profile(10, {"price": ColumnProfile(1, 5, 0.5, 9), "at": ColumnProfile(0, 3, 0, 9, time=True)})
    kept = SlotProfile(HOUR, profile, 5, ("rows: 10, usually 100",))
    kind, key, content = to_row(kept)
    assert from_row(Row(kind, key, json.loads(json.dumps(content)))) == kept
    with pytest.raises(QualityError, match="The stored profile 'k' cannot be read"):
        from_row(Row(kind, "k", {**content, "rows": 0}))


def test_each_fact_has_a_key_of_its_own():
    assert len({to_row(fact)[:2] for fact in FACTS}) == len(FACTS)


@pytest.mark.parametrize(
    "row",
    [
        Row("new kind", "k", {}),
        Row("check", "k", {"slot": "raw/ads - hour"}),
        Row("check", "k", {**to_row(FACTS[2]).content, "slot": "raw/ads - hour 2026-02-30T00Z"}),
        Row("mark", "k", {**to_row(FACTS[0]).content, "by": ["robot", "r2"]}),
        Row("ended", "k", {"range": [1]}),
    ],
)
def test_a_row_that_cannot_be_read_is_named(row: Row):
    with pytest.raises(QualityError, match=f"The stored {row.kind} 'k' cannot be read"):
        from_row(row)
