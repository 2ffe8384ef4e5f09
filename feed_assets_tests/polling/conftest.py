"""The place of a partner."""

from __future__ import annotations

import pytest


@pytest.fixture
def outbox(tmp_path):
    folder = tmp_path / "outbox"
    folder.mkdir()
    return folder
