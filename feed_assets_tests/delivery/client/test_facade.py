"""The client on a stream in memory: futures, bounds, what is sent again, and the end."""

from __future__ import annotations

import ast
import subprocess
import sys
import threading
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from feed_assets.delivery.client import facade
from feed_assets.delivery.client.facade import Client
from feed_assets.delivery.client.settings import ClientSettings
from feed_assets.delivery.errors import BadRowsError, NotDeliveredError, StreamError
from feed_assets.delivery.streams.port import Acked, AmbiguousError, Limits, NotSentError, Record, Refused
from feed_assets_tests.delivery.client.memory import MemorySink, SimulatedClock, shards
from feed_assets_tests.waiting import until

QUICK = Limits(records_a_second=1_000_000, bytes_a_second=1_000_000_000)
"""Limits that no test reaches, where rates are not its subject."""
NEVER = 3_600.0


def numbered(count: int, size: int = 20) -> list[Record]:
    return [Record(f"key-{number}", b"%d" % number + bytes(size)) for number in range(count)]


def refusing(sink: MemorySink, refused: Refused, keys: set[str], times: int = 1):
    """An answering that refuses each record with these keys so many times, and says how often it saw each key."""
    seen: Counter[str] = Counter()

    def answer(records):
        seen.update(record.key for record in records)
        good = iter(sink.store([record for record in records if record.key not in keys or seen[record.key] > times]))
        return [refused if record.key in keys and seen[record.key] <= times else next(good) for record in records]

    sink.answering = answer
    return seen


# Futures


def test_k6_each_record_has_a_future_with_its_shard_and_sequence_number():
    sink = MemorySink(2, QUICK)
    with Client(sink) as client:
        futures = {record: client.put(*record) for record in numbered(50)}
    answers = {record: future.result(0) for record, future in futures.items()}
    assert {record: answer.shard for record, answer in answers.items()} == {
        each: sink.shard_of(each) for each in answers
    }
    assert len({answer.sequence for answer in answers.values()}) == 50


def test_k6_an_error_of_the_stream_fails_all_futures_at_once_and_all_further_calls():
    sink = MemorySink(1, QUICK)
    sink.gate.clear()
    error = StreamError("memory://stream: no such stream")

    def answer(_):
        raise error

    sink.answering = answer
    client = Client(sink, ClientSettings(linger=NEVER, requests=1))
    futures = [client.put("first", b"")]
    client.flush()
    until(lambda: sink.under_way)
    futures += [client.put("waits", b"") for _ in range(10)]
    sink.gate.set()
    assert {future.exception(60) for future in futures} == {error}
    for call in (lambda: client.put("more", b""), client.flush, client.close, client.close):
        with pytest.raises(StreamError, match="no such stream"):
            call()


def test_ordinals_are_reported_once_each_by_one_thread_at_a_time():
    sink = MemorySink(3, QUICK)
    refusing(
        sink, Refused(throttled=False, message="InternalFailure"), {f"key-{number}" for number in range(0, 5_000, 7)}
    )
    done: list[int] = []
    inside = threading.Lock()

    def record(ordinals):
        assert inside.acquire(blocking=False)
        done.extend(ordinals)
        inside.release()

    with Client(sink) as client:
        client.put_many(numbered(5_000), range(10_000, 15_000), record)
    assert sorted(done) == list(range(10_000, 15_000))
    assert sorted(sink.stored) == sorted(numbered(5_000))


def test_a_bug_of_the_callback_ends_the_client():
    def broken(_):
        raise KeyError("bug")

    client = Client(MemorySink(1, QUICK))
    client.put_many(numbered(10), range(10), broken)
    with pytest.raises(KeyError, match="bug"):
        client.close()


def test_a_bug_of_the_stream_ends_the_client():
    sink = MemorySink(1, QUICK)

    def answer(_):
        raise ZeroDivisionError

    sink.answering = answer
    client = Client(sink)
    future = client.put("key", b"")
    with pytest.raises(ZeroDivisionError):
        client.close()
    assert isinstance(future.exception(0), ZeroDivisionError)


def test_a_stream_that_forgets_an_answer_is_asked_again():
    sink = MemorySink(1, QUICK)
    forgotten: list[int] = []

    def answer(records):
        forgotten.append(len(records))
        return sink.store(records)[:-1] if len(forgotten) == 1 else sink.store(records)

    sink.answering = answer
    with Client(sink) as client:
        client.put_many(numbered(3), range(3), lambda _: None)
    assert client.counters().acked == 3
    assert client.counters().ambiguous == 3


