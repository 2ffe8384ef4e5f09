"""A receiver that is killed at any moment loses nothing that it acknowledged, and lands nothing twice.

These are few kills; `python -m feed_assets_tests.receiving.kills` has 2,000.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from feed_assets_tests.receiving.kills import LIGHT, attack, judge
from feed_assets_tests.receiving.light import MISTAKES


@pytest.mark.parametrize(("journal", "kills"), [("disk", 15), ("blackboard", 6)])
def test_what_was_acknowledged_lands_once_however_often_the_receiver_or_the_power_fails(tmp_path, journal, kills):
    light = replace(LIGHT, base=tmp_path / "base", journal=journal)

    history = attack(light, kills)

    assert judge(light, history) == []
    assert len(history.acknowledged) > kills


@pytest.mark.parametrize("mistake", [name for name in MISTAKES if name])
def test_a_receiver_with_a_mistake_is_found(tmp_path, mistake):
    light = replace(LIGHT, base=tmp_path / "base", mistake=mistake)

    for seed in range(4):
        if judge(light, attack(light, 6, seed)):
            return

    raise AssertionError("nothing was found")
