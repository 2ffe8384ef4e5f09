"""A master whose disk is full answers nobody, and goes on when there is room."""

from __future__ import annotations

import threading

import pytest
import urllib3

from feed_assets.workflow.epochs import newest_address
from feed_assets_tests.waiting import until
from feed_assets_tests.workflow.judged import faults
from feed_assets_tests.workflow.started import staged

pytestmark = pytest.mark.slow


def test_calls_wait_while_the_disk_is_full_and_nothing_is_lost(small_disk):
    with staged(str(small_disk.path / "base")) as orders:
        orders.master()
        orders.configure()
        orders.insert(1)
        address = newest_address(orders.place)
        assert address
        small_disk.fill()
        inserting = threading.Thread(target=orders.insert, args=(2,))
        inserting.start()
        until(lambda: urllib3.request("GET", f"{address.url}/ready").status == 503)
        assert inserting.is_alive()
        small_disk.make_room()
        inserting.join()
        orders.worker()
        orders.drained()
        assert list(faults(orders.place, [1, 2])) == []
