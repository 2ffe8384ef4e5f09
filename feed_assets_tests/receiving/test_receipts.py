"""Receipts: from a line of a landed file to its request, and from the id of a request to its lines."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.receiving.receipts import Receipt, Receipts, find_request, requests_of, write_receipts
from feed_assets.receiving.rejections import kind_of, line_of, marked, read_line, unmarked

AT = datetime(2019, 12, 1, tzinfo=UTC)
FILE = "20191201T120000000000-0123456789abcdef.jsonl"


def receipts(*requests, source="ads/shop_ads", file=FILE):
    """Receipts of requests, each an id, and how many records are accepted and rejected."""
    made, line = [], 1
    for request_id, accepted, rejected in requests:
        reasons = tuple((index, "is not UTF-8") for index in range(rejected))
        made.append(Receipt(request_id, AT, line, accepted, "acme", reasons))
        line += accepted + rejected
    return Receipts(source, file, "0123456789abcdef", tuple(made))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8))
def test_each_line_leads_to_its_request_and_index_and_no_other_line_does(counts):
    found = receipts(*((f"r-{number}", *each) for number, each in enumerate(counts)))

    lines = [(f"r-{number}", index) for number, each in enumerate(counts) for index in range(sum(each))]

    assert [
        (of_line[0].request_id, of_line[1])
        for line in range(len(lines) + 3)
        if (of_line := found.of_line(line)) is not None
    ] == lines


def test_a_request_is_found_by_its_id_among_those_of_all_receivers_and_sources_whoever_wrote_it_again():
    board = MemoryBlackboard()
    other = FILE.replace("0123", "4567")
    written = [
        receipts(("one-1", 1, 0), ("one-5", 0, 1)),
        receipts(("one-2", 1, 0), ("one-9", 1, 0), source="clicks/shop_clicks"),
        receipts(("two-3", 2, 0), file=other),
        receipts(("one-10", 1, 0), ("one-7", 1, 0), file=FILE.replace("0123", "89ab")),
    ]
    for _ in range(2):
        for each in written:
            write_receipts(board, each)

    for each in written:
        assert requests_of(board, each.source, each.file) == each
        for request in each.requests:
            found = find_request(board, request.request_id)
            assert found is not None
            assert (found.source, found.file, found.receipt) == (each.source, each.file, request)
    assert [find_request(board, name) for name in ("one-3", "one-11", "three-1", "one", "../x-1", "", "one-x")] == [
        None
    ] * 7
    assert requests_of(board, "ads/shop_ads", "../log.csv") is None


def test_finding_a_request_reads_one_object_however_many_segments_landed():
    board = MemoryBlackboard()
    for number in range(50):
        file = f"20191201T12{number:02}00000000-0123456789abcdef.jsonl"
        requests = [(f"one-{10 * number + each}", 1, 0) for each in range(10)]
        write_receipts(board, receipts(*requests, file=file))
    reads = []
    read = board.read
    board.read = lambda key, **more: reads.append(key) or read(key, **more)

    assert find_request(board, "one-234") is not None
    assert len(reads) == 1


def test_reasons_are_counted_without_what_differs_from_record_to_record():
    assert kind_of("is not a JSON object: JSON is malformed: invalid character (byte 4)") == "is not a JSON object"
    assert kind_of("has 2,000,000 bytes, more than 1,048,576") == "has more than 1,048,576 bytes"
    assert kind_of("the record has no time: no value for time") == "the record has no time: no value for time"
    assert kind_of("cost is not a number") == "cost is not a number"


def test_the_line_of_a_rejected_record_has_its_reason_and_text_and_no_other_line_is_read_as_one():
    assert read_line(line_of("is not UTF-8", b"\xff").decode()) == ("is not UTF-8", "\\xff")
    assert read_line('["a","b","20191201"]') == ("a", "b")
    for other in ('["a"]', '["a","b","c","d"]', '["a",1]', '["a"', "{}", "", '[1,"a"]'):
        assert read_line(other) is None


def test_a_mark_makes_a_line_unlike_any_other_and_goes_again():
    for line in ('{"id":1}', '{ "id": 1}', "{}", '{"_segment":1}'):
        assert unmarked(marked("resubmitted f:1", line.encode()).decode()).replace(" ", "") == line.replace(" ", "")
    assert unmarked('{"_segment x":true,"id":1}') == '{"id":1}'
    assert unmarked('{"_segments":true}') == '{"_segments":true}'
