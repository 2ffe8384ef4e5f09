"""The page in a real browser: by keyboard, on a phone, live; and that it asks nobody else for anything."""

from __future__ import annotations

import re

import pytest

from feed_assets.dependencies.facts import Published
from feed_assets.serving.tokens import add_token
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests.dependencies.datasets import DAY
from feed_assets_tests.web.gated_shop import AGAIN, WAITING
from feed_assets_tests.web.windows_service import MEMBERS, NOW, dependencies
from feed_assets_tests.web.windows_service import serving as windows

PHONE = {"width": 360, "height": 740}
WIDE = {"width": 1280, "height": 900}
LOADED = "#summary:not(:empty):not(:has-text('Loading'))"
DAYS = "from=2019-11-15&to=2019-11-30"


@pytest.fixture
def opened(browser):
    """Opens an address on a screen. The page raises no error, and sends all requests to its own service."""
    contexts, problems = [], []

    def open_(url, address="", *, viewport=WIDE, ready=LOADED, **options):
        context = browser.new_context(viewport=viewport, **options)
        contexts.append(context)
        context.set_default_timeout(120_000)
        page = context.new_page()
        page.requested = []
        page.on("request", lambda request: page.requested.append(request.url))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if "Content Security" in said.text else None)
        page.goto(f"{url}/#{address}")
        page.wait_for_selector(ready)
        assert all(each.startswith(url) for each in page.requested), page.requested
        return page

    yield open_
    for each in contexts:
        each.close()
    assert problems == []


def cell(page):
    return page.text_content("#cell")


def presses(page, *keys):
    for each in keys:
        page.keyboard.press(each)


def test_from_the_calendar_by_keyboard_to_why_a_slot_waits_and_back(opened, shop_url):
    page = opened(shop_url, DAYS)
    page.focus("#calendar")
    presses(page, "End", "ArrowLeft", "ArrowLeft", "ArrowLeft")
    assert cell(page).startswith(f"ad-effectiveness/v1.0 {WAITING}: waiting, waits for data: clean-clicks/v1.0")

    presses(page, "Enter")
    page.wait_for_selector("#why table")

    assert page.evaluate("document.activeElement.id") == "panel"
    assert page.text_content("#panel-title") == f"ad-effectiveness/v1.0 day {WAITING}"
    why = page.text_content("#why .why")
    assert why == (f"ad_effectiveness {WAITING} waits for data: clean-clicks/v1.0 - day {WAITING}: has no valid update")
    stages = [re.split(r"\t", each)[:2] for each in page.inner_text("#why tbody").splitlines()]
    assert stages[:2] == [["earliest time", "✓ yes"], ["data", "✗ no"]]
    assert stages[2][1].endswith(" open")

    presses(page, "Escape")
    assert page.is_hidden("#panel")
    assert page.evaluate("document.activeElement.id") == "calendar"
    assert cell(page).startswith(f"ad-effectiveness/v1.0 {WAITING}")


def test_a_slot_leads_to_what_it_is_made_of_and_that_slot_to_what_is_made_of_it(opened, shop_url):
    page = opened(shop_url, f"{DAYS}&slot=ad-effectiveness/v1.0+-+day+{WAITING}", ready="#why table")
    page.get_by_role("button", name=f"clean-clicks/v1.0 - day {WAITING}").first.click()
    page.wait_for_selector(f"#panel-title:has-text('clean-clicks/v1.0 day {WAITING}')")
    page.wait_for_selector("#panel-content:has-text('Used by')")

    assert page.get_by_role("button", name=f"ad-effectiveness/v1.0 - day {WAITING}").count() == 1
    page.get_by_role("button", name=f"raw/clicks - day {WAITING}").click()
    page.wait_for_selector(f"#panel-title:has-text('raw/clicks day {WAITING}')")
    assert page.input_value("#dataset") in {"", "raw/clicks"}


def test_a_reopened_hour_shows_its_revision_and_the_reason_among_its_events(opened, shop_url):
    slot = f"slot=raw/ads+shop_ads+hour+{AGAIN}T15:00Z"
    page = opened(shop_url, f"dataset=raw/ads&grain=hour&from={AGAIN}&to={AGAIN}&{slot}", ready="#panel-content table")

    assert "Complete, revision 2" in page.text_content("#panel-content .state")
    events = page.inner_text("#panel-content")
    assert "reopened" in events
    assert "grown, +5 %" in events