@pytest.mark.parametrize(
    ("key", "data", "words"),
    [
        ("", b"", "Record 7: its key is empty"),
        ("x" * 257, b"", "Record 7: its key has 257 characters; 256 are allowed"),
        ("é" * 12, bytes(77), "Record 7: it has 101 bytes with its key; the stream takes 100"),
        ("\ud800", b"", "no valid text"),
    ],
)
def test_records_that_the_stream_never_takes_are_refused_at_once(key, data, words):
    sink = MemorySink(1, Limits(bytes_a_record=100))
    with Client(sink) as client, pytest.raises(BadRowsError, match=words):
        client.put(key, data, 7)
    assert sink.requests == []


def test_keys_of_256_characters_of_any_width_are_taken():
    sink = MemorySink(2, QUICK)
    with Client(sink) as client:
        client.put("🦜" * 256, b"")
    assert len(sink.stored) == 1


# Bounds and flushing


def test_k8_a_full_queue_blocks_put_until_records_are_acknowledged():
    sink = MemorySink(2, QUICK)
    sink.gate.clear()
    client = Client(sink, ClientSettings(queue_bytes=10_000, linger=0.0))
    records = [Record(f"{number:04d}", bytes(96)) for number in range(1_000)]
    thread = threading.Thread(target=client.put_many, args=(records, range(1_000), lambda _: None))
    thread.start()
    until(lambda: client.counters().queue_bytes > 9_000)
    assert client.counters().queue_bytes <= 10_000
    assert thread.is_alive()
    sink.gate.set()
    thread.join()
    client.close()
    assert sorted(sink.stored) == records
    assert client.counters().queue_bytes == 0


def test_one_shard_may_hold_half_of_the_queue():
    sink = MemorySink(2, QUICK)
    sink.gate.clear()
    client = Client(sink, ClientSettings(queue_bytes=10_000, linger=0.0))
    hot = next(record.key for record in numbered(100) if sink.shard_of(record) == "shard-0")
    cold = next(record.key for record in numbered(100) if sink.shard_of(record) == "shard-1")
    thread = threading.Thread(
        target=client.put_many, args=([Record(hot, bytes(100))] * 200, range(200), lambda _: None)
    )
    thread.start()
    until(lambda: client.counters().queue_bytes > 4_800)
    futures = [client.put(cold, bytes(100)) for _ in range(40)]  # does not block
    assert 4_800 + 40 * 100 < client.counters().queue_bytes <= 10_000
    assert thread.is_alive()
    sink.gate.set()
    thread.join()
    client.close()
    assert all(future.done() for future in futures)


def test_a_record_larger_than_the_queue_passes_alone():
    sink = MemorySink(1, QUICK)
    with Client(sink, ClientSettings(queue_bytes=1_000, linger=0.0)) as client:
        for _ in range(3):
            client.put("key", bytes(5_000))
    assert [len(request) for request in sink.requests] == [1, 1, 1]


def test_k9_records_leave_when_a_request_is_full_on_flush_and_after_the_linger():
    sink = MemorySink(1, QUICK)
    client = Client(sink, ClientSettings(linger=NEVER))
    client.put_many(numbered(499), range(499), lambda _: None)
    assert sink.requests == []
    client.put("key-499", b"")
    until(lambda: client.counters().acked == 500)
    assert max(len(request) for request in sink.requests) <= 500
    future = client.put("later", b"")
    client.flush()
    assert isinstance(future.result(60), Acked)
    client.close()
    with Client(sink, ClientSettings(linger=0.01)) as lingering:
        assert isinstance(lingering.put("alone", b"").result(60), Acked)


def test_k2_no_request_is_above_a_limit_of_records_or_bytes():
    limits = Limits(20, 3_000, 1_500, 1_000_000, 1_000_000_000)
    sink = MemorySink(3, limits)
    records = [Record(f"key-{number}", bytes(number * 37 % 1_400)) for number in range(3_000)]
    with Client(sink) as client:
        client.put_many(records, range(3_000), lambda _: None)
    assert max(len(request) for request in sink.requests) <= 20
    assert max(sum(record.size for record in request) for request in sink.requests) <= 3_000
    assert sorted(sink.stored) == sorted(records)


# What is sent again


