"""The index of files that were taken: on the blackboard, and in a table of DynamoDB.

Two programs stand for DynamoDB: dynalite, if npm can fetch it; and moto.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import boto3
import pytest
from moto import mock_aws

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.polling.dynamodb import DynamoDBIndex, IndexTableError
from feed_assets.polling.places import open_place
from feed_assets.polling.port import PartnersFile
from feed_assets.polling.taken import BlackboardIndex
from feed_assets.sources.layout import LandingId
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.polling.partners import (
    KEY,
    TODAY,
    Watched,
    describe,
    landed,
    poller,
    send,
    without_spark,
)

DAY = TODAY.date() - timedelta(days=3)
FILE = PartnersFile("2019-11-28/a b.csv", 5, 'W/"x.y"', None, DAY)
FIRST, SECOND = LandingId("0123456789abcdef"), LandingId("0123456789abcdef", 2)


@pytest.fixture(params=["blackboard", "dynalite", "moto"])
def index(request, monkeypatch):
    """A new index on a blackboard that keeps account of its requests."""
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    ledger = BlackboardIndex(RecordingBlackboard(MemoryBlackboard()))
    if request.param == "blackboard":
        yield ledger
        return
    table = DynamoDBIndex(ledger, f"polled-{uuid4().hex}")
    if request.param == "dynalite":
        for variable, value in request.getfixturevalue("dynalite").environment.items():
            monkeypatch.setenv(variable, value)
        table.rebuild(KEY)
        yield table
        return
    with mock_aws():
        table.rebuild(KEY)
        yield table


def test_the_newest_landing_of_a_name_counts_whichever_was_noted_first(index):
    other, third = replace(FILE, tag="another"), replace(FILE, tag="third", day=DAY + timedelta(days=1))
    index.record(KEY, other, SECOND, now=TODAY)
    index.record(KEY, FILE, FIRST, now=TODAY)
    taken = index.taken(KEY, DAY)[FILE.name]
    assert (taken.landing, taken.states) == (SECOND, {"5.another"})

    index.record(KEY, third, SECOND, now=TODAY)  # the same content with another time
    assert index.taken(KEY, DAY)[FILE.name].landing == SECOND
    assert "5.third" in index.taken(KEY, DAY)[FILE.name].states
    assert index.taken(KEY, DAY + timedelta(days=2)) == {}
    assert index.taken("ads/other", DAY) == {}


def test_the_newest_landing_of_one_file_is_known_without_a_look_at_the_others(index):
    assert index.newest(KEY, FILE) is None
    index.record(KEY, FILE, FIRST, now=TODAY)
    index.record(KEY, replace(FILE, name="2019-11-28/a b.csv.gz"), FIRST, now=TODAY)
    index.record(KEY, replace(FILE, name="2019-11-28/a b.csv/c"), SECOND, now=TODAY)
    assert index.newest(KEY, FILE) == index.taken(KEY, DAY)[FILE.name]

    index.record(KEY, replace(FILE, tag="another"), SECOND, now=TODAY)
    assert index.newest(KEY, FILE).landing == SECOND


def test_a_poll_whose_look_is_older_than_another_landing_downloads_nothing(index, tmp_path):
    source, board = describe(tmp_path / "shop_ads.yaml", tmp_path / "outbox"), index_board(index)
    send(tmp_path / "outbox", "2019-11-28/log.csv", "1")

    class Outdated:
        """An index whose first look shows what was there before another poll ended."""

        def __init__(self):
            self.looks = 0

        def __getattr__(self, name):
            return getattr(index, name)

        def taken(self, *arguments):
            known = index.taken(*arguments)
            self.looks += 1
            if self.looks == 1:
                with without_spark():
                    assert poller(board, index).poll(source).taken == ["2019-11-28/log.csv"]
            return known

    place = Watched(open_place(source))
    with without_spark():
        late = poller(board, Outdated()).poll(source, place)

    assert (late.left, place.downloads) == ({"2019-11-28/log.csv": "another poll has just taken it"}, [])
    assert landed(board) == ["1"]


def test_polls_take_each_file_once_with_either_index_and_note_it_on_the_blackboard_first(index, tmp_path):
    source, board = describe(tmp_path / "shop_ads.yaml", tmp_path / "outbox"), index_board(index)
    names = [f"2019-11-{day}/{number}.csv" for day in (27, 28) for number in range(3)]
    for name in names:
        send(tmp_path / "outbox", name, name)
    with without_spark():
        polled = poller(board, index).poll(source)
        board.forget()
        place = Watched(open_place(source))
        poller(board, index).poll(source, place)
        read = Counter(board.counts())
        send(tmp_path / "outbox", names[0], "new")
        assert poller(board, index).poll(source).replaced == [names[0]]

    assert (sorted(polled.taken), place.downloads) == (names, [])
    assert read == ({"page": 1} if isinstance(index, BlackboardIndex) else {})
    assert landed(board) == sorted([*names[1:], "new"])
    assert set(BlackboardIndex(board).taken(KEY, DAY)) == set(names) - {name for name in names if "27/" in name}


@pytest.mark.parametrize("index", ["dynalite", "moto"], indirect=True)
def test_a_table_is_made_anew_from_the_blackboard(index):
    index.record(KEY, FILE, FIRST, now=TODAY)
    index.record(KEY, replace(FILE, tag="another"), SECOND, now=TODAY)
    index.record("ads/other", FILE, FIRST, now=TODAY)
    known = index.taken(KEY, DAY)
    boto3.resource("dynamodb").Table(index.name).delete()
    with pytest.raises(IndexTableError, match=f"{index.name} of DynamoDB .* Make it with `feed-assets poll reindex`"):
        index.taken(KEY, DAY)

    assert index.rebuild(KEY) == 1
    assert index.taken(KEY, DAY) == known
    assert index.taken("ads/other", DAY) == {}


def index_board(index):
    return (index if isinstance(index, BlackboardIndex) else index.ledger).blackboard
