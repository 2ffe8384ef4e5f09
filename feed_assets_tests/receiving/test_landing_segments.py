"""Segments land: each event once, whatever was killed; rejected records are in quarantine with their reason."""

from __future__ import annotations

import json
import os
import signal
from datetime import UTC, date, datetime
from multiprocessing import get_context

import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.journal.on_disk import DiskSegments
from feed_assets.receiving.door import Door, split
from feed_assets.receiving.entries import Entry, Header, framed
from feed_assets.receiving.landing_segments import Place, land_segments, write_files
from feed_assets.sources.ledger import current_landings
from feed_assets.sources.loading import load_source
from feed_assets.sources.raw import raw_days, raw_frame
from feed_assets_tests.receiving.serving import EVENTS, SOURCE

NOW = datetime(2019, 12, 1, tzinfo=UTC)


@pytest.fixture
def journal(tmp_path):
    return DiskSegments(tmp_path / "journal")


@pytest.fixture(autouse=True)
def _directory(tmp_path):
    (tmp_path / "journal").mkdir()


def event(name, time="2019-11-24 12:00:00", **more):
    return json.dumps({"id": name, "time": time, **more}).encode()


def segment_of(journal, source, *bodies, key=SOURCE):
    """A sealed segment with a request for each of these bodies, as the server writes it."""
    name = journal.begin()
    door = Door.of(source, record_bytes=10_000)
    for number, body in enumerate(bodies):
        records = split(body, "application/x-ndjson", most=1000)
        rejected = door.judge(records)
        header = Header(key, f"request-{number}", len(records) - len(rejected), rejected)
        journal.append([framed(Entry(header, b"".join(each + b"\n" for each in records)))])
    journal.seal(name)
    return name


def test_the_file_of_a_segment_is_the_same_each_time_and_unlike_that_of_any_other_with_the_same_events(
    tmp_path, journal, source
):
    bodies = [b"", b"nope\n" + event("1"), event("2")]
    one, two = (segment_of(journal, source, *bodies) for _ in range(2))
    good, same = (segment_of(journal, source, event("1")) for _ in range(2))

    def content(segment, folder):
        return {key: file.path.read_bytes() for key, file in write_files(journal, segment, tmp_path / folder).items()}

    assert content(one, "a") == content(one, "b")
    assert len({content(each, "c")[SOURCE] for each in (one, two, good, same)}) == 4
    first, *others = content(one, "d")[SOURCE].splitlines()
    reason = "is not a JSON object: JSON is malformed: invalid character (byte 4)"
    assert json.loads(first) == [reason, "nope", one]
    assert others == [event("1"), event("2")]
    assert json.loads(content(good, "e")[SOURCE]) == {f"_segment {good}": True, **json.loads(event("1"))}


def test_the_events_that_a_killed_lander_left_on_the_disk_are_removed_by_the_next_one(
    tmp_path, monkeypatch, journal, source
):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    segment = segment_of(journal, source, event("1"))
    lander = get_context("fork").Process(target=land_segments, args=(place(Killed, journal, source), [segment]))
    lander.start()
    lander.join()
    (left,) = scratch.iterdir()
    assert [path.read_bytes() for path in left.rglob("*.jsonl")] != []
    os.utime(left, (0, 0))

    land_segments(place(Failing, journal, source), [segment])

    assert list(scratch.iterdir()) == []


def place(kind, journal, source):
    return kind(None, journal, [source], lambda: None, lambda: NOW)


class Killed(Place):
    def land(self, *_):
        os.kill(os.getpid(), signal.SIGKILL)


class Failing(Place):
    def land(self, *_):
        raise RuntimeError


