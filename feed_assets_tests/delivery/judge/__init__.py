"""The judge: a Kinesis server for tests that answers by itself, and keeps an account of its own.

It is written from the API's model in botocore and AWS's pages, by somebody who has not read the client, and shares no
code with it. Its log says what arrived, its account what was throttled, refused, or done without an answer.

With the fixture `judge` of `feed_assets_tests/conftest.py`, a new process for each test:

    def test_every_record_arrives(judge, monkeypatch):
        for name, value in judge.environment.items():  # AWS_ENDPOINT_URL_KINESIS, credentials, region
            monkeypatch.setenv(name, value)
        judge.create("prices", shards=2)
        judge.inject(Rule("cut_after", rate=0.02), Rule("record_error_before", rate=0.01), seed=7)
        judge.when("prices", "UpdateShardCount", after_records=5000, TargetShardCount=4, ScalingType="UNIFORM_SCALING")
        ...  # the client sends
        assert {stored.data for stored in judge.log.of("prices")} == expected
        account = judge.account()
        assert account.violations == 0, account.described
        assert account.total("prices").throttled_percent < 1

`Rule` is in `judge.faults`, which lists all faults; `throttled()` and `refused("AccessDeniedException")` are in
`judge.running`, as is `judging()`, the same without pytest. Faults hit PutRecords and PutRecord unless a rule says
`operations`. `judge.set(iterator_seconds=2)` changes a field of `limits.Settings`, `judge.know(...)` adds credentials,
`judge.trim`, `judge.advance` and `judge.outage` act at once. After `judge.stop_clock()` only `advance` lets time pass,
so that throttling and expiry do not depend on the machine. That is the judge's clock; clients have their own. `server`
lists the same as HTTP, for clients in other languages.

A repeat in the log is explained if an earlier copy is not `answered`; beside these, at most `account.gone.records`
records may repeat, whose client had left before the answer. Signatures (SigV4) are verified for each request.

Limits are AWS's (`limits`): 500 records and 10 MiB a request are violations and refuse it whole; 1,000 records and
1,000,000 bytes a shard in any sliding second throttle the single record. Bytes are data and key.
"""
