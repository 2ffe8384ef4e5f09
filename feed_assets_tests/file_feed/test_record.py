"""Records: the same after a round trip, readable by other versions, and never in the way of reading."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.file_feed import (
    CheckOutcome,
    Column,
    Facts,
    Feed,
    FeedInput,
    File,
    RawFile,
    RawHour,
    RawInput,
    Record,
    Rows,
    Transition,
    UnreadableRecordError,
    claim,
    inputs_digest,
    read_record,
    recorded_digests,
    records,
    stage,
    update_name,
)
from feed_assets.file_feed.control import record_key
from feed_assets.file_feed.record import FORMAT
from feed_assets_tests.blackboard.recording import RecordingBlackboard

NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
TEXT = st.text(max_size=8)
COUNT = st.integers(0, 10**12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT, lambda each: st.dictionaries(TEXT, each, max_size=2)
)

FEED_INPUTS = st.builds(FeedInput, TEXT, st.none() | TEXT, st.none() | TEXT, st.booleans())
RAW_INPUTS = st.builds(
    RawInput, TEXT, TEXT, st.lists(st.builds(RawFile, TEXT, COUNT, TEXT), max_size=3).map(tuple), st.booleans()
)
HOURS = st.dictionaries(TEXT, st.builds(RawHour, COUNT, COUNT, TEXT), max_size=3)
LISTED = st.builds(RawInput, TEXT, TEXT, st.just(()), st.booleans(), HOURS)
INPUTS = st.lists(FEED_INPUTS | RAW_INPUTS, max_size=4).map(tuple)
RECORDS = st.builds(
    Record,
    partition=st.none() | TEXT,
    update=st.datetimes(timezones=st.just(UTC)).map(update_name),
    owner=TEXT,
    token=TEXT,
    files=st.lists(st.builds(File, TEXT, COUNT, TEXT), max_size=3).map(tuple),
    facts=st.builds(
        Facts,
        rows=st.none() | st.builds(Rows, COUNT, COUNT, COUNT, COUNT, st.dictionaries(TEXT, COUNT, max_size=2)),
        schema=st.lists(st.builds(Column, TEXT, TEXT, st.booleans(), TEXT), max_size=2).map(tuple),
        inputs=st.lists(FEED_INPUTS | RAW_INPUTS | LISTED, max_size=4).map(tuple),
        code_version=TEXT,
        config_digest=TEXT,
        run_id=TEXT,
        root_run_id=TEXT,
        details=st.dictionaries(TEXT, JSON, max_size=2),
    ),
    checks=st.lists(
        st.builds(
            CheckOutcome,
            TEXT,
            st.booleans(),
            st.sampled_from(["ERROR", "WARN"]),
            st.dictionaries(TEXT, JSON, max_size=2),
        ),
        max_size=2,
    ).map(tuple),
    history=st.lists(
        st.builds(
            Transition,
            st.sampled_from(["staged", "publishing", "published", "rejected", "invalidated"]),
            st.datetimes(timezones=st.just(UTC)),
            TEXT,
            TEXT,
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
)


def record() -> Record:
    facts = Facts(Rows(3, 1, 1, 1, {"no time": 1}), (Column("ad_id", "bigint"),), (FeedInput("ads/v1.0", "d", "u"),))
    history = (Transition("staged", NOW), Transition("published", NOW, "good", "me"))
    return Record("2018-05-20", "20180521.160000", "run", "token", (File("a", 1, "t"),), facts, history=history)


@given(RECORDS)
def test_a_record_is_the_same_after_a_round_trip(written: Record) -> None:
    read = Record.from_json(written.to_json(), origin="x")
    assert read == written
    assert read.to_json() == written.to_json()


def test_the_state_is_the_last_one_it_was_put_into() -> None:
    assert record().state == "published"


def test_the_root_of_an_update_is_the_first_run_of_its_chain() -> None:
    assert Facts(run_id="second", root_run_id="first").root == "first"
    assert Facts(run_id="first").root == "first"


def test_fields_that_a_later_version_added_are_passed_over() -> None:
    content = json.loads(record().to_json())
    for part in (content, content["facts"], content["facts"]["rows"], content["files"][0], content["history"][0]):
        part["added later"] = [1]
    assert Record.from_json(json.dumps(content).encode(), origin="x") == record()


def test_fields_with_a_default_may_be_missing() -> None:
    content = json.loads(record().to_json())
    del (
        content["facts"]["root_run_id"],
        content["facts"]["inputs"][0]["context"],
        content["facts"]["details"],
        content["facts"]["schema"][0]["description"],
    )
    assert Record.from_json(json.dumps(content).encode(), origin="x") == record()


def test_a_record_of_a_later_format_is_refused_with_the_way_out() -> None:
    content = json.loads(record().to_json()) | {"format": FORMAT + 1}
    with pytest.raises(UnreadableRecordError, match=rf"somewhere is of format {FORMAT + 1}.*upgrade"):
        Record.from_json(json.dumps(content).encode(), origin="somewhere")


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"{}", b"[]", b"null", b"1", b'"x"', b"\xff", b'{"format": 1}', b'{"format": "1"}'),
        b"[" * 100_000,
        record().to_json().replace(b'"history":[', b'"history":[1,'),
        record().to_json().replace(b"2018-05-21T16", b"yesterday"),
        record().to_json()[:-1],
        json.dumps(json.loads(record().to_json()) | {"history": []}).encode(),
        json.dumps(json.loads(record().to_json()) | {"update": None}).encode(),
        json.dumps(json.loads(record().to_json()) | {"update": "20180230.000000"}).encode(),
    ],
)  # fmt: skip
def test_a_damaged_record_is_told_from_where_it_is_and_what_it_costs(data: bytes) -> None:
    with pytest.raises(UnreadableRecordError, match=r"(?s)somewhere is damaged.*does not depend on it"):
        Record.from_json(data, origin="somewhere")


def places(value, path=()):
    """The path of each value in a JSON value, and the value."""
    for name, each in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, name), each
        if isinstance(each, dict | list):
            yield from places(each, (*path, name))


@pytest.mark.parametrize("other", [True, -1.5, 1, "x", [], {"a": "x"}, None], ids=repr)
def test_a_record_has_values_of_the_declared_types_or_is_damaged(other: object) -> None:
    raw = RawInput("ads/a", "2018-05-20", (), listed={"00": RawHour(1, 2, "x", 3)})
    checks = (CheckOutcome("unique", passed=True, severity="ERROR"),)
    sound = replace(record(), checks=checks, facts=replace(record().facts, inputs=(*record().facts.inputs, raw)))
    for path, value in places(json.loads(sound.to_json())):
        content = json.loads(sound.to_json())
        parent = content
        for name in path[:-1]:
            parent = parent[name]
        parent[path[-1]] = other

        try:
            read = Record.from_json(json.dumps(content).encode(), origin="somewhere")
        except UnreadableRecordError:
            continue

        missing = other is None and path[-1] in {"partition", "update", "rows", "records"}
        is_free = {"observed", "details"} & {*path} or path[-1] in {"format", "kind"}
        assert missing or is_free or type(other) is type(value), (path, value, other, read)


@given(INPUTS, st.randoms())
def test_the_digest_of_inputs_does_not_depend_on_their_order(inputs: tuple[FeedInput | RawInput, ...], order) -> None:
    shuffled = [
        replace(each, files=tuple(order.sample(each.files, len(each.files)))) if isinstance(each, RawInput) else each
        for each in inputs
    ]
    order.shuffle(shuffled)
    assert inputs_digest(shuffled) == inputs_digest(inputs)
    assert len(inputs_digest(inputs)) == 16


@given(INPUTS, INPUTS)
def test_digests_are_equal_exactly_where_the_same_was_read(
    one: tuple[FeedInput | RawInput, ...], other: tuple[FeedInput | RawInput, ...]
) -> None:
    def what_counts(inputs: tuple[FeedInput | RawInput, ...]) -> list[str]:
        feeds = [each for each in inputs if isinstance(each, FeedInput)]
        raw = [each for each in inputs if isinstance(each, RawInput)]
        return sorted(
            [
                *(
                    repr((each.source, each.partition, each.context, sorted(map(repr, each.files))))
                    for each in raw
                    if each.files
                ),
                *(repr(each) for each in feeds if not each.context),
                *(repr((each.feed, each.partition, each.update is not None)) for each in feeds if each.context),
            ]
        )

    assert (inputs_digest(one) == inputs_digest(other)) == (what_counts(one) == what_counts(other))


# --- finding them -----------------------------------------------------------------------------------------------------


@pytest.fixture
def feed() -> Feed:
    return Feed(MemoryBlackboard(), "ads/v1.0")


def write(feed: Feed, partition: str | None, **facts: object) -> Record:
    return stage(claim(feed, partition, now=NOW, owner="run"), (), Facts(**facts), now=NOW).record


def test_records_of_a_partition_come_newest_first(feed: Feed) -> None:
    written = [write(feed, "2018-05-20", run_id=str(number)) for number in range(5)]
    write(feed, "2018-05-21")
    assert records(feed, "2018-05-20") == written[::-1]
    assert records(feed, "2018-05-20", newest=2) == written[:2:-1]
    assert read_record(feed, "2018-05-20", written[2].update) == written[2]
    assert read_record(feed, "2018-05-20", "20180521.170000") is None


def test_the_records_of_a_feed_without_partitions_are_its_own(feed: Feed) -> None:
    written = write(feed, None)
    assert records(feed) == [written]
    assert read_record(feed, None, written.update) == written


def test_a_damaged_record_is_none_and_is_logged(feed: Feed, caplog: pytest.LogCaptureFixture) -> None:
    sound, damaged = write(feed, "2018-05-20"), write(feed, "2018-05-20")
    board, key = feed.blackboard, record_key(feed, "2018-05-20", damaged.update, inputs_digest(()))
    board.replace(key, b"{", tag=board.read(key).entry.tag)
    with caplog.at_level(logging.WARNING, "feed_assets.file_feed"):
        assert read_record(feed, "2018-05-20", damaged.update) is None
        assert records(feed, "2018-05-20") == [sound]
    assert caplog.text.count(f"{key} is damaged") == 2


def test_what_every_update_was_made_from_is_told_without_reading_a_record(feed: Feed) -> None:
    first = write(feed, "2018-05-20", inputs=(FeedInput("x", None, "1"),))
    second = write(feed, "2018-05-20", inputs=(FeedInput("x", None, "2"),))
    other = write(feed, "2018-05-21")
    board = RecordingBlackboard(feed.blackboard)
    digests = recorded_digests(Feed(board, feed.location))
    assert digests == {
        "2018-05-20": {each.update: inputs_digest(each.facts.inputs) for each in (first, second)},
        "2018-05-21": {other.update: inputs_digest(())},
    }
    assert board.counts() == {"page": 1}
    assert set(recorded_digests(feed, first="2018-05-21")) == {"2018-05-21"}
    assert set(recorded_digests(feed, last="2018-05-20")) == {"2018-05-20"}


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [("", "a", {"a.b", "a"}), ("a", None, {"a", "b"}), ("a", "a", {"a"}), ("a.b", "a.b", {"a.b"}), ("", None, None)],
)
def test_a_range_of_partitions_is_in_the_order_of_their_folders(
    feed: Feed, first: str, last: str | None, expected: set[str] | None
) -> None:
    names = {"a.b", "a", "b"}  # as folders: `a.b/` is before `a/`
    for partition in names:
        write(feed, partition)
    feed.blackboard.create("ads/v1.0/.feed/records/a/0/stray", b"")
    feed.blackboard.create("ads/v1.0/.feed/records/b.stray", b"")
    assert recorded_digests(feed, first=first, last=last).keys() == (names if expected is None else expected)


def test_the_digests_of_a_feed_without_partitions_are_under_the_empty_name(feed: Feed) -> None:
    written = write(feed, None)
    assert recorded_digests(feed) == {"": {written.update: inputs_digest(())}}


def test_other_things_among_the_records_are_passed_over(feed: Feed) -> None:
    written = write(feed, "2018-05-20")
    folder = "ads/v1.0/.feed/records/2018-05-20/"
    for name in ("README", "20180521.160000", f"{written.update}.json", "20180230.000000.0.json", ".json"):
        feed.blackboard.create(f"{folder}{name}", b"?")
    assert records(feed, "2018-05-20") == [written]
    assert set(recorded_digests(feed)["2018-05-20"]) == {written.update}
