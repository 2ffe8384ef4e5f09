"""A source's life as its operator sees it: notices, each once, the checks of the raw asset, and restarts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from feed_assets.arrivals.tables import arrivals_of, columns_of, last_look
from feed_assets.assets.external import raw_key
from feed_assets.receiving.tables import record_received
from feed_assets.receiving.tallies import Tally
from feed_assets.resources.notifier import Alert, Notifier
from feed_assets.sources.layout import LandingId, arrived_key, ledger_key
from feed_assets.sources.ledger import Landing, entry_json
from feed_assets_tests.harness import SHOP_ADS, SHOP_CLICKS, Installation, write_sources

NOW = datetime(2020, 3, 3, 10, 5, tzinfo=UTC)
ADS, CLICKS = "ads/shop_ads", "clicks/shop_clicks"
SENT: list[Alert] = []


class Kept(Notifier):
    """Keeps what it is told."""

    def notify(self, alert: Alert) -> None:
        SENT.append(alert)


@dataclass
class Life:
    """An installation, partners that land without Spark, and its clock."""

    desk: Installation
    now: datetime = NOW
    landed: int = 0
    pushed: int = 0
    results: dict[str, dg.AssetCheckEvaluation] = field(default_factory=dict)

    def land(self, source=ADS, records=100, *, unknown=(), empty=()):
        """The ledger as a landing leaves it."""
        self.landed += 1
        digest = f"{self.landed:016x}"
        columns = {"looked": records, "unknown": dict.fromkeys(unknown, records), "empty": list(empty)}
        board = self.desk.board
        landing = Landing(
            source, "x", "", digest, records, records, 0, 0, {}, None, (), landed_at=self.now, columns=columns
        )
        board.create(ledger_key(source, landing.id), entry_json(landing))
        board.create(arrived_key(source, self.now, LandingId(digest), records), b"")

    def push(self, accepted: int, rejected: int = 0, *, partner="acme", source=ADS):
        """What a receiver records of the requests of a segment."""
        self.pushed += 1
        reasons = Counter({"is not a JSON object": rejected})
        tally = Tally(1, accepted, +reasons, self.now, self.now)
        with self.desk.store.writing() as transaction:
            sealed = {f"segment-{self.pushed}": {(partner, source): tally}}
            record_received(transaction, sealed, forget=self.now - timedelta(days=30))

    def look(self, *, minutes: float = 0):
        """The sensor looks, each hour until then; returns the new subjects."""
        before, until = len(SENT), self.now + timedelta(minutes=minutes)
        while True:
            tick = self.desk.at(self.now).tick("arrivals")
            self.results |= {f"{'/'.join(each.asset_key.path)} {each.check_name}": each for each in tick.checked}
            if self.now >= until:
                return [each.text.splitlines()[1] for each in SENT[before:]]
            self.now = min(until, self.now + timedelta(hours=1))


@pytest.fixture
def life(desk, tmp_path):
    SENT.clear()
    directory = write_sources(tmp_path / "expected", f"{SHOP_ADS}expect_every: 2h\n", SHOP_CLICKS)
    settings = replace(desk.settings, sources_directory=directory)
    return Life(replace(desk, settings=settings, _definitions=None).using(notifier=Kept()))


def test_a_silence_is_told_once_and_so_is_its_end_with_what_came(life):
    life.land()
    assert life.look(minutes=170) == []

    (sentence,) = life.look(minutes=300)
    assert sentence == "ads/shop_ads: Nothing has landed for more than 2 hours; 2h are expected at most."
    assert SENT[0].kind == "silent"
    assert SENT[0].assets == ("raw/ads/shop_ads",)
    check = life.results["raw/ads/shop_ads arrives_as_expected"]
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)

    life.land(records=7)
    life.land(records=8)
    assert life.look(minutes=30) == ["ads/shop_ads is back. Since 2020-03-03 11:00 UTC: 2 landings with 15 records."]
    assert SENT[1].kind == "back"
    assert SENT[1].text.startswith("As usual again: raw/ads/shop_ads\n")
    assert life.results["raw/ads/shop_ads arrives_as_expected"].passed

    assert life.look(minutes=60 * 3) == [
        "ads/shop_ads: Nothing has landed for more than 2 hours; 2h are expected at most."
    ]


def test_a_source_that_was_just_added_or_expects_nothing_is_not_told(life):
    life.land(CLICKS)
    assert life.look(minutes=60 * 10) == []
    assert "raw/clicks/shop_clicks arrives_as_expected" not in life.results


def test_a_time_in_which_the_sensor_was_down_is_no_silence(life):
    life.land()
    life.look(minutes=60)
    life.now += timedelta(hours=30)
    assert life.look(minutes=115) == []
    assert len(life.look(minutes=70)) == 1


def test_the_same_silence_is_not_told_again_after_the_sensor_was_down(life):
    life.land()
    assert len(life.look(minutes=60 * 4)) == 1
    life.now += timedelta(hours=5)
    assert life.look(minutes=60 * 5) == []


def test_if_nothing_lands_of_any_source_landing_is_suspected_and_no_partner(life, tmp_path):
    directory = write_sources(tmp_path / "both", f"{SHOP_ADS}expect_every: 2h\n", f"{SHOP_CLICKS}expect_every: 3h\n")
    life.desk = replace(life.desk, settings=replace(life.desk.settings, sources_directory=directory), _definitions=None)
    life.land()
    life.land(CLICKS)
    told = life.look(minutes=60 * 8)
    assert [each.split(".")[0] for each in told] == [
        "ads/shop_ads: Nothing has landed for more than 2 hours; 2h are expected at most",
        "Nothing has landed of any source since 2020-03-03 11:00 UTC",
    ]
    life.land()
    life.land(CLICKS)
    assert len(life.look(minutes=30)) == 2  # landing goes on, and the source that was told first is back


def test_a_new_column_is_told_once_with_its_days_and_the_check_has_a_table(life):
    life.land(CLICKS, unknown=["left out"])
    life.look()
    life.now += timedelta(days=1)
    life.land(CLICKS, 40, unknown=["left out", "country", "evil\u202e\n"])
    (sentence,) = life.look(minutes=60)
    assert sentence == (
        "clicks/shop_clicks sends 2 columns that its description does not name: country, evil\\u202e\\u000a. They are "
        "kept in the sent files, and nobody reads them. To read them, name them in the description, and land the files "
        "again: `feed-assets land --again clicks/shop_clicks`."
    )
    assert SENT[0].kind == "columns"
    assert any(line.split() == ["2020-03-04", "40", "40"] for line in SENT[0].reasons)

    check = life.results["raw/clicks/shop_clicks columns_as_described"]
    assert not check.passed
    table = check.metadata["by day of arrival"]
    assert isinstance(table, dg.TableMetadataValue)
    country, evil = "country (new)", "evil\\u202e\\u000a (new)"
    assert [record.data for record in table.records] == [
        {"day": "2020-03-04", "landings": 1, "records": 40, country: 40, evil: 40, "left out": 40},
        {"day": "2020-03-03", "landings": 1, "records": 100, country: 0, evil: 0, "left out": 100},
    ]

    for _ in range(8):
        life.now += timedelta(days=1)
        life.land(CLICKS, unknown=["country"])
    assert life.look() == []
    assert life.results["raw/clicks/shop_clicks columns_as_described"].passed


def test_of_many_new_columns_twenty_are_named_and_the_others_counted(life):
    life.land(CLICKS)
    life.look()
    life.now += timedelta(days=1)
    life.land(CLICKS, unknown=[f"new{number:02}" for number in range(33)])

    (sentence,) = life.look(minutes=60)

    assert "sends 33 columns that its description does not name: new00, new01, " in sentence
    assert "new19 and 13 more. They are kept" in sentence


def test_a_column_without_values_all_of_a_sudden_is_told(life):
    for _ in range(15):
        life.land(CLICKS)
        life.now += timedelta(days=1)
    assert life.look() == []
    life.land(CLICKS, empty=["user"])
    (sentence,) = life.look(minutes=120)
    assert sentence.startswith("clicks/shop_clicks sends no values any more of user. If the partner renamed a column,")
    assert sentence.endswith("land the files again: `feed-assets land --again clicks/shop_clicks`.")


def test_many_records_that_cannot_be_used_are_told_once_for_each_partner_and_so_is_their_end(life):
    life.push(10, 19)  # a partner tries its client
    life.push(1000, 50, partner="other")  # less than one in twenty
    assert life.look(minutes=60) == []

    life.push(0, 1)
    (many,) = life.look(minutes=60 * 5)
    assert many == (
        "ads/shop_ads: acme has sent 30 records in 24 hours, 10 wait to land; 20 cannot be used: "
        "is not a JSON object (20)."
    )
    assert (SENT[0].kind, SENT[0].command) == ("unusable", "feed-assets sources status ads/shop_ads")
    assert SENT[0].text.startswith("Many records cannot be used: raw/ads/shop_ads\n")

    life.now += timedelta(days=1)
    assert life.look() == []  # it has sent nothing since
    life.push(40)
    (back,) = life.look(minutes=60)
    assert back.startswith("Most records of ads/shop_ads can be used again. acme has sent 40 records in 24 hours")
    assert SENT[1].kind == "back"
    assert SENT[1].text.startswith("As usual again: raw/ads/shop_ads\n")


def test_a_lost_state_database_is_filled_again_from_the_ledger(life):
    life.land(unknown=["a"])
    life.look(minutes=60)
    base = life.desk.board.uri("")
    hours, days = arrivals_of(life.desk.store, base, ADS), columns_of(life.desk.store, base, ADS)
    assert sum(each.landings for each in hours.values()) == 1
    (file,) = life.desk.base.rglob("state.db")
    for each in file.parent.glob("state.db*"):
        each.unlink()

    life.look()
    assert (arrivals_of(life.desk.store, base, ADS), columns_of(life.desk.store, base, ADS)) == (hours, days)
    assert last_look(life.desk.store, base) == (life.now, life.now)


def test_the_checks_can_be_run_by_hand(life):
    life.land()
    life.look()
    key = dg.AssetCheckKey(raw_key(life.desk.definitions.resources["project"].sources[0]), "columns_as_described")
    desk = life.desk.at(life.now)
    job = dg.define_asset_job("checks", selection=dg.AssetSelection.checks(key))
    definitions = dg.Definitions.merge(desk.definitions, dg.Definitions(jobs=[job]))
    done = definitions.resolve_job_def("checks").execute_in_process(instance=desk.instance)
    (result,) = done.get_asset_check_evaluations()
    assert result.passed
    assert result.description == "Nothing new on 1 day on which columns were counted."
