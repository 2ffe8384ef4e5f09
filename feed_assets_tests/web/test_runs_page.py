"""The page of runs in a real browser: warnings first, plots, a phone, an empty history, and tokens."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from functools import partial

import pytest

from feed_assets.engine.progress import Progress
from feed_assets.run_history.executions import Execution
from feed_assets.run_history.live import LiveStep
from feed_assets.run_history.remembered import Remembered
from feed_assets.run_history.tables import forget_live, keep_live, record, remember
from feed_assets.serving.tokens import add_token
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests.dependencies.datasets import BASE
from feed_assets_tests.web.windows_service import NOW, Client, serving

TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
PRICES, TIGHT, QUIET = "asset prices", "schedule tight", "schedule quiet"


def fill(store: Store) -> None:
    """A schedule that fills its hour, one that does not, and a daily asset that grows; a tick waits."""
    found = []
    for ago in range(24 * 6, 0, -1):
        wanted = TODAY - timedelta(hours=ago)
        for series, minutes in ((TIGHT, 46 + 2 * (ago % 5)), (QUIET, 12)):
            ended = wanted + timedelta(minutes=minutes)
            found.append(Execution(series, f"{series} {ago}", None, wanted, wanted, ended, succeeded=True))
    for day in range(30):
        wanted = TODAY - timedelta(days=30 - day) + timedelta(hours=4)
        minutes = 70 * (1 + 0.12 * day / 7) * (1.05 if day % 3 else 0.95)
        ended = wanted + timedelta(minutes=minutes)
        found.append(Execution(PRICES, f"run-{day}", str(wanted.date()), wanted, wanted, ended, succeeded=True))
    record(store, BASE, found, now=datetime.now(UTC))
    remember(store, BASE, Remembered("quiet", "2026-03-03", TODAY))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with such a history."""
    store = Store(sqlite_url(tmp_path_factory.mktemp("runs") / "state.db"))
    fill(store)
    return store


@pytest.fixture(scope="module")
def service(store):
    """A client of the service over that history."""
    with serving(store.url, deadlines={PRICES: time(6)}) as client:
        yield client


@pytest.fixture
def opened(screen):
    """Opens the page on a screen."""
    return partial(screen, path="/runs", ready=".series")


def test_series_with_warnings_come_first_with_their_sentences_and_plots(opened, service: Client):
    page = opened(service.url)
    page.wait_for_selector(".plot .taken")

    assert page.locator(".series h2").all_inner_texts() == [f"{PRICES}\nwarning", f"{TIGHT}\nwarning", QUIET]
    answer = {each["series"]: each for each in service.ask("/v1/runs").body}
    for number, series in enumerate((PRICES, TIGHT, QUIET)):
        section = page.locator(".series").nth(number)
        assert section.locator("p").all_inner_texts() == answer[series]["sentences"]
    assert "remembered until its run has ended: 2026-03-03" in page.inner_text(".series:nth-child(3)")

    prices, tight, quiet = (page.locator(".series").nth(number) for number in range(3))
    assert prices.locator(".taken").count() == 27
    missed = answer[PRICES]["deadline"]["missed_on"]
    assert f"is missed from {missed} on" in prices.locator("svg").first.get_attribute("aria-label")
    assert (prices.locator(".missed").count(), prices.locator(".band").count()) == (1, 1)
    assert prices.locator("text.limit").all_text_contents() == ["deadline 06:00 UTC", "warning: 80 %"]
    assert (tight.locator(".bar.over").count(), tight.locator(".bar").count()) == (6, 6)
    assert (quiet.locator(".bar.over").count(), quiet.locator(".limit").count()) == (0, 2)


def test_on_a_phone_nothing_is_wider_than_the_screen(opened, service: Client):
    page = opened(service.url, width=320, color_scheme="dark")
    page.wait_for_selector(".plot .taken")
    assert page.evaluate("document.documentElement.scrollWidth") == 320
    assert page.evaluate("Math.max(...[...document.querySelectorAll('.plot')].map(each => each.clientWidth))") <= 320


def test_the_pages_lead_to_each_other(opened, service: Client):
    page = opened(service.url)
    for name, title in (("Workflows", "Workflows"), ("Runs", "Runs"), ("Data dependencies", "Data dependencies")):
        page.get_by_role("link", name=name, exact=True).click()
        page.wait_for_selector(f"h1:has-text('{title}')")
    assert page.get_by_role("link", name="Runs", exact=True).count() == 1


def test_without_history_it_says_what_to_do_and_with_tokens_it_takes_the_grant(opened, tmp_path):
    database = sqlite_url(tmp_path / "state.db")
    with serving(database) as client:
        assert "feed-assets dev" in opened(client.url, ready="#nothing").inner_text("#nothing")

    reads, other = (
        add_token(Store(database), name, [grant], now=NOW, expires=None)
        for name, grant in (("eva", "read:*"), ("tom", "read:raw/*"))
    )
    with serving(database) as client:
        assert client.ask("/v1/runs").status == 401
        refused = Client(client.url, other).ask("/v1/runs")
        assert (refused.status, "ask for one with the grant read:runs" in refused.body["detail"]) == (403, True)

        page = opened(client.url, ready="#sign-in:not([hidden])")
        page.fill("#token", other)
        page.keyboard.press("Enter")
        page.wait_for_selector("#live:has-text('the grant read:runs')")
        page.evaluate("sessionStorage.clear()")
        page.reload()
        page.wait_for_selector("#sign-in:not([hidden])")
        page.fill("#token", reads)
        page.keyboard.press("Enter")
        page.wait_for_selector("#nothing")
        assert reads not in page.url


def test_steps_that_run_are_shown_with_how_far_they_are_and_leave_when_they_have_ended(opened, store, service: Client):
    page = opened(service.url)
    assert page.is_hidden("#running")

    now = datetime.now(UTC)
    progress = Progress(1, 3, 118, 200, 41_200_000, 3_100_000_000, 0, 0)
    step = LiveStep(
        "7d1f0c2a", "clean_ads", ("clean-ads/v1.0",), "2026-06-19", "2026-06-19", 1, "a process",
        now - timedelta(minutes=3), now, now, progress=progress,
    )  # fmt: skip
    keep_live(store, BASE, step)
    (answer,) = service.ask("/v1/runs/steps").body
    assert (answer["state"], answer["progress"]["tasks_done"]) == ("running", 118)
    page.reload()
    page.wait_for_selector("#steps li")
    assert page.inner_text("#steps li").strip() == answer["sentence"]
    assert page.locator("#steps progress").evaluate("each => each.value / each.max") == 118 / 200

    forget_live(store, BASE, step.run, step.step)
    page.wait_for_selector("#running", state="hidden")