def test_the_states_are_told_by_words_and_by_shapes_that_differ_without_colour(opened, shop_url):
    page = opened(shop_url, DAYS)
    names = page.locator("#legend li").all_inner_texts()
    shapes = page.eval_on_selector_all(
        "#legend canvas",
        """all => all.map(each => {
            const data = each.getContext('2d').getImageData(0, 0, each.width, each.height).data;
            return data.filter((_, place) => place % 4 === 3).map(alpha => alpha > 127 ? 1 : 0).join('');
        })""",
    )

    assert {"complete", "incomplete", "bad", "running", "failed", "waiting", "may start"} <= set(names)
    outlines = dict(zip(names, shapes, strict=True))
    # These are full squares with another mark on them, in a colour of high contrast.
    filled = {"complete", "empty", "waived", "bad"}
    assert len({shape for name, shape in outlines.items() if name not in filled}) == len(outlines) - len(filled)
    assert "waiting" in page.text_content("#summary")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast_in_both_schemes(opened, shop_url, scheme):
    page = opened(
        shop_url, f"{DAYS}&slot=ad-effectiveness/v1.0+-+day+{WAITING}", color_scheme=scheme, ready="#why table"
    )
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
            const found = [], texts = 'h1, h2, h3, p, a, li, td, th, dt, dd, label, button, option';
            for (const each of document.querySelectorAll(texts)) {
                if (!each.offsetParent || each.closest('.unseen, .skip, :disabled')) continue;
                const [one, other] = [light(getComputedStyle(each).color), light(behind(each))].sort((a, b) => b - a);
                const contrast = (one + 0.05) / (other + 0.05);
                if (contrast < 4.5) found.push(`${each.tagName} ${each.textContent.slice(0, 20)} ${contrast}`);
            }
            return found;
        }"""
    )

    assert low == []


def test_on_a_phone_nothing_is_wider_than_the_screen_and_a_tap_opens_a_slot(opened, shop_url):
    page = opened(shop_url, DAYS, viewport=PHONE, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]

    box = page.locator("#canvas").bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] - 12, box["y"] + 52)
    page.wait_for_selector("#why table")

    assert page.text_content("#panel-title") == "ad-effectiveness/v1.0 day 2019-11-30"
    panel = page.locator("#panel").bounding_box()
    assert panel["width"] <= PHONE["width"]
    assert panel["y"] >= 0
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    page.get_by_role("button", name="Close").tap()
    assert page.is_hidden("#panel")


def test_the_page_may_load_nothing_from_elsewhere_and_its_files_name_no_other_server(opened, shop_url):
    page = opened(shop_url, DAYS)
    policy = page.request.get(shop_url).headers["content-security-policy"]

    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http" not in policy
    own = {each.removeprefix(shop_url).partition("?")[0] for each in page.requested}
    assert {"/", "/static/main.js", "/static/style.css"} <= own
    for path in own:
        if path.startswith("/static/"):
            text = page.request.get(f"{shop_url}{path}").text()
            assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import", text), path


def test_a_thousand_members_by_five_minutes_draw_only_what_is_seen_and_scroll(opened, tmp_path):
    with windows(sqlite_url(tmp_path / "state.db"), many=True) as client:
        page = opened(client.url, f"dataset=raw/clicks&grain=5min&from={DAY}&to={DAY}")
        assert page.get_attribute("#calendar", "aria-rowcount") == str(MEMBERS + 2)
        assert page.get_attribute("#calendar", "aria-colcount") == "288"
        page.focus("#calendar")
        presses(page, "Home", "PageDown", "PageDown", "ArrowDown")
        assert re.match(r"eu/dc\d{4} 2026-11-27T00:00Z: empty", cell(page))

        drawn = page.evaluate(
            """() => {
                const scroll = document.getElementById('calendar');
                const context = document.getElementById('canvas').getContext('2d');
                let cells = 0;
                const fillRect = context.fillRect;
                context.fillRect = function (...given) { cells += 1; return fillRect.apply(this, given); };
                scroll.scrollTop = 5000;
                return new Promise(done => setTimeout(() => done(cells), 500));
            }"""
        )
        assert 0 < drawn < 1_000  # 288,576 cells


def test_what_another_process_writes_shows_without_a_reload(opened, tmp_path):
    url = sqlite_url(tmp_path / "state.db")
    with windows(url) as client:
        page = opened(client.url, f"dataset=revenue/v1.0&from={DAY}&to={DAY}")
        page.wait_for_selector("#live:has-text('Live')")
        assert "1 not ended yet" in page.text_content("#summary")
        states = dependencies(url)
        slot = states.datasets["revenue/v1.0"].dataset.slot(DAY)
        states.published([Published(slot, "20261127.120000")], now=NOW)

        page.wait_for_selector("#summary:has-text('1 complete')")


def test_with_tokens_the_page_asks_for_one_and_keeps_it_for_this_tab_only(opened, tmp_path):
    url = sqlite_url(tmp_path / "state.db")
    token = add_token(Store(url), "me", ["read:raw/*"], now=NOW, expires=None)
    with windows(url) as client:
        page = opened(client.url, ready="#sign-in:not([hidden])")
        page.fill("#token", "fa_wrong_token")
        page.keyboard.press("Enter")
        page.wait_for_selector("#sign-in-why:has-text('Bearer')")
        page.fill("#token", token)
        page.keyboard.press("Enter")
        page.wait_for_selector(LOADED)

        assert page.locator("#dataset option").all_inner_texts() == ["All datasets", "raw/ads", "raw/foo"]
        assert page.evaluate("localStorage.length") == 0
        assert token not in page.url


def test_an_address_that_is_changed_while_the_page_is_open_is_followed(opened, shop_url):
    page = opened(shop_url, f"{DAYS}&slot=ad-effectiveness/v1.0+-+day+{WAITING}", ready="#why table")
    page.evaluate(f"location.hash = 'dataset=raw/ads&grain=hour&from={AGAIN}&to={AGAIN}'")
    page.wait_for_selector("#about:has-text('buffer')")
    assert page.input_value("#dataset") == "raw/ads"
    assert (page.input_value("#from"), page.input_value("#to")) == (AGAIN, AGAIN)
    assert page.is_hidden("#panel")

    page.evaluate(f"location.hash = '{DAYS}&slot=ad-effectiveness/v1.0+-+day+{WAITING}'")
    page.wait_for_selector("#why table")
    assert page.text_content("#panel-content .state") == "Waiting, no revision yet"
    page.evaluate(f"location.hash = '{DAYS}&slot=clean-ads/v1.0+-+day+{AGAIN}'")
    page.wait_for_selector(f"#panel-title:has-text('clean-ads/v1.0 day {AGAIN}')")
    assert page.input_value("#dataset") == ""


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("dataset=raw/none", "there is no dataset raw/none"),
        ("dataset=raw/ads&grain=minute", "raw/ads has no slots of the length minute"),
        ("from=yesterday", "yesterday is no day such as 2019-12-01"),
        ("from=2019-02-30", "2019-02-30 is no day"),
        ("from=2019-11-30&to=2019-11-20", "2019-11-30 is after 2019-11-20"),
        (f"{DAYS}&slot=raw/ads", "raw/ads is no slot of these datasets"),
        (f"{DAYS}&slot=raw/none+-+day+2019-11-25", "raw/none - day 2019-11-25 is no slot of these datasets"),
    ],
)
def test_an_address_that_makes_no_sense_is_told_in_a_sentence_and_the_rest_of_it_is_shown(
    opened, shop_url, address, message
):
    page = opened(shop_url, address)
    told = page.text_content("#problem")
    assert told.startswith("The address of this page does not fit: ")
    assert message in told
    assert page.is_hidden("#panel")


def test_a_day_of_a_counted_dataset_of_which_nobody_has_said_anything_expects_nothing(opened, tmp_path):
    with windows(sqlite_url(tmp_path / "state.db")) as client:
        slot = f"slot=raw/foo+-+day+{DAY}"
        page = opened(client.url, f"dataset=raw/foo&grain=day&from={DAY}&to={DAY}&{slot}", ready="#panel dl")
        shown = page.inner_text("#panel dl")
    assert "nobody has said" in shown
    assert "flags" not in shown