def test_events_in_any_order_and_however_late_land_once_in_the_hour_of_their_time_and_bad_ones_in_quarantine(
    spark, tmp_path, journal, source
):
    other_path = tmp_path / "mall_ads.yaml"
    other_path.write_text(EVENTS.replace("shop_ads", "mall_ads"), encoding="utf-8")
    board, other = LocalBlackboard(tmp_path / "base"), load_source(other_path, KINDS)
    place = Place(board, journal, [source, other], lambda: spark, lambda: NOW)
    late = b"\n".join([event("2", "2019-11-24 23:59:59"), event("3", "2018-10-27 05:00:00"), event("1"), b"nope"])
    segments = [
        segment_of(journal, source, late, event("", "x"), event("4", "never") + b"\n" + event("5", ad="a1", x=1)),
        segment_of(journal, source, late),
        segment_of(journal, other, event("1"), key=other.key),
        segment_of(journal, source, event("1"), key="ads/gone"),
    ]

    outcomes = land_segments(place, segments)
    again = land_segments(place, segments[:2])  # the receiver was killed before it removed them

    counts = [(each.landed, each.quarantined) for each in outcomes]
    assert counts == [(4, 3), (3, 1), (1, 0), (0, 0)]
    assert [each.problems for each in outcomes[:3]] == [(), (), ()]
    assert outcomes[3].problems == ("ads/gone: is no source any more; describe it again",)
    assert [(each.landed, each.quarantined) for each in again] == counts[:2]
    rows = [
        (each.partition, file.path[:2], row.id, row.ad)
        for each in raw_days(board, [SOURCE], date.min, date.max).values()
        for file in each.files
        for row in raw_frame(spark, board, source, type(each)(SOURCE, each.partition, (file,))).collect()
    ]
    twice = [("2018-10-27", "05", "3", None), ("2019-11-24", "12", "1", None), ("2019-11-24", "23", "2", None)]
    assert sorted(rows, key=str) == sorted([*twice, *twice, ("2019-11-24", "12", "5", "a1")], key=str)
    quarantined = [
        (record["reason"], record["record"])
        for landing in current_landings(board, SOURCE)
        if landing.file == f"{segments[0]}.jsonl" and landing.quarantine_key
        for record in map(json.loads, board.read(landing.quarantine_key).data.splitlines())
    ]
    assert quarantined == [
        ("malformed record", '["is not a JSON object: JSON is malformed: invalid character (byte 4)","nope"]'),
        (
            "malformed record",
            json.dumps(
                ["nothing identifies the record: no value for id", event("", "x").decode()], separators=(",", ":")
            ),
        ),
        ("no usable time", event("4", "never").decode()),
    ]


def test_an_acknowledged_event_whose_time_raises_an_error_keeps_no_segment_and_no_source_back(spark, tmp_path, journal):
    path = tmp_path / "shop_ads.yaml"
    path.write_text(EVENTS.replace("to_timestamp(time)", "timestamp_millis(cast(time AS BIGINT))"), encoding="utf-8")
    source, board = load_source(path, KINDS), LocalBlackboard(tmp_path / "base")
    segment = segment_of(journal, source, event("1", "1574589600000"), event("2", str(2**63 - 1)))

    (outcome,) = land_segments(Place(board, journal, [source], lambda: spark, lambda: NOW), [segment])

    assert (outcome.landed, outcome.quarantined, outcome.problems, outcome.done) == (1, 1, (), (SOURCE,))


def test_events_of_more_hours_than_the_source_takes_wait_until_it_takes_them_and_keep_no_other_segment_back(
    spark, tmp_path, journal
):
    few, many = (tmp_path / f"{most}.yaml" for most in ("few", "many"))
    few.write_text(f"{EVENTS}most_hours: 24\n", encoding="utf-8")
    many.write_text(EVENTS, encoding="utf-8")
    source, board = load_source(few, KINDS), LocalBlackboard(tmp_path / "base")
    days = b"\n".join(event(str(hour), f"2019-11-{24 + hour // 24} {hour % 24:02}:00:00") for hour in range(25))
    segments = [segment_of(journal, source, days), segment_of(journal, source, event("1"))]

    wrong, right = land_segments(Place(board, journal, [source], lambda: spark, lambda: NOW), segments)
    (late,) = land_segments(Place(board, journal, [load_source(many, KINDS)], lambda: spark, lambda: NOW), segments[:1])

    (problem,) = wrong.problems
    assert "has records in at least 25 hours, from 2019-11-24/00 to 2019-11-25/00" in problem
    assert "a larger `most_hours`" in problem
    assert (wrong.landed, wrong.stuck, right.landed, late.landed) == (0, (SOURCE,), 1, 25)
