"""Real masters and workers that are killed, stopped and cut off: each unit is committed once, nothing is lost."""

from __future__ import annotations

import itertools
import os
import select
import signal
import socket
import socketserver
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec
import pytest
import urllib3

from feed_assets.blackboard.listing import list_all
from feed_assets.workflow.calls import Command, Hello
from feed_assets.workflow.epochs import newest_address
from feed_assets.workflow.scratch import scratch_of
from feed_assets.workflow.worker import WAIT_SECONDS
from feed_assets_tests.servers.fault_proxy import FaultProxy
from feed_assets_tests.servers.versitygw import Versitygw
from feed_assets_tests.waiting import HANGS, until
from feed_assets_tests.workflow.judged import account_of, faults
from feed_assets_tests.workflow.processes import CHUNKS, PARTS
from feed_assets_tests.workflow.started import Stage, staged

pytestmark = pytest.mark.slow


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Stage]:
    """A workflow on a disk, without any process."""
    with staged(str(tmp_path / "base")) as stage:
        yield stage


def test_w4_the_unit_of_a_worker_that_is_killed_comes_back_and_is_committed_once(orders: Stage):
    orders.master()
    orders.configure()
    orders.insert(1, 2)
    first = orders.worker("--lease", "0.5", "--pause", "60")
    until(lambda: [each for each in orders.tasks("convert") if each["status"] == "leased"])
    first.send(signal.SIGKILL)
    orders.worker()
    orders.drained()
    assert list(faults(orders.place, [1, 2])) == []
    assert account_of(orders.place).retries == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_w1_a_master_that_is_killed_at_any_write_loses_nothing_that_was_acknowledged(orders: Stage, when: str):
    first = orders.master()
    orders.configure()
    first.send(signal.SIGKILL)
    orders.worker()
    with producing(orders) as told:
        for number in (1, 2, 4):  # the epoch, its START, and entries
            doomed = orders.master("--stopping", "kill", when, str(number), waits=False)
            assert doomed.ended() == -signal.SIGKILL
        orders.master()
        before = len(told)
        until(lambda: len(told) > before)
    orders.drained()
    assert list(faults(orders.place, told)) == []


def test_w14_w15_a_paused_master_finds_its_journal_sealed_and_ends_and_clients_find_the_next_one(orders: Stage):
    old = orders.master()
    orders.configure()
    stopping = orders.master("--stopping", "stop", "before", "4", waits=False)  # its second entry
    old.send(signal.SIGTERM)
    address = stopping.line().split()[1]
    orders.insert(1)
    heard: list[object] = []

    def ask() -> None:
        url, body = f"{address}/v1/hello", msgspec.json.encode(Hello(token=orders.place.token))
        try:
            heard.append(urllib3.request("POST", url, body=body, retries=False, timeout=HANGS))
        except urllib3.exceptions.HTTPError as error:
            heard.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    until(stopping.stopped)
    orders.master()
    orders.insert(2)  # W15: the client finds the new one
    assert orders.client.epoch == 3
    stopping.send(signal.SIGCONT)
    assert stopping.ended() == os.EX_TEMPFAIL
    asking.join()
    assert isinstance(heard[0], urllib3.exceptions.ProtocolError)
    assert "This master ends" in " ".join(stopping.errors)
    orders.worker()
    orders.drained()
    assert list(faults(orders.place, [1, 2])) == []


def test_w9_a_worker_that_wakes_up_after_its_lease_commits_nothing_and_its_files_harm_nothing(orders: Stage):
    orders.master()
    orders.configure()
    orders.insert(1)
    sleeper = orders.worker("--lease", "0.5", "--pause", "1")
    sleeper.until_line("split")
    until(lambda: [each for each in orders.tasks("convert") if each["status"] == "leased"])
    sleeper.send(signal.SIGSTOP)
    orders.worker()
    orders.drained()
    sleeper.send(signal.SIGCONT)
    assert sleeper.until_line("convert").endswith("lost")
    assert list(faults(orders.place, [1])) == []
    converted = [each.key for each in list_all(orders.place.board, scratch_of("orders")) if "/convert/" in each.key]
    assert len(converted) == PARTS + 1


def test_w12_with_two_masters_behind_one_address_each_client_reaches_only_its_own(orders: Stage, tmp_path: Path):
    with staged(orders.base, "returns") as returns:
        addresses = [each.master().popen and newest_address(each.place) for each in (orders, returns)]
        ports = [urlsplit(each.url).port for each in addresses if each]
        with balanced([port for port in ports if port]) as address:
            for number, each in enumerate((orders, returns)):
                each.client.find = lambda: address
                each.configure()
                for order in range(20):
                    each.insert(1000 * number + order)
                reply = urllib3.request(
                    "POST",
                    f"http://127.0.0.1:{ports[number]}/v1/hello",
                    body=msgspec.json.encode(Hello(token="another")),
                    retries=False,
                )
                assert (reply.status, reply.json()["answer"]["refused"]) == (421, "WrongMaster")
            for number, each in enumerate((orders, returns)):
                found = account_of(each.place)
                assert found.inserted == dict.fromkeys(range(1000 * number, 1000 * number + 20), 1)


