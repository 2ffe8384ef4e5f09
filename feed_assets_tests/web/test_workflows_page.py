"""The page of workflows in a real browser, over a real master: what it shows, orders, sign-in, keyboard, phone."""

from __future__ import annotations

import pytest

from feed_assets.serving.tokens import add_token
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets.workflow.calls import Command
from feed_assets_tests.web.windows_service import NOW
from feed_assets_tests.web.workflow_service import NAME, REASON, Someone, fill, mastering, serving

PHONE = {"width": 360, "height": 740}
WIDE = {"width": 1280, "height": 900}
SHOWN = ".card"


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """The URL of the service over a workflow with tasks in all states, and some of its units."""
    folder = tmp_path_factory.mktemp("workflow")
    base, database = str(folder / "base"), sqlite_url(folder / "state.db")
    (folder / "base").mkdir()
    with mastering(base, database), serving(base, database) as client:
        units = fill(base)
        yield client.url, units, base


@pytest.fixture
def alone(tmp_path):
    """A base and a database that no other test uses."""
    (tmp_path / "base").mkdir()
    return str(tmp_path / "base"), sqlite_url(tmp_path / "state.db")


@pytest.fixture
def opened(browser):
    """Opens the page on a screen. It raises no error, and sends all requests to its own service."""
    contexts, problems = [], []

    def open_(url, *, viewport=WIDE, ready=SHOWN, **options):
        context = browser.new_context(viewport=viewport, **options)
        contexts.append(context)
        context.set_default_timeout(120_000)
        page = context.new_page()
        page.requested = []
        page.on("request", lambda request: page.requested.append(request.url))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if "Content Security" in said.text else None)
        page.goto(f"{url}/workflows")
        page.wait_for_selector(ready)
        assert all(each.startswith(url) for each in page.requested), page.requested
        return page

    yield open_
    for each in contexts:
        each.close()
    assert problems == []


def order(page, button, reason, *, effect):
    """Give an order with a reason, and wait for what it does."""
    page.get_by_role("button", name=button, exact=True).first.click()
    page.fill("#reason", reason)
    page.keyboard.press("Enter")
    page.wait_for_selector(effect)


def card(page, group):
    return page.inner_text(f".card[data-group={group}]")


def test_groups_stand_from_stage_to_stage_with_what_waits_is_leased_and_dead(opened, scene):
    url, _, _ = scene
    page = opened(url)
    lefts = {
        each.get_attribute("data-group"): each.bounding_box()["x"] for each in page.locator(".card").element_handles()
    }

    assert sorted(lefts, key=lefts.get) == ["split", "convert", "total", "publish"]
    assert page.locator(".feeds .line").count() == 5
    assert page.locator(".feeds .back").count() == 1  # what was published is computed again
    assert "epoch 1, position" in page.inner_text(".master").lower()
    assert "4 of 4 wait for their bundle" in card(page, "total")
    assert page.inner_text(".card[data-group=split] .waiting dd") == "12"
    assert page.inner_text(".card[data-group=convert] .dead dd") == "1"
    assert page.text_content(".card[data-group=split] .hidden") == "feeds convert, total"


def test_who_has_a_task_and_how_far_it_is_shows_beside_all_reasons_of_dead_ones(opened, scene):
    url, units, _ = scene
    page = opened(url)
    leased = page.inner_text(".leased li")

    assert f"unit {units['leased']}" in leased
    assert "40 %" in leased
    assert "worker-7, process 4711, for " in leased
    assert page.get_attribute(".leased progress", "value") == "0.4"
    assert f"3 times: {REASON}" in page.inner_text(".dead-tasks li")


