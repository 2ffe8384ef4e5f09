"""How sources stand, by command, by HTTP and on the page: silence, columns, days that wait, records, and nothing."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta
from functools import partial

import pytest
from click.testing import CliRunner, Result

from feed_assets.ads.schemas import KINDS
from feed_assets.arrivals.silence import Arrived, landed_in
from feed_assets.arrivals.tables import keep_arrivals, keep_look
from feed_assets.blackboard.location import open_blackboard
from feed_assets.cli.main import main
from feed_assets.notices.outside_lookback import topic_of
from feed_assets.notices.tables import keep_told
from feed_assets.receiving.tables import record_landed, record_received
from feed_assets.receiving.tallies import Tally
from feed_assets.serving.tokens import add_token
from feed_assets.sources.loading import usable_sources
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets.web.request_answers import BadSays, RawSays, ReaderSays, RequestSays
from feed_assets_tests.dependencies.datasets import BASE
from feed_assets_tests.harness import SHOP_ADS, SHOP_CLICKS, write_sources
from feed_assets_tests.web.windows_service import NOW, Client, serving

ADS, CLICKS = "ads/shop_ads", "clicks/shop_clicks"
HOUR = NOW.replace(minute=0)
SILENCE = "Nothing has landed for more than 5 hours; 2h are expected at most."
WAITS = "No sensor processes the data of 2 days: 2026-11-01, 2026-11-02. `feed-assets explain` names the commands."
FOLLOWED = RequestSays(
    "ab-1",
    "landed",
    "acme",
    ADS,
    NOW,
    accepted=1002,
    rejected=1,
    landed=NOW,
    raw=[
        RawSays(day, "raw/a", records, late, [ReaderSays("clean-ads/v1.0", day, update)])
        for day, records, late, update in (
            ("2026-11-27", 1000, False, "u"),
            ("2026-11-27", 1, False, "u"),
            ("2026-11-01", 1, True, None),
        )
    ],
    quarantined=[BadSays(7, "is not a <b>JSON</b> object", f"landing/{ADS}", None, resubmitted=True)],
    problems=["quarantine/x cannot be read"],
)
WAITS_TO_LAND = RequestSays("ab-2", "waiting", "acme", ADS, NOW, accepted=1, rejected=0)
KNOWN = {each.request_id: each for each in (FOLLOWED, WAITS_TO_LAND)}
UNUSABLE = "acme has sent 100 records in 24 hours; 43 cannot be used: is not a JSON object (40); 'id' has no value (3)."


def fill(store: Store, base: str, now: datetime) -> None:
    """Ads were silent for five hours, have a new column and days that wait, and are pushed badly."""
    hours = {HOUR - timedelta(hours=ago): Arrived(2, 1000 + ago) for ago in range(6, 24 * 5)}
    days = {
        (now - timedelta(days=ago)).date(): {"looked": 50, "landings": 1, "unknown": unknown, "empty": {}}
        for ago, unknown in ((4, {}), (3, {}), (2, {}), (1, {"evil\u202e": 50}))
    }
    keep_look(store, base, min(hours), now)
    keep_arrivals(store, base, ADS, min(hours), hours, days)
    keep_arrivals(store, base, CLICKS, HOUR, {HOUR: Arrived(1, 7)}, {})
    keep_told(store, base, "log", {f"{topic_of(ADS)}2026-11-0{day}": "1" for day in (2, 1)}, now=now)
    keep_told(store, base, "log", {f"{topic_of(ADS)}2026-10-01": "over"}, now=now - timedelta(hours=3))
    tally = Tally(3, 60, Counter({"is not a JSON object": 40}), now, now)
    with store.writing() as transaction:
        record_received(transaction, {"segment": {("acme", ADS): tally}}, forget=now - timedelta(days=30))
        record_landed(transaction, "segment", ADS, {"acme": {"'id' has no value": 3}}, at=now)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """The descriptions of the sources; one is wrong."""
    wrong = SHOP_CLICKS.replace("name: shop_clicks", "name: wrong").replace("identity:", "identities:")
    return write_sources(tmp_path_factory.mktemp("sources"), f"{SHOP_ADS}expect_every: 2h\n", SHOP_CLICKS, wrong)


@pytest.fixture(scope="module")
def service(directory, tmp_path_factory):
    """A client of the service over such sources."""
    store = Store(sqlite_url(tmp_path_factory.mktemp("sources-state") / "state.db"))
    fill(store, BASE, NOW)
    with serving(store.url, sources=usable_sources(directory, KINDS), requests=KNOWN.get) as client:
        yield client


@pytest.fixture
def opened(screen):
    """Opens the page on a screen."""
    return partial(screen, path="/sources", ready=".series")


def run(*arguments: str, code: int = 0) -> Result:
    """A command that ends with this code."""
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def test_the_answer_has_warnings_first_each_with_what_the_notices_tell(service: Client):
    ads, wrong, clicks = service.ask("/v1/sources").body

    (new,) = ads["new_columns"]
    day = str((NOW - timedelta(days=1)).date())
    assert (new, ads["new_columns"][new]) == ("evil\\u202e", day)
    columns = f"1 column that the description does not name: evil\\u202e (from {day})."
    assert (ads["source"], ads["state"], ads["sentences"]) == (ADS, "silent", [])
    assert ads["warnings"] == [SILENCE, columns, WAITS, UNUSABLE]
    assert ads["waiting_days"] == ["2026-11-01", "2026-11-02"]
    assert list(ads["days"]) == [str((NOW - timedelta(days=ago)).date()) for ago in range(13, -1, -1)]
    assert ads["days"][day] == {"landings": 48, "records": sum(1000 + ago for ago in range(17, 41))}
    assert (ads["pushed"][0]["rejected"], ads["pushed"][0]["quarantined"]) == (40, 3)

    assert (wrong["source"], len(wrong["warnings"]), "identities" in " ".join(wrong["warnings"])) == (
        "clicks/wrong", 2, True,
    )  # fmt: skip
    assert (clicks["warnings"], clicks["state"]) == ([], None)
    assert clicks["sentences"] == [landed_in(HOUR)]


def test_the_command_says_the_same_and_ends_with_1(directory, tmp_path, monkeypatch):
    for name, value in {
        "BASE": tmp_path / "base",
        "SOURCES": directory,
        "STATE": sqlite_url(tmp_path / "s.db"),
    }.items():
        monkeypatch.setenv(f"FEED_ASSETS_{name}", str(value))
    monkeypatch.setenv("FEED_ASSETS_AS_OF", f"{NOW:%Y-%m-%dT%H:%M}")
    base = open_blackboard(str(tmp_path / "base")).uri("")
    fill(Store(sqlite_url(tmp_path / "s.db")), base, NOW)

    shown = run("sources", "status", code=1)
    assert shown.stdout.splitlines()[0] == f"WARNING  {ADS}: {SILENCE}"
    assert f"WARNING  {ADS}: {WAITS}" in shown.stdout
    assert shown.stderr.splitlines()[-1] == f"With warnings: {ADS}, clicks/wrong."

    (one,) = json.loads(run("sources", "status", "shop_clicks", "--json").stdout)
    assert one["source"] == CLICKS
    assert "There is no source 'no'" in run("sources", "status", "no", code=2).stderr


def test_the_page_shows_each_source_on_a_phone_too(opened, service: Client):
    for width in (1280, 320):
        page = opened(service.url, width=width)
        page.wait_for_selector(".plot .bar", state="attached")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.locator(".series h2").all_inner_texts() == [f"{ADS}\nwarning", "clicks/wrong\nwarning", CLICKS]
        warnings = page.locator(".series").first.locator("p.warning").all_inner_texts()
        assert warnings == [each.replace("`", "") for each in service.ask("/v1/sources").body[0]["warnings"]]
        assert "8 of 14 days have none." in page.locator("svg").first.get_attribute("aria-label")
        assert page.inner_text("#summary") == "3 sources, 2 with a warning. Times and days are in UTC."


def test_the_page_follows_a_request_to_its_records_on_a_phone_too(opened, service: Client):
    for width in (1280, 320):
        page = opened(service.url, width=width)

        def story(request_id: str, page=page) -> str:
            page.fill("#request-id", request_id)
            page.keyboard.press("Enter")
            page.wait_for_selector("#story:not([aria-busy])")
            return page.inner_text("#story")

        landed = story(" ab-1 ")
        rows = [" ".join(each.split()) for each in page.locator("#story tbody tr").all_inner_texts()]
        assert rows == [
            "2026-11-27 1,001 clean-ads/v1.0: u",
            "2026-11-01 1 corrected clean-ads/v1.0: not yet",
            "7 is not a <b>JSON</b> object corrected, landed again",
        ]
        assert "quarantine/x cannot be read" in landed
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert "waits in the journal" in story("ab-2")
        assert story("../a b?c").startswith("Request '../a b?c' has not landed, and waits in no journal")


def test_a_token_takes_the_grant_and_a_project_without_sources_is_told(opened, tmp_path):
    database = sqlite_url(tmp_path / "state.db")
    with serving(database) as client:
        assert client.ask("/v1/sources").body == []
        assert "FEED_ASSETS_SOURCES" in opened(client.url, ready="#nothing").inner_text("#nothing")

    reads, other = (
        add_token(Store(database), name, [grant], now=NOW, expires=None)
        for name, grant in (("eva", "read:*"), ("tom", "read:raw/*"))
    )
    with serving(database) as client:
        assert [client.ask(path).status for path in ("/v1/sources", "/v1/sources/requests/x")] == [401, 401]
        refused = Client(client.url, other).ask("/v1/sources")
        assert (refused.status, "ask for one with the grant read:sources" in refused.body["detail"]) == (403, True)

        page = opened(client.url, ready="#sign-in:not([hidden])")
        page.fill("#token", reads)
        page.keyboard.press("Enter")
        page.wait_for_selector("#nothing")
