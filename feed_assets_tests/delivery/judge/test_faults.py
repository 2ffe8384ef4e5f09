"""The judge: injected faults, and what the log says of them."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError, HTTPClientError

from feed_assets_tests.delivery.judge.asking import numbered
from feed_assets_tests.delivery.judge.faults import Rule
from feed_assets_tests.delivery.judge.running import refused, throttled
from feed_assets_tests.waiting import until


def test_the_plan_says_which_requests_and_records_fail_and_the_log_which_were_stored(judge):
    judge.create("planned")
    judge.inject(
        Rule("cut_before", requests=[0]),
        Rule("cut_after", requests=[1]),
        Rule("cut_within", requests=[2]),
        Rule("error_before", requests=[3], error="ServiceUnavailable", status=503),
        Rule("error_after", requests=[4]),
        throttled(requests=[5]),
        refused("AccessDeniedException", requests=[6]),
        Rule("record_error_before", requests=[7], records=[0]),
        Rule("record_error_after", requests=[7], keys=["key-1"]),
    )
    client = judge.client()

    def put() -> object:
        try:
            answer = client.put_records(StreamName="planned", Records=numbered(3))
        except HTTPClientError:
            return "cut"
        except ClientError as error:
            return error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]
        if "Records" not in answer:  # boto3 takes half of an answer for a whole one
            return "half"
        return [record.get("ErrorCode") for record in answer["Records"]]

    assert [put() for _ in range(9)] == [
        "cut",
        "cut",
        "half",
        ("ServiceUnavailable", 503),
        ("InternalFailure", 500),
        ("ProvisionedThroughputExceededException", 400),
        ("AccessDeniedException", 400),
        ["InternalFailure", "InternalFailure", None],
        [None, None, None],
    ]
    assert [(stored.data, stored.answered) for stored in judge.log] == [
        *[(b"0", False), (b"1", False), (b"2", False)] * 3,
        *[(b"1", False), (b"2", True)],
        *[(b"0", True), (b"1", True), (b"2", True)],
    ]
    account = judge.account()
    assert (account.unanswered.requests, account.unanswered.records) == (4, 10)
    assert account.faults == dict.fromkeys(("cut_before", "cut_after", "cut_within", "error_after"), 1) | {
        "error_before": 3,
        "record_error_before": 1,
        "record_error_after": 1,
    }
    assert account.violations == 0


def test_the_same_seed_gives_the_same_faults_at_the_chosen_rate(judge):
    judge.create("random")
    client = judge.client()

    def failed(seed: int) -> list[int]:
        judge.inject(Rule("record_error_before", rate=0.1), Rule("error_before", rate=0.2), seed=seed)
        judge.advance(1)
        found = []
        for request in range(20):
            try:
                answer = client.put_records(StreamName="random", Records=numbered(50))
            except ClientError:
                found.append(-1)
            else:
                found += [50 * request + n for n, each in enumerate(answer["Records"]) if "ErrorCode" in each]
        return found

    first = failed(1)
    assert failed(1) == first != failed(2)
    assert 1 <= first.count(-1) <= 10
    assert 40 <= len(first) <= 130


def test_a_client_that_leaves_before_a_late_answer_is_counted_as_gone(judge):
    judge.create("late")
    judge.inject(Rule("delay_after", seconds=0.5, times=1))
    impatient = judge.client(config=Config(read_timeout=0.1, retries={"max_attempts": 0}))
    with pytest.raises(HTTPClientError):
        impatient.put_records(StreamName="late", Records=numbered(3))
    impatient.close()
    until(lambda: judge.account().gone.requests)
    assert judge.account().gone.records == 3
    judge.inject(Rule("delay_before", seconds=0.2))
    begun = time.time()
    judge.client().put_record(StreamName="late", Data=b"waited", PartitionKey="k")
    assert list(judge.log)[-1].arrived >= begun + 0.2


def test_in_an_outage_connections_are_refused_and_afterwards_all_is_as_before(judge):
    judge.create("outage")
    client = judge.client()
    client.put_record(StreamName="outage", Data=b"before", PartitionKey="k")
    judge.outage(1)

    def refused() -> bool:
        try:
            client.put_record(StreamName="outage", Data=b"after", PartitionKey="k")
        except (HTTPClientError, EndpointConnectionError):
            return True
        return False

    until(refused)
    until(lambda: not refused())
    data = [stored.data for stored in judge.log]
    assert (data[0], set(data[1:])) == (b"before", {b"after"})


def test_what_was_stored_and_not_acknowledged_is_exactly_what_the_log_marks(judge):
    judge.create("marked", shards=2)
    kinds = ("cut_before", "cut_after", "error_after", "record_error_before", "record_error_after")
    judge.inject(*(Rule(kind, rate=0.1) for kind in kinds), seed=3)
    acknowledged: list[Counter] = [Counter() for _ in range(4)]

    def send(sender: int) -> None:
        client = judge.client()
        waiting = [b"%d-%d" % (sender, number) for number in range(300)]
        while waiting:
            batch, waiting = waiting[:100], waiting[100:]
            records = [{"Data": data, "PartitionKey": data.decode()} for data in batch]
            try:
                answers = client.put_records(StreamName="marked", Records=records)["Records"]
            except (HTTPClientError, ClientError):
                waiting += batch
                continue
            for data, answer in zip(batch, answers, strict=True):
                if "ErrorCode" in answer:
                    waiting.append(data)
                else:
                    acknowledged[sender][data] += 1

    with ThreadPoolExecutor() as pool:
        list(pool.map(send, range(4)))
    acked = sum(acknowledged, Counter())
    stored = Counter(record.data for record in judge.log)
    marked = Counter(record.data for record in judge.log if not record.answered)
    assert (len(acked), set(acked.values())) == (1200, {1})
    assert stored - acked == marked
    assert marked.total() == judge.account().unanswered.records > 0
    assert judge.account().violations == 0