def test_by_keyboard_a_unit_opens_its_story_and_escape_leads_back(opened, scene):
    url, units, _ = scene
    page = opened(url)
    page.focus(".dead-tasks button.link")
    page.keyboard.press("Enter")
    page.wait_for_selector(".story")

    assert page.evaluate("document.activeElement.id") == "panel"
    story = page.inner_text(".story")
    assert "made for convert" in story
    assert f"dead, attempt 3: {REASON}" in story
    assert '"country": "XX"' in page.inner_text("#panel pre")
    assert f"unit={units['dead']}" in page.url

    page.keyboard.press("Escape")
    assert page.is_hidden("#panel")
    assert page.evaluate("document.activeElement.dataset.key") == f"dead {units['dead']}"


def test_a_unit_that_is_done_is_found_by_its_number_and_leads_to_what_it_made(opened, scene):
    url, units, _ = scene
    page = opened(url)
    page.get_by_label("Unit", exact=True).fill(str(units["through"]))
    page.keyboard.press("Enter")
    page.wait_for_selector(".story")
    assert page.inner_text("#panel .state").startswith("gone: committed, made")

    page.locator(".story button").first.click()
    page.wait_for_selector(f"#panel-title:not(:has-text('unit {units['through']}'))")
    page.wait_for_selector(".story:has-text('made for total')")


def test_the_page_goes_on_with_what_workers_do_and_keeps_the_keyboard_where_it_is(opened, scene):
    url, _, base = scene
    page = opened(url)
    page.focus("[data-key='pause split']")
    before = int(page.inner_text(".card[data-group=split] .waiting dd"))
    Someone(base).lease("split")

    page.wait_for_selector(f".card[data-group=split] .waiting dd:text-is('{before - 1}')")
    assert page.evaluate("document.activeElement.dataset.key") == "pause split"


@pytest.mark.parametrize("viewport", [PHONE, {"width": 320, "height": 600}])
def test_on_a_phone_nothing_is_wider_than_the_screen(opened, scene, viewport):
    url, _, _ = scene
    page = opened(url, viewport=viewport, has_touch=True)
    tops = [each.bounding_box()["y"] for each in page.locator(".card").element_handles()]
    assert tops == sorted(tops)
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]

    page.locator(".leased button.link").first.tap()
    page.wait_for_selector(".story")
    panel = page.locator("#panel").bounding_box()
    assert panel["width"] <= viewport["width"]
    assert panel["y"] >= 0
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
    page.get_by_role("button", name="Close").tap()
    assert page.is_hidden("#panel")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast_in_both_schemes(opened, scene, scheme):
    url, _, _ = scene
    page = opened(url, color_scheme=scheme)
    page.locator(".dead-tasks button.link").first.click()
    page.wait_for_selector(".story")
    low = page.evaluate(
        """() => {
            const light = text => {
                const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(each => {
                    const part = each / 255;
                    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
                });
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const behind = element => {
                for (let each = element; each; each = each.parentElement) {
                    const colour = getComputedStyle(each).backgroundColor;
                    if (colour !== 'rgba(0, 0, 0, 0)') return colour;
                }
            };
            const found = [], texts = 'h1, h2, h3, p, a, li, dt, dd, label, button, span, strong, pre, code, time';
            for (const each of document.querySelectorAll(texts)) {
                if (!each.offsetParent || each.closest('.hidden, .skip')) continue;
                const [one, other] = [light(getComputedStyle(each).color), light(behind(each))].sort((a, b) => b - a);
                const contrast = (one + 0.05) / (other + 0.05);
                if (contrast < 4.5) found.push(`${each.tagName} ${each.textContent.slice(0, 20)} ${contrast}`);
            }
            return found;
        }"""
    )
    assert low == []


def test_both_pages_lead_to_each_other_and_load_nothing_from_elsewhere(opened, scene):
    url, _, _ = scene
    page = opened(url)
    policy = page.request.get(f"{url}/workflows").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy

    page.get_by_role("link", name="Data dependencies").click()
    page.wait_for_selector("h1:text-is('Data dependencies')")
    page.get_by_role("link", name="Workflows").click()
    page.wait_for_selector(SHOWN)


