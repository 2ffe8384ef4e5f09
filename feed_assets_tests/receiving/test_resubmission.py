"""Corrected records land once each, whatever fails in between, and what is still wrong is told."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.operations.record_origins import Origins
from feed_assets.receiving.receipts import Receipt, Receipts, write_receipts
from feed_assets.receiving.resubmission import (
    NOT_THERE,
    TWICE,
    Correction,
    CorrectionError,
    Place,
    read_corrections,
    resubmit,
)
from feed_assets_tests.receiving.light import WithoutSpark
from feed_assets_tests.receiving.serving import SOURCE

FILE = "20191201T120000000000-0123456789abcdef.jsonl"
NOW = datetime(2019, 12, 1, tzinfo=UTC)
THERE = {Place(FILE, line) for line in range(1, 10)}


@pytest.fixture
def board(tmp_path):
    return LocalBlackboard(tmp_path / "base")


@pytest.fixture
def land(board, source):
    """Lands as the receiver's lander does, without Spark; `land.fails` lets it fail first."""

    def landed(file):
        if landed.fails:
            landed.fails = False
            raise OSError("No space left on device")
        (landing,) = WithoutSpark(board, None, [source], None, None).land(source, [file])
        assert not isinstance(landing, Exception)
        return landing

    landed.fails = False
    return landed


def correction(line, record=None, file=FILE):
    fields = {"id": f"{line}", "time": "2019-11-24 12:00:00"} if record is None else record
    return Correction(Place(file, line), json.dumps(fields).encode())


def landed_ids(tmp_path):
    folder = tmp_path / f"base/raw/.sent/{SOURCE}"
    return sorted(json.loads(line)["id"] for file in folder.iterdir() for line in file.read_bytes().splitlines())


def test_each_record_lands_once_however_often_and_with_which_others_its_correction_comes(tmp_path, board, source, land):
    first = resubmit(board, source, [correction(1), correction(2)], THERE, land)
    again = resubmit(board, source, [correction(1), correction(2)], THERE, land)
    more = resubmit(board, source, [correction(2), correction(3), correction(1, {"id": "other"})], THERE, land)

    assert [len(each.landed) for each in (first, again, more)] == [2, 0, 1]
    assert [len(each.before) for each in (first, again, more)] == [0, 2, 2]
    assert [len(each.landings) for each in (first, again, more)] == [1, 0, 1]
    assert landed_ids(tmp_path) == ["1", "2", "3"]


def test_what_is_still_wrong_is_refused_with_its_reason_and_the_others_land(tmp_path, board, source, land):
    no_object = Correction(Place(FILE, 4), b"nope")
    done = resubmit(
        board,
        source,
        [correction(1), correction(2, {"id": "2"}), correction(1), correction(99), no_object],
        THERE,
        land,
    )

    assert [each.place.line for each in done.landed] == [1]
    assert [(each.place.line, reason) for each, reason in done.refused] == [
        (2, "the record has no time: no value for time"),
        (1, TWICE),
        (99, NOT_THERE),
        (4, "is not a JSON object: JSON is malformed: invalid character (byte 4)"),
    ]
    assert landed_ids(tmp_path) == ["1"]
    assert resubmit(board, source, [correction(2)], THERE, land).landed == (correction(2),)  # nothing was kept of it


def test_a_landing_that_failed_is_completed_by_the_next_call_also_one_with_other_records(tmp_path, board, source, land):
    land.fails = True
    with pytest.raises(OSError, match="No space"):
        resubmit(board, source, [correction(1)], THERE, land)

    done = resubmit(board, source, [correction(1), correction(2)], THERE, land)

    assert [each.place.line for each in done.before] == [1]
    assert len(done.landings) == 2
    assert landed_ids(tmp_path) == ["1", "2"]


def test_of_two_that_resubmit_at_the_same_time_only_one_lands_a_record(tmp_path, board, source, land):
    create, others = board.create, [[correction(1), correction(2)]]

    def slow(key, data):
        if others and ".resubmitted" in key:
            resubmit(board, source, others.pop(), THERE, land)
        return create(key, data)

    board.create = slow
    done = resubmit(board, source, [correction(2), correction(3)], THERE, land)

    assert [each.place.line for each in done.landed] == [3]
    assert landed_ids(tmp_path) == ["1", "2", "3"]


def test_two_corrections_with_the_same_text_are_two_records(tmp_path, board, source, land):
    same = {"id": "x", "time": "2019-11-24 12:00:00"}

    resubmit(board, source, [correction(1, same), correction(2, same)], THERE, land)
    resubmit(board, source, [correction(3, same)], THERE, land)

    assert landed_ids(tmp_path) == ["x", "x", "x"]


def test_a_corrected_record_leads_to_the_request_of_the_record_that_it_replaces(board, source, land):
    request = Receipt("r-1", NOW, 1, 9, "acme")
    write_receipts(board, Receipts(SOURCE, FILE, "0123456789abcdef", (request,)))
    resubmit(board, source, [correction(3), correction(5)], THERE, land)
    corrected = "resubmitted-000001.jsonl"
    again = Place(corrected, 2)
    resubmit(board, source, [Correction(again, correction(5).record)], {again}, land)
    origins = Origins(board)

    origin = origins.of([SOURCE], corrected, 2)
    assert origin is not None
    assert (origin.request_id, origin.partner, origin.index) == ("r-1", "acme", 4)
    assert origins.of([SOURCE], "resubmitted-000002.jsonl", 1) == origin
    assert [origins.of([SOURCE], *each) for each in ((corrected, 3), (corrected, None), ("log.csv", 1))] == [None] * 3
    assert [origins.is_resubmitted(SOURCE, FILE, line) for line in (3, 4)] == [True, False]


def test_exported_lines_are_read_with_all_digits_and_a_line_in_another_form_is_named():
    record = '{"id":12345678901234567890123,"cost":0.1000000000000000055}'
    text = json.dumps({"source": "a/b", "file": "f", "line": 1, "reason": "x", "record": "nope"})
    line = f'{{"source":"a/b","file":"f","line":2,"index":7,"record":{record}}}'

    (found,) = read_corrections(f"{text}\n\n{line}\n".encode()).values()

    assert [each.record for each in found] == [b"nope", record.encode()]
    for bad in (b"[]", b'{"source":"a/b","file":"f","line":"2","record":{}}', b"{", b"\xff"):
        with pytest.raises(CorrectionError, match=r"^2 is no line of `feed-assets quarantine export`"):
            read_corrections(b"\n" + bad)