def test_w11_a_configuration_that_changes_in_flight_refuses_one_commit_and_the_work_is_done_with_the_new_one(
    orders: Stage,
):
    orders.master()
    orders.configure()
    orders.insert(1)
    worker = orders.worker("--lease", "0.6", "--pause", "1")
    worker.until_line("split")
    until(lambda: [each for each in orders.tasks("convert") if each["status"] == "leased"])
    orders.configure(rate=2)
    time.sleep(0.5)  # a renewal brings the new configuration while the stage works with the old one
    first = worker.until_line("convert").split()
    assert first[2] == "again"
    assert worker.until_line("convert").split() == ["convert", first[1], "done"]
    orders.drained()
    assert list(faults(orders.place, [1], rates=[2])) == []


def test_w21_a_task_that_is_killed_at_90_percent_redoes_at_most_one_chunk(orders: Stage):
    orders.master()
    orders.configure()
    orders.insert(1, stage="long")
    first = orders.worker("--lease", "0.5", "--pause", "0.1")
    until(lambda: [each for each in orders.tasks("long") if each.get("checkpoint") == str(CHUNKS - 1)], every=0.01)
    first.send(signal.SIGKILL)
    orders.worker()
    orders.drained()
    chunks = [each.key for each in list_all(orders.place.board, scratch_of("orders")) if "/long/" in each.key]
    assert CHUNKS <= len(chunks) <= CHUNKS + 1


def test_a_master_that_is_told_to_stop_does_not_wait_for_workers_that_wait_for_work(orders: Stage):
    master = orders.master()
    orders.configure()
    orders.worker()
    until(lambda: orders.client.read("stats")["sessions"] == 2)
    began = time.monotonic()
    master.send(signal.SIGTERM)
    assert master.ended() == 0
    assert time.monotonic() - began < WAIT_SECONDS / 2
    other = orders.master()
    orders.insert(1)
    orders.drained()
    assert other.popen.poll() is None


def test_a_paused_group_costs_no_calls_of_waiting_workers(orders: Stage):
    orders.master()
    orders.configure()
    orders.client.call(Command, order="pause", target="split", by="test", reason="to look")
    orders.insert(1)
    orders.worker()
    until(lambda: orders.client.read("stats")["sessions"] == 2)
    before = orders.client.read("stats")["position"]
    time.sleep(0.5)
    assert orders.client.read("stats")["position"] == before
    orders.client.call(Command, order="resume", target="split", by="test", reason="seen")
    orders.drained()


def test_w17_a_store_that_is_away_for_a_while_delays_calls_and_loses_none(versitygw: Versitygw, tmp_path: Path):
    bucket = f"workflow-{uuid4().hex}"
    versitygw.client().create_bucket(Bucket=bucket)
    proxy = FaultProxy(tmp_path / "proxy", versitygw)
    proxy.start()
    with patch.dict(os.environ, versitygw.environment):
        orders_of = staged(f"s3://{bucket}/base", environment=proxy.environment)
        with orders_of as orders:
            orders.master()
            orders.configure()
            orders.worker()
            orders.insert(1)
            with proxy.injecting(cut_before=1.0):
                inserting = threading.Thread(target=orders.insert, args=(2,))
                inserting.start()
                address = newest_address(orders.place)
                assert address
                until(lambda: urllib3.request("GET", f"{address.url}/ready").status == 503)
                assert inserting.is_alive()
            inserting.join()
            orders.drained()
            assert list(faults(orders.place, [1, 2])) == []
    proxy.kill()


@contextmanager
def producing(stage: Stage) -> Iterator[list[int]]:
    """The orders that were acknowledged to a producer, which inserts one after the other during the block."""
    told: list[int] = []
    over = threading.Event()

    def produce() -> None:
        while not over.is_set():
            stage.insert(len(told) + 1)
            told.append(len(told) + 1)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield told
    finally:
        over.set()
        thread.join()


@contextmanager
def balanced(ports: Sequence[int]) -> Iterator[str]:
    """An address behind which connections go to each of these ports in turn."""
    turn = itertools.cycle(ports)

    class Forward(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(("127.0.0.1", next(turn))) as other:
                pair = {self.request: other, other: self.request}
                while True:
                    for each in select.select(list(pair), [], [])[0]:
                        if not (data := each.recv(65536)):
                            return
                        pair[each].sendall(data)

    class Balancer(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Balancer(("127.0.0.1", 0), Forward) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
