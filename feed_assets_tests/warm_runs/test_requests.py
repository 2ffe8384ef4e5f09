"""The socket of the workers in a Dagster home. Not here: the pool behind it (`test_pool`)."""

from __future__ import annotations

import stat

from feed_assets.warm_runs.requests import LOCK, SOCKET, bound


def test_only_the_owner_can_open_the_socket_and_take_the_lock_also_one_of_an_earlier_version(tmp_path):
    (tmp_path / LOCK).touch(0o644)

    with bound(tmp_path):
        assert [stat.S_IMODE((tmp_path / each).stat().st_mode) for each in (LOCK, SOCKET)] == [0o600, 0o600]
