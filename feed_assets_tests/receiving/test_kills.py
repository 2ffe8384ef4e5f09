"""A receiver that is killed at any moment loses nothing that it acknowledged, and lands nothing twice.

`python -m feed_assets_tests.receiving.kills` has 2,000.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from feed_assets_tests.faults.memory import folder_in_memory
from feed_assets_tests.receiving.kills import LIGHT, attack, judge
from feed_assets_tests.receiving.light import MISTAKES

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("journal", "kills"), [("disk", 150), ("blackboard", 50)])
def test_what_was_acknowledged_lands_once_however_often_the_receiver_or_the_power_fails(journal, kills):
    with folder_in_memory() as folder:
        light = replace(LIGHT, base=folder / "base", journal=journal)

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
