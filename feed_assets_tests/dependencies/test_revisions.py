"""Revisions and events are as defined, after each act of all short histories."""

from __future__ import annotations

from feed_assets_tests.dependencies.revisions import try_all


def test_a_revision_rises_once_when_a_complete_slot_is_reopened_in_all_histories_of_three_acts() -> None:
    states, acts = try_all(3)
    assert states > 900
    assert acts > 1500
