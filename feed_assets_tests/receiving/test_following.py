"""From a request's id to its raw files, the updates that read them and its bad records, and back."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial

import pytest

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.publishing import publish_files
from feed_assets.file_feed.record import Facts
from feed_assets.journal.on_disk import DiskSegments
from feed_assets.operations.pushed_requests import follow
from feed_assets.operations.quarantined import Quarantines
from feed_assets.receiving.landing_segments import Place, land_segments
from feed_assets.receiving.receipts import find_request, find_waiting
from feed_assets.receiving.resubmission import Correction, resubmit
from feed_assets.receiving.resubmission import Place as OfRecord
from feed_assets.sources.landing import land
from feed_assets.sources.raw import read_set
from feed_assets_tests.late_data.plain_process import ADS, Days
from feed_assets_tests.receiving.serving import SOURCE
from feed_assets_tests.receiving.test_landing_segments import event, segment_of

NOW = datetime(2019, 12, 1, tzinfo=UTC)
DAY = "2019-11-24"
RAISED = [(1, "no usable time (column time)"), (2, "nothing identifies the record: no value for id")]


@pytest.fixture
def journal(tmp_path):
    (tmp_path / "journal").mkdir()
    return DiskSegments(tmp_path / "journal")


def test_a_request_leads_to_all_of_its_records_and_a_corrected_one_lands_once(spark, tmp_path, journal, source):
    board, graph, problems = LocalBlackboard(tmp_path / "base"), Days(NOW), []
    keys = {ADS: [SOURCE]}
    quarantines = partial(Quarantines, board, now=NOW, unreadable=problems.append, keys=keys, sources=[source])
    asked = b"\n".join([event("1"), event("2", "never"), event("", "x"), event("4", cost="lots")])
    segment = segment_of(journal, source, event("9", "never"), asked, event("10"))
    assert find_request(board, "request-1") is None
    waiting = find_waiting(journal, "request-1")
    assert waiting is not None
    assert (waiting.accepted, find_waiting(journal, "request-7")) == (3, None)

    (outcome,) = land_segments(Place(board, journal, [source], lambda: spark, lambda: NOW), [segment])
    found = find_request(board, "request-1")

    assert outcome.sources[SOURCE].later == {"": {"no usable time (column time)": 2}}
    assert found is not None

    def story():
        return follow(board, graph, quarantines(), found, now=NOW)

    before = story()
    assert [(each.day, each.records, each.readers[0].update) for each in before.raw] == [(DAY, 2, None)]
    assert [(each.index, each.reason) for each in before.quarantined] == RAISED
    assert (before.accepted, before.elsewhere, before.landed) == (3, 0, NOW)

    read = read_set(board, SOURCE, datetime(2019, 11, 24, tzinfo=UTC).date())
    refused = tmp_path / "refused.json"
    line = {"source": "shop_ads", "file": found.file, "line": 5, "reason": "unparsable cost", "record": "{}"}
    refused.write_text(json.dumps(line) + "\n")
    update = publish_files(Feed(board, ADS), DAY, [], now=NOW, owner="t", facts=Facts(inputs=(read,)))
    publish_files(Feed(board, f"quarantine/{ADS}"), DAY, [refused], now=NOW, owner="t", facts=Facts())
    after = story()
    assert [(each.feed, each.partition, each.update) for each in after.raw[0].readers] == [(ADS, DAY, update.name)]
    assert [(each.where, each.index, each.reason) for each in after.quarantined if each.partition] == [
        (ADS, 3, "unparsable cost")
    ]

    places = {OfRecord(each.file, each.line) for each in quarantines().records()}
    corrections = [
        Correction(OfRecord(found.file, 3), event("2")),
        Correction(OfRecord(found.file, 4), event("3", "never")),
    ]
    for _ in range(2):
        resubmit(board, source, corrections, places, lambda file: land(spark, board, source, file, now=NOW))
    last = story()

    assert [(each.records, each.resubmitted) for each in last.raw] == [(2, False), (1, True)]
    assert last.raw[1].readers[0].update is None
    landed = [(each.index, each.reason, each.resubmitted) for each in last.quarantined if each.partition is None]
    assert sorted(landed) == sorted([(*each, True) for each in RAISED] + [(2, RAISED[0][1], False)])
    assert last.elsewhere == 0
    (group, *_) = quarantines().by_reason(where="landing")
    assert (group.reason, group.records, group.request_id, group.index) == (RAISED[0][1], 3, "request-0", 0)
    assert problems == []
