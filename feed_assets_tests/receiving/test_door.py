"""The door: the records of a body, and which of them cannot be used."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import nullcontext
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feed_assets.ads.schemas import KINDS
from feed_assets.receiving.door import Door, can_be_pushed, require_an_object
from feed_assets.receiving.door import split as split_up_to
from feed_assets.serving.bodies import BodyError, TooLargeError
from feed_assets.sources.loading import load_source
from feed_assets_tests.receiving.serving import EVENTS

MOST = 1000
split = partial(split_up_to, most=MOST)
LINES, ARRAY = "application/x-ndjson", "application/json"
GOOD = b'{"id":"1","time":"2019-11-24 12:00:00"}'

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.lists(st.dictionaries(st.text(max_size=5), values), max_size=5), st.sampled_from([None, 1]))
def test_an_array_and_lines_of_the_same_records_are_the_same_records_however_they_are_spaced(records, indent):
    array = json.dumps(records, indent=indent).encode()
    lines = "\r\n\r\n".join(json.dumps(record) for record in records).encode()

    found = split(array, ARRAY)

    assert [json.loads(each) for each in found] == [json.loads(each) for each in split(lines, LINES)] == records
    assert not any(b"\n" in each or b"\r" in each for each in found)


def test_numbers_keep_all_their_digits_and_one_object_is_a_record():
    assert split(b' [{"n":0.10000000000000000000001},\n{"n":1e400}] ', ARRAY) == [
        b'{"n":0.10000000000000000000001}',
        b'{"n":1e400}',
    ]
    assert split(b'\xef\xbb\xbf{\n"n": 1\n}', ARRAY) == [b'{ "n": 1 }']
    assert split(b"", LINES) == split(b"\n", LINES) == split(b"[]", ARRAY) == []


@pytest.mark.parametrize("body", [b'[{"a":1},', b"[" * 100_000, b'[{"a":1}] x'])
def test_an_array_that_is_cut_off_or_too_deep_is_refused_whole(body):
    with pytest.raises(BodyError, match="Nothing was taken"):
        split(body, ARRAY)


@pytest.mark.parametrize(
    ("body", "media_type"),
    [(b"10\n" * 1_000_000, LINES), (b"1\n \n" * 1_000_000, LINES), (b"[" + b"10," * 1_000_000 + b"1]", ARRAY)],
)
def test_a_body_of_a_million_tiny_records_is_refused_without_an_object_for_each(body, media_type):
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError, match=r"1,000.* send it in parts"):
            split(body, media_type)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(body)
    finally:
        tracemalloc.stop()


def test_as_many_records_as_are_allowed_are_taken_whatever_is_in_them():
    record = b'{"a":[1,2,{"b":","}]}'

    assert split(b"[" + b",".join([record] * MOST) + b"]", ARRAY) == [record] * MOST
    assert split(b"\r\n\r\n".join([record] * MOST), LINES) == [record] * MOST
    with pytest.raises(TooLargeError):
        split(b"[" + b",".join([record] * (MOST + 1)) + b"]", ARRAY)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (GOOD, ""),
        (b'{"id":null,"time":"never"}', "nothing identifies the record: no value for id"),
        (b'{"id":"null","time":"never"}', "nothing identifies the record: no value for id"),
        (b'{"ID":"1","time":"never"}', "nothing identifies the record: no value for id"),
        (b'{"id":1,"time":""}', "the record has no time: no value for time"),
        (b'{"id":1,"time":0}', ""),
        (b"nope", "is not a JSON object: JSON is malformed: invalid character (byte 4)"),
        (b"[1]", "is not a JSON object: Expected `object`, got `array`"),
        (GOOD[:-1], "is not a JSON object: Input data was truncated"),
        (GOOD + b"x", "is not a JSON object: JSON is malformed: trailing characters (byte 40)"),
        (b'{"id":"1","time":"a\x00"}', "is not a JSON object: JSON is malformed: invalid character (byte 19)"),
        (b'{"id":"1","time":"1","ad":"\xff"}', "is not UTF-8"),
        (b'{"id":1,"time":1,"ad":"' + b"x" * 1000 + b'"}', "has 1,025 bytes, more than 1,000"),
        (b'{"id":1,"time":1,"ad":' + b"[" * 200 + b"]" * 200 + b"}", "is nested more than 100 levels deep"),
        (b'{"id":1,"time":1,"ad":"' + b"[" * 200 + b'"}', ""),
        (b'{"id":1,"time":1,"ad":[' + b"[]," * 200 + b"1]}", ""),
    ],
)
def test_a_record_that_nobody_could_use_is_known_at_the_door(source, record, reason):
    door = Door.of(source, record_bytes=1000)

    assert door.judge([GOOD, record]) == (((1, reason),) if reason else ())


def test_the_depth_of_a_record_full_of_brackets_is_found_without_an_object_for_each(source):
    record = b'{"id":1,"time":1,"ad":[' + b"[]," * 300_000 + b"[]]}"
    door = Door.of(source, record_bytes=2**20)
    tracemalloc.start()
    try:
        assert door.judge([record]) == ()
        assert tracemalloc.get_traced_memory()[1] < 4 * len(record)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", [b'\\"', b'{\\"a\\":[\\"b\\"]},', b'"', b"[", b"\\"])
def test_a_large_record_with_a_string_that_is_never_closed_is_refused_without_reading_it_again_and_again(source, text):
    start = b'{"id":"1","time":"2019-11-24 12:00:00","place":"' + b"[" * 101
    record = start + text * ((2**20 - len(start)) // len(text))

    ((index, reason),) = Door.of(source, record_bytes=2**20).judge([record])

    assert (index, reason.partition(":")[0]) == (0, "is not a JSON object")


def test_a_record_passes_if_any_column_of_its_identity_and_of_its_time_has_a_value(tmp_path):
    path = tmp_path / "shop_ads.yaml"
    path.write_text(
        EVENTS.replace("identity: [id]", "identity: [ID, user]")
        .replace("columns: [id,", 'columns: [id, "a\\"b",')
        .replace("to_timestamp(time)", "coalesce(to_timestamp(`time`), date('2019-11-24'), ad, 'place')"),
        encoding="utf-8",
    )
    door = Door.of(load_source(path, KINDS), record_bytes=1000)

    assert [index for index, _ in door.judge([b'{"user":1,"ad":1}', b'{"user":1,"place":1}', b'{"ad":1}'])] == [1, 2]


def test_only_json_lines_in_utf_8_that_are_not_polled_are_pushed(tmp_path):
    def described(text, more=""):
        path = tmp_path / "shop_ads.yaml"
        path.write_text(EVENTS.replace("type: jsonl,", text) + more, encoding="utf-8")
        return load_source(path, KINDS)

    assert can_be_pushed(described("type: jsonl,"))
    assert not can_be_pushed(described("type: jsonl, encoding: latin-1,"))
    assert not can_be_pushed(described("type: csv,"))
    assert not can_be_pushed(described("type: jsonl,", f"poll: {{place: {tmp_path}, pattern: '*.jsonl', every: 1h}}\n"))


@pytest.mark.parametrize(
    ("records", "is_refused"),
    [
        ([], False),
        ([GOOD, b"nope"], False),
        ([b"nope", b"\xff", b'{"id":""}'], False),
        ([b'{"id":"' + b"x" * 2000 + b'"}'], False),
        ([b'{"id":' + b"[" * 200 + b"]" * 200 + b"}"], False),
        ([b"nope"], True),
        ([b"1", b'"text"', b"null", b"[1]"], True),
        ([b'{"id":"1","time":"1","ad":"\xe9"}'] * 2, True),
        ([b"{'id': 1}", b"{id: 1}"], True),
        ([b"x" * 2000], True),
        ([b'{"id":' + b"[" * 100_000], True),
    ],
)
def test_a_body_is_refused_whole_if_none_of_its_records_is_a_json_object_in_utf_8(source, records, is_refused):
    rejected = Door.of(source, record_bytes=1000).judge(records)

    with pytest.raises(BodyError, match="Nothing was taken") if is_refused else nullcontext():
        require_an_object(records, rejected)
