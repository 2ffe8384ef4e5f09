"""People are told of runs that failed and of updates that were rejected: by a webhook, or by what they wrote."""

from __future__ import annotations

import json
import traceback
from http.server import BaseHTTPRequestHandler, HTTPServer

import dagster as dg
import pytest

from feed_assets.resources.notifier import Alert, AlertNotSentError, Notifier, WebhookNotifier
from feed_assets.sensors.alerts import alerts
from feed_assets_tests.listening import serving

DAYS = dg.DailyPartitionsDefinition("2019-11-24", end_date="2019-11-30")
SECRET = "T0P-SECRET"
SENT: list[Alert] = []


class Kept(Notifier):
    """A user's own notification."""

    def notify(self, alert):
        SENT.append(alert)


@pytest.fixture
def server():
    """A web server that keeps what is posted and answers what it is told to; (requests, answers, address)."""
    requests, answers = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            requests.append((self.path, self.headers["Content-Type"], json.loads(body)))
            self.send_response(answers.pop(0) if answers else 200)
            self.send_header("Location", "/login")
            self.end_headers()

        def do_GET(self):
            requests.append((self.path, "GET", None))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with serving(HTTPServer(("127.0.0.1", 0), Handler)) as web:
        yield requests, answers, f"http://127.0.0.1:{web.server_port}/services/{SECRET}"


@pytest.fixture
def installation(dagster_instance):
    """Runs an asset that may fail or be rejected, and evaluates the sensor; what the sensor logged comes back."""

    @dg.asset(partitions_def=DAYS)
    def made(context):
        if context.partition_key == "2019-11-25":
            raise dg.Failure("the disk is full", allow_retries=False)

    @dg.multi_asset_check(specs=[dg.AssetCheckSpec("rows", asset="made", blocking=True)])
    def check(context):
        yield dg.AssetCheckResult(passed=context.partition_key != "2019-11-26", metadata={"count": 0, "update": "x"})

    def definitions(notifier):
        sensor = alerts(interval_seconds=30)
        return dg.Definitions([made], asset_checks=[check], sensors=[sensor], resources={"notifier": notifier})

    class Driven:
        cursor = None

        def run(self, day, tags=None):
            job = definitions(Kept()).resolve_implicit_global_asset_job_def()
            selection = [dg.AssetKey("made")]
            return job.execute_in_process(
                instance=dagster_instance,
                asset_selection=selection,
                partition_key=day,
                tags=tags or {},
                raise_on_error=False,
            ).run_id

        def tick(self, notifier):
            with dg.build_sensor_context(
                instance=dagster_instance,
                cursor=self.cursor,
                definitions=definitions(notifier),
                resources={"notifier": notifier},
            ) as context:
                data = definitions(notifier).resolve_sensor_def("alerts").evaluate_tick(context)
            self.cursor = data.cursor
            return [reaction.error for reaction in data.dagster_run_reactions]

    driven = Driven()
    driven.tick(Kept())  # what failed before the sensor was started is no news
    SENT.clear()
    return driven


def test_a_failed_and_a_rejected_run_are_told_once_and_a_good_one_is_not(installation):
    for day in ("2019-11-24", "2019-11-25", "2019-11-26"):
        installation.run(day)

    while installation.tick(Kept()):
        pass

    assert [(alert.kind, alert.assets, alert.partition) for alert in SENT] == [
        ("failed", ("made",), "2019-11-25"),
        ("rejected", ("made",), "2019-11-26"),
    ]
    assert [alert.reasons for alert in SENT] == [("the disk is full",), ("made rows: count 0",)]
    assert SENT[0].text.splitlines()[:2] == ["Failed: made 2019-11-25", "the disk is full"]
    assert SENT[1].command == "feed-assets explain 2019-11-26"


def test_a_run_that_is_started_once_more_is_no_alert_yet(installation):
    installation.run("2019-11-25", tags={"dagster/will_retry": "true"})

    installation.tick(Kept())

    assert SENT == []


def test_the_webhook_gets_the_alert_as_json(installation, server):
    requests, _, address = server
    run_id = installation.run("2019-11-26")

    assert installation.tick(WebhookNotifier(url=address)) == [None]

    ((path, kind, body),) = requests
    assert (path, kind) == (f"/services/{SECRET}", "application/json")
    assert body["text"].startswith("Rejected by its checks: made 2019-11-26")
    assert (body["kind"], body["run_id"], body["partition"]) == ("rejected", run_id, "2019-11-26")


def test_a_server_that_is_busy_for_a_moment_is_asked_again(installation, server, monkeypatch):
    monkeypatch.setattr("feed_assets.resources.notifier.SECONDS_BETWEEN", 0)
    requests, answers, address = server
    answers += [503, 503]
    installation.run("2019-11-25")

    assert installation.tick(WebhookNotifier(url=address)) == [None]
    assert len(requests) == 3


def test_an_alert_that_nobody_takes_fails_the_tick_and_keeps_the_secret(installation, server, monkeypatch, caplog):
    monkeypatch.setattr("feed_assets.resources.notifier.SECONDS_BETWEEN", 0)
    requests, answers, address = server
    answers += [500] * 3
    installation.run("2019-11-25")

    (error,) = installation.tick(WebhookNotifier(url=address))

    assert "127.0.0.1 answered 500" in error.message
    assert "the disk is full" in error.message
    assert len(requests) == 3
    assert SECRET not in error.to_string() + caplog.text


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_the_alert_does_not_count_as_sent(server, code, monkeypatch):
    monkeypatch.setattr("feed_assets.resources.notifier.SECONDS_BETWEEN", 0)
    requests, answers, address = server
    answers += [code] * 3

    with pytest.raises(AlertNotSentError, match=rf"127\.0\.0\.1 answered {code} \(a redirect"):
        WebhookNotifier(url=address).notify(Alert("failed", ("made",), None, ("why",), "run", "command"))

    assert [path for path, *_ in requests] == [f"/services/{SECRET}"] * 3


@pytest.mark.parametrize(
    "address",
    [
        f"http://127.0.0.1:1/{SECRET}",
        f"ftp://127.0.0.1/{SECRET}",
        SECRET,
        f"https://127.0.0.1:{SECRET}/x",
        f"http://127.0.0.1:1/a b/{SECRET}",
        f"http://127.0.0.1:1/\u00fc/{SECRET}",
        f"http://[{SECRET}",
        f"http:///{SECRET}",
    ],
)
def test_an_address_that_leads_nowhere_is_an_error_without_the_secret(address, monkeypatch):
    monkeypatch.setattr("feed_assets.resources.notifier.SECONDS_BETWEEN", 0)
    alert = Alert("failed", ("made",), None, ("why",), "run", "command")

    with pytest.raises(AlertNotSentError) as failed:
        WebhookNotifier(url=address).notify(alert)

    assert "FEED_ASSETS_ALERT_WEBHOOK" in str(failed.value)
    assert SECRET not in "".join(traceback.format_exception(failed.value))
