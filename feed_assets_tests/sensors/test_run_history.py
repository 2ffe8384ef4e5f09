"""The history is filled from Dagster's own runs, a page each tick, and each warning is told once."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, time, timedelta

import dagster as dg
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.feed_events.triggers import REVISIONS_TAG, attempt_tag
from feed_assets.resources.notifier import Alert, AlertNotSentError, MailResource, Notifier
from feed_assets.resources.storage import BlackboardResource, StateResource
from feed_assets.run_history.health import health
from feed_assets.run_history.tables import executions_of
from feed_assets.sensors import ended_runs
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.ended_runs import deadlines
from feed_assets.sensors.run_history import run_history
from feed_assets.state.store import Store
from feed_assets.workflow.tasks import NewTask
from feed_assets_tests.notices.post_office import post_office
from feed_assets_tests.sensors.told_runs import tell
from feed_assets_tests.web.workflow_service import NAME, Someone, mastering

SCHEMA = StructType([StructField("x", StringType())])
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
SENT: list[Alert] = []


class Kept(Notifier):
    """Keeps what it is told, unless it fails."""

    fails: bool = False

    def notify(self, alert: Alert) -> None:
        if self.fails:
            raise AlertNotSentError("nobody answers")
        SENT.append(alert)


@dg.asset(metadata=feed_metadata("prices/v1.0", SCHEMA, deadline="06:00"))
def prices() -> None:
    """A feed with a deadline."""


@dg.asset(metadata=feed_metadata("rates/v1.0", SCHEMA))
def rates() -> None:
    """A feed without one."""


@dg.schedule(cron_schedule="0 * * * *", job_name="job")
def hourly():
    """A schedule of the project."""


@dg.job
def job() -> None:
    """What it starts."""


class Driven:
    def __init__(self, folder, instance):
        self.instance, self.cursor, self.said = instance, None, ""
        self.store = Store(f"sqlite:///{folder}/state.db")
        self.resources = {"blackboard": BlackboardResource(base=str(folder)), "state": StateResource(url=self.url)}
        self.base = self.resources["blackboard"].blackboard.uri("")

    @property
    def url(self):
        return self.store.url

    def tick(self, notifier=None, mail=None, workflows=()):
        channels = {"mail": mail} if mail else {"notifier": notifier or Kept()}
        resources = {**self.resources, **channels}
        sensor = run_history(channels=frozenset(channels), interval_seconds=30, workflows=workflows)
        definitions = dg.Definitions([prices, rates], jobs=[job], schedules=[hourly], sensors=[sensor])
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, definitions=definitions, resources=resources
        ) as context:
            data = definitions.resolve_sensor_def("run_history").evaluate_tick(context)
        self.cursor, self.said = data.cursor, data.skip_message

    def an_hour_later(self):
        self.cursor = json.dumps({**json.loads(self.cursor), "looked": ""})

    @property
    def known(self):
        return executions_of(self.store, self.base)


@pytest.fixture
def driven(tmp_path, dagster_instance):
    SENT.clear()
    return Driven(tmp_path, dagster_instance)


def test_a_run_is_an_execution_of_its_schedule_and_of_each_feed(driven):
    wanted = TODAY - timedelta(hours=5)
    updates = {"prices": {"raw bytes": 5_000, "bytes": 300, "dagster/row_count": 7}, "other": {}}
    run = tell(driven.instance, wanted, 20, delay=2, schedule="hourly", assets=updates, partition="2026-01-01")

    driven.tick()

    assert list(driven.known) == ["asset prices", "schedule hourly"]
    (found,) = driven.known["asset prices"]
    assert (found.run, found.partition, found.wanted, found.succeeded) == (run, "2026-01-01", wanted, True)
    assert (found.delay, found.duration) == (timedelta(minutes=2), timedelta(minutes=20))
    assert (found.rows, found.bytes) == (7, 5_000)


def test_triggers_are_series_and_schedules_of_others_backfills_and_canceled_runs_are_not(driven):
    at, update = TODAY - timedelta(hours=3), {"rates": {"bytes": 1}}
    tell(driven.instance, at, 5, assets=update, tags={REVISIONS_TAG: "{}", attempt_tag("rates/v1.0"): "k"})
    tell(driven.instance, at, 5, schedule="somebody_elses")
    tell(driven.instance, at, 5, assets=update, tags={"dagster/backfill": "b"})
    failed = tell(driven.instance, at, 5, assets=update, succeeds=False)

    driven.tick()

    assert {series: len(found) for series, found in driven.known.items()} == {"asset rates": 2, "trigger rates": 1}
    assert {each.run: each.succeeded for each in driven.known["asset rates"]}[failed] is False


def test_ticks_read_a_page_each_until_all_are_known_and_then_only_what_is_new(driven, monkeypatch):
    monkeypatch.setattr(ended_runs, "PAGE", 10)
    for number in range(25):
        tell(driven.instance, TODAY - timedelta(hours=30 - number), 5, schedule="hourly")

    counts = []
    for _ in range(4):
        driven.tick()
        counts.append(len(driven.known["schedule hourly"]))
    assert counts == [10, 20, 25, 25]

    tell(driven.instance, TODAY - timedelta(hours=1), 5, schedule="hourly")
    driven.tick()
    assert driven.said.startswith("Kept 1 execution.")


def test_a_database_that_was_lost_is_filled_again(driven, tmp_path):
    tell(driven.instance, TODAY - timedelta(hours=1), 5, schedule="hourly")
    driven.tick()
    driven.store.close()
    for each in tmp_path.glob("state.db*"):
        each.unlink()

    driven.tick()

    assert len(driven.known["schedule hourly"]) == 1


def test_a_cursor_that_cannot_be_read_starts_anew(driven):
    tell(driven.instance, TODAY - timedelta(hours=1), 5, schedule="hourly")
    driven.tick()
    for runs in (["no time"], 5, []):
        driven.cursor = json.dumps({**json.loads(driven.cursor), "runs": runs})
        driven.tick()
        assert driven.said.startswith("Kept 1 execution.")


def test_runs_that_fill_their_interval_are_told_once_also_after_a_failure(driven):
    for number in range(24 * 4):
        tell(driven.instance, TODAY - timedelta(hours=24 * 4 - number), 52, delay=1, schedule="hourly")
    driven.tick()
    assert SENT == []  # there is another page

    driven.tick(Kept(fails=True))
    assert "notifier was not told: nobody answers" in driven.said
    for _ in range(2):
        driven.an_hour_later()
        driven.tick()

    (alert,) = SENT
    assert (alert.kind, alert.assets, alert.command) == ("overlap", ("schedule hourly",), "feed-assets health")
    title, sentence, _ = alert.text.splitlines()
    assert title == "Runs will overlap: schedule hourly"
    assert sentence.endswith(" start within 60 s and take up to 52 min, together 88 % of the 1 h between runs.")


def a_month(driven):
    """Daily runs from 04:00 UTC that take longer each day."""
    for ago in range(32, 0, -1):
        volume = 10e9 * 1.015 ** (32 - ago)
        wanted = TODAY - timedelta(days=ago) + timedelta(hours=4)
        update = {"prices": {"bytes": round(volume)}}
        tell(driven.instance, wanted, 70 * volume / 10e9, schedule="hourly", assets=update, partition=f"day {ago:03}")


def test_a_deadline_that_growth_will_pass_is_told(driven):
    a_month(driven)
    driven.tick()

    (alert,) = SENT
    assert (alert.kind, alert.assets) == ("deadline", ("asset prices",))
    assert alert.reasons[0].startswith("asset prices will miss its deadline 06:00 UTC from ")


def test_a_mail_has_the_sentence_and_the_plot_and_comes_once(driven):
    a_month(driven)
    with post_office(enable_SMTPUTF8=True) as office:
        mail = MailResource(
            url=f"smtp://127.0.0.1:{office.port}", sender="feeds@example.com", recipients=["Ops <ops@example.com>"]
        )
        office.answer = "450 later"
        driven.tick(mail=mail)
        assert "mail:ops@example.com was not told" in driven.said
        office.answer = ""
        for _ in range(2):
            driven.an_hour_later()
            driven.tick(mail=mail)

    ((to, made),) = office.mails
    assert to == ["ops@example.com"]
    assert made["Subject"] == "A deadline will be missed: asset prices"
    text, html = made.get_body(("plain",)), made.get_body(("html",))
    assert text is not None
    assert html is not None
    assert text.get_content().startswith("asset prices will miss its deadline 06:00 UTC from ")
    assert "<img" in html.get_content()
    assert any(each.get_content_type() == "image/png" for each in made.walk())


def test_of_several_recipients_the_one_whom_the_server_puts_off_gets_the_mail_an_hour_later(driven):
    a_month(driven)
    with post_office() as office:
        mail = MailResource(
            url=f"smtp://127.0.0.1:{office.port}",
            sender="feeds@example.com",
            recipients=["Ops <ops@example.com>", "slow@example.com", "gone@example.com"],
        )
        office.greylisted, office.strangers = frozenset({"slow@example.com"}), frozenset({"gone@example.com"})
        driven.tick(mail=mail)
        assert [to for to, _ in office.mails] == [["ops@example.com"]]
        assert "mail:slow@example.com was not told: the server puts it off: 450." in driven.said
        assert "gone@example.com gets no mail, the server refuses it: 550." in driven.said

        office.greylisted = frozenset()
        for _ in range(2):
            driven.an_hour_later()
            driven.tick(mail=mail)

    assert [to for to, _ in office.mails] == [["ops@example.com"], ["slow@example.com"]]
    assert office.asked.count("gone@example.com") == 1


def test_tasks_of_workflows_are_executions_of_their_types_also_after_a_master_was_away(driven, tmp_path):
    base = str(tmp_path)
    driven.tick(workflows=[NAME])
    assert "How long tasks of revenue take is unknown" in driven.said

    with mastering(base, driven.url):
        worker = Someone(base)
        worker.apply()
        for _ in range(2):
            worker.insert(*(NewTask("split") for _ in range(4)))
            for _ in range(4):
                worker.commit(worker.lease("split"))
            driven.tick(workflows=[NAME])
        driven.tick(workflows=[NAME])
        assert driven.said == "Kept 0 executions."

    assert {series: len(found) for series, found in driven.known.items()} == {"task revenue/split": 8}
    driven.tick(workflows=[NAME])
    assert "is unknown" in driven.said
    (found,) = health(driven.store, driven.base, {}, TODAY.date())
    assert re.fullmatch(
        r"task revenue/split: 95 of 100 tasks start within \d+ s and take up to \d+ s\.", found.sentences[0]
    )


def test_deadlines_are_those_that_assets_declare():
    graph = AssetFeedGraph.of(dg.Definitions([prices, rates]).get_repository_def())
    assert deadlines(graph) == {"asset prices": time(6, 0)}


@pytest.mark.parametrize("wrong", ["6:00", "24:00", "06:00:00", "noon"])
def test_a_deadline_that_is_no_time_of_day_is_refused(wrong):
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"write a time of day in UTC, such as '06:00'"):
        feed_metadata("prices/v1.0", SCHEMA, deadline=wrong)
