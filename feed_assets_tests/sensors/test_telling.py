"""Each channel gets each state of a fact once, also after a failure, and nothing is told of a fact that is over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from feed_assets.notices.messages import Notice
from feed_assets.notices.tables import FORGOTTEN_AFTER, told
from feed_assets.resources.notifier import AlertNotSentError
from feed_assets.sensors.telling import Channel, News, tell
from feed_assets.state.store import Store

NOW = datetime(2026, 5, 1, 6, tzinfo=UTC)
BASE = "file:///data"


class Desk:
    """A channel that keeps what it gets, unless it fails."""

    def __init__(self, database: str) -> None:
        self.store, self.got, self.fails, self.names = Store(database), [], False, []

    def send(self, notice, _assets, name, _plot):
        self.names.append(name)
        if self.fails:
            raise AlertNotSentError("nobody answers")
        self.got.append(notice.subject)
        return ""

    def tell(self, facts, *, hours: float = 0, **more):
        def notice(new):
            return Notice(", ".join(sorted(new)), ("A sentence.",), (), "kind", "command")

        news = News("topic", facts, ("raw/ads/x",), notice, **more)
        return tell(self.store, BASE, [news], {"desk": Channel(self.send)}, now=NOW + timedelta(hours=hours))


@pytest.fixture
def desk(database: str) -> Desk:
    return Desk(database)


def test_a_state_is_told_once_and_another_state_again(desk):
    for hours, state in enumerate(["a", "a", "b", "b", "a"]):
        desk.tell({"topic 1": state}, hours=hours)
    assert desk.got == ["topic 1"] * 3
    assert len(set(desk.names)) == 3


def test_each_end_of_a_fact_in_a_day_has_a_name_of_its_own(desk):
    for hours in (0, 2, 4):
        desk.tell({"topic 1": f"silent since {hours}"}, hours=hours)
        desk.tell({"topic 1": "back"}, hours=hours + 1, follows=bool)
    assert desk.got == ["topic 1"] * 6
    assert len(set(desk.names)) == 6


def test_one_notice_has_all_facts_that_are_new_and_only_those(desk):
    desk.tell({"topic 1": "", "topic 2": ""})
    desk.tell({"topic 1": "", "topic 2": "more", "topic 3": ""}, hours=1)
    assert desk.got == ["topic 1, topic 2", "topic 2, topic 3"]


def test_a_channel_that_failed_gets_the_same_notice_under_the_same_name(desk):
    desk.fails = True
    assert desk.tell({"topic 1": ""}) == ["topic 1. desk was not told: nobody answers"]
    desk.fails = False
    desk.tell({"topic 1": ""}, hours=1)
    desk.tell({"topic 1": ""}, hours=2)
    assert desk.got == ["topic 1"]
    assert desk.names == desk.names[:1] * 2


def test_what_comes_within_the_pause_is_told_after_it_together(desk):
    for minutes in (0, 10, 20, 59, 61, 62):
        days = {f"topic {number}": "" for number in range(minutes // 10 + 1)}
        desk.tell(days, hours=minutes / 60, pause=timedelta(hours=1))
    assert desk.got == ["topic 0", "topic 1, topic 2, topic 3, topic 4, topic 5, topic 6"]


def test_the_end_of_a_fact_is_told_only_to_those_who_know_the_fact(desk):
    desk.tell({"topic 1": "back"}, follows=bool)
    assert desk.got == []

    desk.tell({"topic 1": "silent"})
    for hours in (1, 2):
        desk.tell({"topic 1": "back"}, hours=hours, follows=bool)
    assert desk.got == ["topic 1"] * 2


def test_a_fact_that_was_over_for_a_week_is_news_again_and_one_that_lasts_is_not(desk):
    week = FORGOTTEN_AFTER.total_seconds() / 3600
    for hours in (0, week - 1, 2 * week - 2):
        desk.tell({"topic 1": "", "topic 2": ""}, hours=hours)
    desk.tell({}, hours=3 * week)
    assert told(desk.store, BASE, "desk") == {}
    desk.tell({"topic 1": ""}, hours=3 * week)
    assert desk.got == ["topic 1, topic 2", "topic 1"]


def test_more_facts_than_a_query_takes_are_told_in_one_notice(desk):
    facts = {f"topic {number}": "" for number in range(2_500)}
    for hours in (0, 2, 4):
        desk.tell(facts, hours=hours)
    assert len(desk.got) == 1
    assert len(told(desk.store, BASE, "desk")) == 2_500


def test_a_database_that_is_not_there_is_not_made_for_nothing(tmp_path):
    desk = Desk(f"sqlite:///{tmp_path}/state.db")
    desk.tell({})
    assert not desk.store.exists()