@pytest.mark.parametrize("throttled", [True, False])
def test_k11_only_the_records_that_failed_are_sent_again(throttled):
    sink = MemorySink(2, QUICK)
    failing = {f"key-{number}" for number in range(0, 1_000, 50)}
    seen = refusing(sink, Refused(throttled, "failed"), failing, times=3)
    with Client(sink) as client:
        client.put_many(numbered(1_000), range(1_000), lambda _: None)
    assert {key: count for key, count in seen.items() if count > 1} == dict.fromkeys(failing, 4)
    counters = client.counters()
    assert (counters.throttled, counters.ambiguous) == ((60, 0) if throttled else (0, 60))


@pytest.mark.parametrize("error", [NotSentError("no connection"), AmbiguousError("cut")], ids=["not sent", "cut"])
def test_k13_requests_without_an_answer_are_sent_again_and_counted_as_what_they_are(error):
    sink = MemorySink(1, QUICK)
    left = [error] * 3

    def answer(records):
        if left:
            raise left.pop()
        return sink.store(records)

    sink.answering = answer
    with Client(sink, clock=SimulatedClock(sink)) as client:
        future = client.put("key", b"data")
    assert isinstance(future.result(0), Acked)
    counters = client.counters()
    ambiguous = isinstance(error, AmbiguousError)
    assert (counters.ambiguous, counters.retried) == ((3, 0) if ambiguous else (0, 3))


def test_k12_half_an_hour_without_the_stream_loses_nothing_and_needs_no_more_memory():
    sink = MemorySink(2)
    sink.keeps_requests = False
    clock = SimulatedClock(sink)
    is_down = threading.Event()
    is_down.set()

    def answer(records):
        if is_down.is_set():
            raise NotSentError("memory://stream: no connection")
        return sink.store(records)

    sink.answering = answer
    client = Client(sink, ClientSettings(queue_bytes=500_000), clock=clock)
    done: list[int] = []
    tracemalloc.start()
    thread = threading.Thread(
        target=client.put_many, args=(numbered(8_000, 100), range(8_000), done.extend), daemon=True
    )
    try:
        thread.start()
        until(lambda: client.counters().queue_bytes > 490_000)
        start = clock.now() + 60
        until(lambda: clock.now() > start)
        early = tracemalloc.get_traced_memory()[0]
        until(lambda: clock.now() > start + 1_740)
        late = tracemalloc.get_traced_memory()[0]
        requests = sink.asked
    finally:
        tracemalloc.stop()
    assert thread.is_alive()
    assert client.counters().queue_bytes <= 500_000
    assert late < early * 1.1
    assert requests < 64 * 1_800 / 10  # pauses of 10 s on average, with all threads at their ends
    is_down.clear()
    thread.join()
    client.close()
    assert sorted(done) == list(range(8_000))
    assert sorted(sink.stored) == sorted(numbered(8_000, 100))


def test_without_any_progress_the_client_gives_up_and_names_the_last_problem():
    sink = MemorySink(1)

    def answer(_):
        raise NotSentError("no route to host")

    sink.answering = answer
    clock = SimulatedClock(sink)
    client = Client(sink, ClientSettings(give_up_after=1_000.0), clock=clock)
    future = client.put("key", b"")
    with pytest.raises(NotDeliveredError, match=r"for 1000 s; 1 wait.* no route to host"):
        client.close()
    assert isinstance(future.exception(0), NotDeliveredError)
    assert clock.now() >= 1_000


def test_progress_of_others_is_progress():
    sink = MemorySink(1, QUICK)
    refusing(sink, Refused(throttled=False, message="InternalFailure"), {"stuck"}, times=10**9)
    clock = SimulatedClock(sink)
    client = Client(sink, ClientSettings(give_up_after=140.0), clock=clock)
    stuck = client.put("stuck", b"")
    while clock.now() < 300:
        client.put("moves", b"").result(60)
    assert not stuck.done()
    with pytest.raises(NotDeliveredError):
        client.close()


def test_a_stream_that_does_not_answer_at_the_start_is_asked_again():
    sink = MemorySink(1)
    failing = [NotSentError("no connection")] * 5
    real = sink.shards

    def answer():
        if failing:
            raise failing.pop()
        return real()

    sink.shards = answer
    with Client(sink, clock=SimulatedClock(sink)) as client:
        client.put("key", b"")
    failing += [NotSentError("no connection")] * 10_000
    with pytest.raises(NotDeliveredError, match="memory://stream: no answer"):
        Client(sink, ClientSettings(give_up_after=60.0), clock=SimulatedClock(sink))