def test_on_this_machine_without_tokens_orders_ask_for_a_reason_and_do_what_they_say(opened, alone):
    base, database = alone
    with mastering(base, database), serving(base, database) as client:
        units = fill(base)
        page = opened(client.url)
        page.get_by_role("button", name="pause the group split").click()
        page.keyboard.press("Enter")
        assert page.is_visible("#order")  # not without a reason
        page.keyboard.press("Escape")
        assert page.is_hidden("#order")

        paused = ".card[data-group=split] .badge.paused"
        order(page, "pause the group split", "the rates are wrong", effect=paused)
        assert "Paused by local, " in card(page, "split")
        assert "the rates are wrong" in card(page, "split")
        order(page, "resume the group split", "they are right", effect=f".workflow:not(:has({paused}))")

        order(
            page,
            f"retry unit {units['dead']} of convert",
            "XX has a rate now",
            effect=".workflow:not(:has(.dead-tasks))",
        )
        assert page.inner_text(".card[data-group=convert] .waiting dd") == "1"


def test_an_order_that_comes_too_late_says_why_nothing_was_done(opened, alone):
    base, database = alone
    with mastering(base, database), serving(base, database) as client:
        unit = fill(base)["dead"]
        page = opened(client.url)
        page.get_by_role("button", name=f"retry unit {unit} of convert", exact=True).click()
        Someone(base).client.call(Command, order="retry", target=str(unit), by="eva", reason="first")
        Someone(base).lease("convert")
        page.fill("#reason", "second")
        page.keyboard.press("Enter")

        page.wait_for_selector(f"#order-problem:has-text('Unit {unit} is leased')")


def test_a_token_reads_what_it_may_and_gives_orders_in_its_name_only_with_control(opened, alone):
    base, database = alone
    with mastering(base, database):
        fill(base)
    watcher = add_token(Store(database), "eva", [f"read:{NAME}"], now=NOW, expires=None)
    boss = add_token(Store(database), "ana", [f"control:{NAME}"], now=NOW, expires=None)
    other = add_token(Store(database), "tom", ["read:raw/*"], now=NOW, expires=None)
    with mastering(base, database) as master, serving(base, database) as client:
        assert master
        page = opened(client.url, ready="#sign-in:not([hidden])")
        page.fill("#token", watcher)
        page.keyboard.press("Enter")
        page.wait_for_selector(SHOWN)
        assert page.get_by_role("button", name="pause").count() == 0
        assert page.get_by_role("button", name="drop").count() == 0
        assert watcher not in page.url

        page = opened(client.url, ready="#sign-in:not([hidden])")
        page.fill("#token", boss)
        page.keyboard.press("Enter")
        page.wait_for_selector(SHOWN)
        order(page, "pause the group convert", "see the mail", effect=".card[data-group=convert] .badge.paused")
        assert "Paused by ana, " in card(page, "convert")

        page = opened(client.url, ready="#sign-in:not([hidden])")
        page.fill("#token", other)
        page.keyboard.press("Enter")
        page.wait_for_selector("#nothing:has-text('the token reads none')")


def test_the_page_says_what_to_do_without_a_master_a_configuration_or_a_workflow(opened, alone):
    base, database = alone
    with serving(base, database) as client:
        page = opened(client.url, ready=".problem")
        assert page.inner_text(".problem").startswith("revenue has not begun: it has no master yet.")
        assert page.inner_text(".problem code") == "feed-assets workflow serve"
        with mastering(base, database):
            page.wait_for_selector(".why:has-text('No stage has a configuration yet')")
            assert page.inner_text(".why code") == "feed-assets workflow apply"
            Someone(base).apply()
            page.wait_for_selector(SHOWN)
        page.wait_for_selector(".problem:has-text('its process has ended')")
        page.wait_for_selector("#live:has-text('Live; no answer of revenue')")
    with serving(base, database, with_flows=False) as client:
        page = opened(client.url, ready="#nothing")
        assert "fa.Workflow" in page.inner_text("#nothing")
