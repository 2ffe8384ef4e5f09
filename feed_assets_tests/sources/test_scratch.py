"""Directories for files that land: those of killed processes go, those in use stay."""

from __future__ import annotations

import os

from feed_assets.sources.scratch import scratch_directory


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed, other = tmp_path / "feed-assets-poll-killed", tmp_path / "another-program"
    for each in (killed, other):
        (each / "1").mkdir(parents=True)
        (each / "1" / "half.csv").touch()
    with scratch_directory("feed-assets-poll-") as at_work:
        for each in (killed, other, at_work):
            os.utime(each, (0, 0))
        with scratch_directory("feed-assets-poll-") as own:
            assert {each.name for each in tmp_path.iterdir()} == {at_work.name, own.name, other.name}
    assert list(tmp_path.iterdir()) == [other]