# Shards


def test_k3_an_answer_with_an_unknown_shard_lets_the_client_list_the_shards():
    sink = MemorySink(1, QUICK)
    clock = SimulatedClock(sink)
    client = Client(sink, ClientSettings(map_every=1e9, give_up_after=1e9), clock=clock)
    client.put("before", b"").result(60)
    sink.open_shards = shards(2, first=1)
    client.put("after", b"").result(60)
    until(lambda: sink.maps_read >= 2)
    client.close()


def test_k3_what_waits_goes_to_the_shards_that_replace_its_own():
    sink = MemorySink(1)
    clock = SimulatedClock(sink)
    client = Client(sink, ClientSettings(linger=0.01), clock=clock)
    thread = threading.Thread(target=client.put_many, args=(numbered(6_000), range(6_000), lambda _: None))
    thread.start()
    until(lambda: client.counters().acked > 100)
    sink.open_shards = shards(3, first=1)
    thread.join()
    client.close()
    assert sorted(sink.stored) == sorted(numbered(6_000))
    assert sink.maps_read >= 2
    assert {"shard-1", "shard-2", "shard-3"} <= set(client.counters().blocked)


def test_shards_are_listed_each_minute():
    sink = MemorySink(1)
    clock = SimulatedClock(sink)
    with Client(sink, clock=clock):
        until(lambda: clock.now() > 200)
    assert 3 <= sink.maps_read <= 5


def test_a_hot_key_waits_while_the_others_pass():
    sink = MemorySink(4, Limits(records_a_second=100))
    clock = SimulatedClock(sink)
    hot = next(record for record in numbered(100) if sink.shard_of(record) == "shard-0")
    others = [record for record in numbered(400) if sink.shard_of(record) != "shard-0"]
    with Client(sink, clock=clock) as client:
        client.put_many([hot] * 2_000, range(2_000), lambda _: None)
        start = clock.now()
        futures = [client.put(*record) for record in others]
        for future in futures:
            future.result(60)
        assert clock.now() - start < 5.0
        assert client.counters().open > 1_000
    assert clock.now() - start > 10.0


# Three parts


def test_k10_facade_limiter_and_worker_know_each_other_by_what_they_do():
    """The limiter knows time and numbers, the worker a sink. Only the facade's defaults name both."""
    names = {"facade", "limiter", "worker", "buffer", "chunks", "answers"}

    def known(module: str) -> set[str]:
        tree = ast.parse((Path(facade.__file__).parent / f"{module}.py").read_text(encoding="utf-8"))
        froms = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        return {name for each in froms if (name := each.rpartition("client.")[2]) in names}

    assert known("limiter") == set()
    assert known("worker") == set()
    assert known("buffer") == {"chunks"}
    assert known("chunks") == set()


# The end


def test_leaving_the_block_waits_for_all_also_after_an_error_of_the_block():
    sink = MemorySink(1, QUICK)
    client = Client(sink, ClientSettings(linger=NEVER))
    future = client.put("key", b"")
    with pytest.raises(RuntimeError, match="of the block"), client:
        raise RuntimeError("of the block")
    assert isinstance(future.result(0), Acked)
    with pytest.raises(ValueError, match="is closed"):
        client.put("key", b"")
    client.close()


def test_ctrl_c_does_not_wait_for_the_stream():
    sink = MemorySink(1)

    def answer(_):
        raise NotSentError("no connection")

    sink.answering = answer
    client = Client(sink)
    future = client.put("key", b"")
    with pytest.raises(KeyboardInterrupt), client:
        raise KeyboardInterrupt
    assert isinstance(future.exception(0), NotDeliveredError)


ENDS = """
import sys
from feed_assets.delivery.client import facade
from feed_assets.delivery.client.facade import Client
from feed_assets_tests.delivery.client.memory import MemorySink
sink = MemorySink()
sink.gate.clear()
client = Client(sink)
for number in range(3):
    client.put("key", b"")
if "closes" in sys.argv:
    sink.gate.set()
    client.close()
print("printed")
"""


def test_k7_an_interpreter_that_ends_with_open_records_says_how_many_and_fails():
    ended = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stdout == "printed\n"
    assert ended.stderr.startswith("Error: memory://stream: 3 records are not acknowledged")
    ended = subprocess.run([sys.executable, "-c", ENDS, "closes"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "printed\n", "")
