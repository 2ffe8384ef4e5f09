"""The HTTP API of data dependencies, by real requests to a service that runs in a process of its own."""

from __future__ import annotations

import http.client
import json
import threading
import time
from contextlib import closing

import pytest

from feed_assets.dependencies.facts import Published
from feed_assets.dependencies.quality.marks import ColumnProfile, Profile
from feed_assets.serving.tokens import add_token
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests.dependencies.datasets import DAY
from feed_assets_tests.waiting import HANGS, until
from feed_assets_tests.web.windows_service import MEMBERS, NOW, Client, dependencies, serving

HOUR = [f"{DAY}T15:{minute:02}Z" for minute in range(0, 60, 5)]


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return sqlite_url(tmp_path_factory.mktemp("api") / "state.db")


@pytest.fixture(scope="module")
def client(database):
    with serving(database, many=True) as client:
        yield client


@pytest.fixture
def alone(tmp_path):
    """A service that no other test uses, and its database."""
    url = sqlite_url(tmp_path / "state.db")
    with serving(url) as client:
        yield client, url


def outcomes(answer):
    assert answer.status == 200, answer
    return [each["status"] for each in answer.body["outcomes"]]


def part(name, records, **more):
    return {"dataset": "raw/foo", "id": name, "object": f"s3://raw/{name}", "records": records} | more


def number(start, records, **more):
    return {"dataset": "raw/foo", "witness": "source", "start": start, "records": records} | more


def test_d13_datasets_say_their_grains_members_and_rules(client):
    found = {each["name"]: each for each in client.get("datasets").body["datasets"]}

    assert set(found) == {"raw/ads", "clean-ads/v1.0", "revenue/v1.0", "raw/foo", "raw/clicks"}
    assert found["raw/foo"]["basis"] == "counted"
    assert found["raw/foo"]["grains"][:3] == ["5min", "10min", "hour"]
    assert [each["path"] for each in found["raw/ads"]["members"]] == ["shop_a", "shop_b"]


def test_a_slot_that_time_completes_is_complete_and_a_feed_without_an_update_says_what_it_waits_for(client):
    raw = client.get("slot", dataset="raw/ads", member="shop_a", start=f"{DAY}T12").body
    feed = client.get("slot", dataset="clean-ads/v1.0", start="2026-11-26").body

    assert (raw["complete"], raw["revision"], raw["flags"]) == (True, 1, ["empty"])
    assert (feed["complete"], feed["revision"], feed["why"]) == (False, 0, "has no valid update")


def test_parts_and_numbers_are_answered_item_by_item_and_sent_again_they_are_known(alone):
    client, _ = alone
    numbers = [number(start, 100) for start in HOUR]
    parts = [part("a", dict.fromkeys(HOUR[:11], 100)), part("b", {HOUR[11]: 99})]

    assert outcomes(client.post("numbers", numbers)) == ["accepted"] * 12
    assert outcomes(client.post("parts", parts)) == ["accepted"] * 2
    assert outcomes(client.post("parts", parts)) == ["known"] * 2
    assert outcomes(client.post("numbers", numbers)) == ["known"] * 12
    hour = client.get("slot", dataset="raw/foo", start=f"{DAY}T15").body
    assert (hour["complete"], hour["accounted"], hour["expected"], hour["missing"]) == (False, 1199, 1200, 1)
    assert "99 of 100 records" in hour["why"]
    (missing,) = hour["first_missing"]
    details = client.get("slot/details", dataset="raw/foo", start=HOUR[11], grain="5min").body
    assert missing == details["slot"]["slot"]
    assert [(each["id"], each["records"]) for each in details["parts"]] == [("b", 99)]

    assert outcomes(client.post("parts", [part("c", {HOUR[11]: 1})])) == ["accepted"]
    assert client.get("slot", dataset="raw/foo", start=f"{DAY}T15").body["complete"]


def test_one_bad_item_of_a_batch_is_refused_with_its_reason_and_the_others_are_taken(alone):
    client, _ = alone
    bad = [
        part("negative", {HOUR[0]: -1}),
        part("off", {f"{DAY}T15:01Z": 1}),
        part("strange", {HOUR[0]: 1}, dataset="raw/nothing"),
        part("feed", {DAY: 1}, dataset="clean-ads/v1.0"),
        {"dataset": "raw/foo"},
        part("more", {HOUR[0]: 1}, colour="red"),
        part("huge", {HOUR[0]: 10**30}),
        part("future", {"2026-11-27T18:00Z": 1}),
        17,
        None,
    ]
    answer = client.post("parts", [*bad, part("good", {HOUR[0]: 5})])

    assert outcomes(answer) == ["refused"] * len(bad) + ["accepted"]
    assert all(len(each["message"]) > 10 for each in answer.body["outcomes"][: len(bad)])
    assert "is not on its grain: use 2026-11-27T15:00Z" in answer.body["outcomes"][1]["message"]
    changed = client.post("parts", [part("good", {HOUR[0]: 6})])
    assert outcomes(changed) == ["refused"]
    assert "was reported with other content before" in changed.body["outcomes"][0]["message"]
    assert client.get("slot", dataset="raw/foo", start=HOUR[0], grain="5min").body["accounted"] == 5


def test_a_replacement_is_one_act_and_sent_again_changes_nothing(alone):
    client, _ = alone
    client.post("parts", [part("small", {HOUR[0]: 5})])
    body = {"dataset": "raw/foo", "old": ["small"], "new": [part("large", {HOUR[0]: 7})]}

    assert [client.post("parts/replace", body).status for _ in range(2)] == [200, 200]
    assert client.get("slot", dataset="raw/foo", start=HOUR[0], grain="5min").body["accounted"] == 7
    assert outcomes(client.post("parts", [part("small", {HOUR[0]: 5})])) == ["known"]


def test_a_waiver_completes_a_slot_says_its_reason_is_made_once_and_taken_back(alone):
    client, _ = alone
    body = [{"dataset": "raw/foo", "start": f"{DAY}T15:00Z", "grain": "hour", "reason": "the line was cut"}]
    first, second = client.post("waivers", body), client.post("waivers", body)

    assert (outcomes(first), outcomes(second)) == (["accepted"], ["known"])
    waiver = first.body["outcomes"][0]["id"]
    assert second.body["outcomes"][0]["id"] == waiver
    hour = client.get("slot", dataset="raw/foo", start=f"{DAY}T15").body
    assert (hour["complete"], hour["waived"]) == (True, [f"the line was cut ({waiver})"])
    assert client.post("waivers/end", {"id": waiver, "reason": "the data came"}).status == 200
    assert not client.get("slot", dataset="raw/foo", start=f"{DAY}T15").body["complete"]
    assert client.post("waivers/end", {"id": "nothing", "reason": "x"}).status == 400


def test_a_slot_is_reopened_once_for_each_revision_however_often_it_is_asked_for(alone):
    client, url = alone
    states = dependencies(url)
    slot = states.datasets["clean-ads/v1.0"].dataset.slot(DAY)
    states.published([Published(slot, "20261127.120000")], now=NOW)
    body = [{"dataset": "clean-ads/v1.0", "start": DAY, "revision": 1, "reason": "bots", "hold": True}]
    until(lambda: client.get("slot", dataset="clean-ads/v1.0", start=DAY).body["complete"])

    assert [outcomes(client.post("reopen", body)) for _ in range(2)] == [["accepted"], ["known"]]
    found = client.get("slot", dataset="clean-ads/v1.0", start=DAY).body
    assert (found["complete"], found["revision"]) == (False, 2)
    assert "backfilled: bots" in found["why"]
    assert outcomes(client.post("reopen", [body[0] | {"revision": 7}])) == ["refused"]
    assert outcomes(client.post("release", [{"dataset": "clean-ads/v1.0", "start": DAY}])) == ["accepted"]
    assert client.get("slot", dataset="clean-ads/v1.0", start=DAY).body["complete"]


def with_updates(url, *days):
    """A writer of another process, after it has published these days."""
    states = dependencies(url)
    clean = states.datasets["clean-ads/v1.0"].dataset
    states.published([Published(clean.slot(day), "20261127.120000") for day in days], now=NOW)
    return states


def quality(client, start):
    return client.get("slot", dataset="clean-ads/v1.0", start=start).body["quality"]


def test_d40_a_mark_makes_a_slot_bad_is_known_when_it_is_sent_again_and_is_taken_back_once(alone):
    client, url = alone
    with_updates(url, DAY)
    until(lambda: client.get("slot", dataset="clean-ads/v1.0", start=DAY).body["complete"])
    given = {"dataset": "clean-ads/v1.0", "start": DAY, "reason": "bots", "evidence": "9 of 10"}
    named = given | {"id": "job-7", "reason": "prices"}
    first = client.post("marks", [given, named])

    assert outcomes(first) == ["accepted", "accepted"]
    assert outcomes(client.post("marks", [given, named])) == ["known", "known"]
    assert outcomes(client.post("marks", [named | {"reason": "other"}])) == ["refused"]
    assert quality(client, DAY) == "bad"
    listed = client.get("marks", dataset="clean-ads/v1.0").body["marks"]
    assert {(each["id"], each["reason"], each["by"], each["revision"]) for each in listed} == {
        (first.body["outcomes"][0]["id"], "bots", "person local", 1),
        ("job-7", "prices", "person local", 1),
    }

    over = [{"id": each["id"], "reason": "no"} for each in listed]
    assert outcomes(client.post("marks/remove", over)) == ["accepted", "accepted"]
    assert outcomes(client.post("marks/remove", [*over, {"id": "x", "reason": "no"}])) == ["known", "known", "refused"]
    assert quality(client, DAY) == "unchecked"
    assert client.get("marks").body["marks"] == []
    assert {each["removed"]["reason"] for each in client.get("marks", removed="true").body["marks"]} == {"no"}
    assert outcomes(client.post("marks", [named])) == ["known"]  # it stays removed
    assert outcomes(client.post("marks", [given])) == ["accepted"]  # a new mark


def test_one_bad_mark_of_a_batch_is_refused_and_the_others_are_taken(alone):
    client, _ = alone
    good = {"dataset": "raw/ads", "member": "shop_a", "start": f"{DAY}T12", "reason": "bots"}
    bad = [
        good | {"dataset": "raw/none"},
        good | {"member": "nobody"},
        good | {"start": f"{DAY}T12:01Z"},
        good | {"reason": ""},
        good | {"revision": 7},
        good | {"revision": 0},
        good | {"colour": "red"},
    ]

    assert outcomes(client.post("marks", [*bad, good])) == ["refused"] * len(bad) + ["accepted"]
    assert len(client.get("marks").body["marks"]) == 1
    assert client.get("marks", dataset="raw/none").status == 404
    assert client.get("marks", removed="yes").status == 400


def test_a_backfill_holds_its_slots_ends_as_backfilled_and_each_command_may_be_sent_again(alone):
    client, url = alone
    states = with_updates(url, "2026-11-25", "2026-11-26", DAY)
    until(lambda: client.get("slot", dataset="clean-ads/v1.0", start=DAY).body["complete"])
    client.post("marks", [{"dataset": "clean-ads/v1.0", "start": "2026-11-26", "reason": "bots"}])
    given = [{"dataset": "clean-ads/v1.0", "start": "2026-11-26", "last": DAY, "reason": "again", "id": "b-1"}]

    assert [outcomes(client.post("backfills", given)) for _ in range(2)] == [["accepted"], ["known"]]
    assert outcomes(client.post("backfills", [given[0] | {"id": "b-2"}])) == ["refused"]
    assert client.get("slot", dataset="clean-ads/v1.0", start=DAY).body["flags"] == ["backfill"]
    (found,) = client.get("backfills", dataset="clean-ads/v1.0").body["backfills"]
    assert found["slots"] == [f"clean-ads/v1.0 - day {day}" for day in ("2026-11-26", DAY)]

    clean = states.datasets["clean-ads/v1.0"].dataset
    states.published([Published(clean.slot(day), "20261127.130000") for day in ("2026-11-26", DAY)], now=NOW)
    over = [{"id": "b-1", "reason": "made again"}]
    assert [outcomes(client.post("backfills/close", over)) for _ in range(2)] == [["accepted"], ["known"]]
    assert (quality(client, "2026-11-26"), quality(client, DAY)) == ("backfilled", "unchecked")
    assert client.get("backfills").body["backfills"] == []
    bad = [given[0] | {"last": "2026-11-25"}, given[0] | {"start": "2026-11-28"}, given[0] | {"last": f"{DAY}T12"}]
    assert outcomes(client.post("backfills", bad)) == ["refused"] * 3


def test_who_waits_for_events_gets_what_another_process_writes_once_and_in_order(alone):
    client, url = alone
    after = client.get("events").body["next"]
    found = []

    def wait():
        found.append(client.get("events", after=after, wait=30, dataset="clean-ads/v1.0"))

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.3)
    states = dependencies(url)
    slot = states.datasets["clean-ads/v1.0"].dataset.slot(DAY)
    states.published([Published(slot, "20261127.120000")], now=NOW)
    waiting.join(HANGS)

    (answer,) = found
    (event,) = answer.body["events"]
    assert (event["kind"], event["details"]["dataset"], event["details"]["first"]) == (
        "completed",
        "clean-ads/v1.0",
        DAY,
    )
    assert "base" not in event["details"]
    assert client.get("events", after=answer.body["next"]).body["events"] == []
    assert client.get("events", after=answer.body["next"], wait=0.2).body["next"] >= answer.body["next"]


def test_events_that_are_gone_are_410_with_the_number_to_go_on_from(alone):
    client, url = alone
    states = dependencies(url)
    for day, moment in ((DAY, NOW), ("2026-11-26", NOW.replace(year=2027))):
        slot = states.datasets["clean-ads/v1.0"].dataset.slot(day)
        states.published([Published(slot, "20261127.120000")], now=moment)
    gone = client.get("events", after=0)

    assert (gone.status, gone.body["next"]) == (410, states.newest())
    assert "Look at the answers" in gone.body["detail"]
    assert client.get("events", after=gone.body["next"]).status == 200
    assert client.get("events", after=10**9).status == 410


def test_the_calendar_has_a_letter_for_each_slot_and_members_below_their_roll_up(client):
    found = client.get("calendar", dataset="raw/ads", grain="hour", from_=DAY).body

    assert [member for member, _ in found["rows"]] == ["-", "shop_a", "shop_b"]
    assert {len(letters) for _, letters in found["rows"]} == {24}
    assert found["rows"][1][1] == "e" * 13 + "i" * 3 + "o" * 8
    assert found["letters"]["e"] == "empty"
    assert client.get("slots", dataset="raw/ads", grain="hour", member="shop_a", from_=DAY).body["slots"][0]["complete"]


def test_a_thousand_members_by_five_minutes_are_one_small_answer(client):
    found = client.get("calendar", dataset="raw/clicks", grain="5min", from_=DAY)

    assert len(found.body["starts"]) == 288
    assert len(found.body["rows"]) == MEMBERS + 2
    assert int(found.headers["content-length"]) < 400_000


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("slot?dataset=raw/none&start=2026-11-27", 404, "There is no dataset 'raw/none'"),
        ("slot?dataset=raw/ads&start=2026-11-27T15:01Z&grain=hour", 400, "is not on its grain"),
        ("slot?dataset=raw/ads&start=tomorrow", 400, "is no start of a slot"),
        ("slot?dataset=raw/ads&start=2026-11-27&grain=decade", 400, "is no grain"),
        ("slot?dataset=raw/ads&start=2026-11-27&member=eu/fr", 400, "no member has the path"),
        ("slot?dataset=raw/ads", 400, "The parameter start is missing"),
        ("slot?dataset=raw/ads&dataset=raw/foo&start=2026-11-27", 400, "is given twice"),
        ("slot?dataset=raw/ads&start=2026-11-27&colour=red", 400, "There is no parameter 'colour'"),
        ("slot?dataset=raw%00ads&start=2026-11-27", 400, "cannot be printed"),
        ("slot?dataset=../../etc/passwd&start=2026-11-27", 404, "There is no dataset"),
        ("slots?dataset=raw/ads&from=2026-11-31", 400, "give a date"),
        ("slots?dataset=raw/ads&from=1026-11-30", 400, "1970"),
        ("slots?dataset=raw/ads&from=2026-11-27&to=2026-11-26", 400, "before from"),
        ("slots?dataset=raw/clicks&from=2026-11-27", 400, "More than 5,000 slots"),
        ("calendar?dataset=raw/clicks&from=2026-11-27&to=2027-11-27", 400, "More than 500,000 slots"),
        ("events?after=-1", 400, "give a number of 0 or more"),
        ("events?after=1e9", 400, "give a number of 0 or more"),
        ("events?after=0&wait=3600", 400, "give seconds from 0 to 60"),
        ("events?after=0&wait=nan", 400, "give seconds from 0 to 60"),
        ("explain?flow=revenue&partition=2026-11-27", 404, "is no asset with a trigger"),
        ("nothing", 404, "Not Found"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_with_what_to_do(client, path, status, message):
    answer = client.ask(f"/v1/dependencies/{path}")

    assert (answer.status, message in answer.body["detail"]) == (status, True), answer
    assert "Traceback" not in json.dumps(answer.body)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"", "application/json", 400),
        (b"[", "application/json", 400),
        (b"{}", "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"[" + b"0," * 1000 + b"0]", "application/json", 413),
        (b"[]", "text/plain", 415),
        (b"[]", "application/json; charset=utf-16", 415),
    ],
)
def test_a_body_that_makes_no_sense_is_refused(client, body, kind, status):
    answer = client.post("parts", body, Content_Type=kind)

    assert answer.status == status
    assert len(answer.body["detail"]) > 10


def test_the_document_has_every_operation_with_its_parameters_and_refusals(client):
    document = client.ask("/openapi.json").body
    paths = document["paths"]

    assert {"/v1/dependencies/slot", "/v1/dependencies/events", "/v1/dependencies/parts"} <= set(paths)
    slot = paths["/v1/dependencies/slot"]["get"]
    assert {each["name"] for each in slot["parameters"]} == {"dataset", "member", "grain", "start", "Authorization"}
    assert {"200", "400", "401", "403", "404"} <= set(slot["responses"])
    body = paths["/v1/dependencies/parts"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert {"dataset", "id", "object", "records"} <= set(body["items"]["required"])
    assert {"get", "post"} <= set(paths["/v1/dependencies/marks"])
    assert {"/v1/dependencies/marks/remove", "/v1/dependencies/backfills/close"} <= set(paths)
    assert "410" in paths["/v1/dependencies/events"]["get"]["responses"]
    assert "/v1/dependencies/parts" in client.ask("/docs").body


def status_with(client, path, **headers):
    host, _, port = client.url.removeprefix("http://").partition(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=HANGS)) as connection:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status


def test_without_tokens_only_this_machine_may_ask_and_neither_a_proxy_nor_another_name_of_it(client):
    path = "/v1/dependencies/datasets"

    assert status_with(client, path) == 200
    assert status_with(client, path, Host="localhost:8090") == 200
    assert status_with(client, path, Host="attacker.example") == 403
    assert status_with(client, path, **{"X-Forwarded-For": "203.0.113.9"}) == 403
    assert status_with(client, path, Forwarded="for=203.0.113.9") == 403


def test_a_token_does_what_its_grants_say_and_nothing_else(alone):
    client, url = alone
    reader = add_token(Store(url), "reader", ["read:raw/*"], now=NOW, expires=None)
    writer = add_token(Store(url), "writer", ["report:raw/foo", "read:raw/foo"], now=NOW, expires=None)
    until(lambda: client.get("datasets").status == 401)
    reads, writes = Client(client.url, reader), Client(client.url, writer)
    until(lambda: writes.get("datasets").status == 200)

    assert {each["name"] for each in reads.get("datasets").body["datasets"]} == {"raw/ads", "raw/foo"}
    assert reads.get("slot", dataset="clean-ads/v1.0", start=DAY).status == 403
    assert reads.get("events", after=0, dataset="clean-ads/v1.0").status == 403
    assert outcomes(reads.post("parts", [part("a", {HOUR[0]: 1})])) == ["refused"]
    assert outcomes(writes.post("parts", [part("a", {HOUR[0]: 1})])) == ["accepted"]
    assert outcomes(writes.post("numbers", [number(HOUR[0], 1)])) == ["refused"]
    mark = {"dataset": "raw/foo", "start": f"{DAY}T15:00Z", "grain": "hour", "reason": "bots"}
    assert [outcomes(each.post("marks", [mark])) for each in (reads, writes)] == [["refused"]] * 2
    assert outcomes(reads.post("backfills", [mark])) == ["refused"]
    assert reads.get("marks", dataset="clean-ads/v1.0").status == 403
    marker = Client(client.url, add_token(Store(url), "ann", ["mark:raw/foo"], now=NOW, expires=None))
    until(lambda: marker.get("datasets").status == 200)
    assert outcomes(marker.post("marks", [mark])) == ["accepted"]
    (shown,) = reads.get("marks").body["marks"]
    assert shown["by"] == "person ann"
    assert outcomes(reads.post("marks/remove", [{"id": shown["id"], "reason": "no"}])) == ["refused"]
    assert reads.post("waivers/end", {"id": "x", "reason": "y"}).status == 403
    assert Client(client.url, reader[:-1]).get("datasets").status == 401
    assert client.ask("/").status == 200
    assert client.ask("/health").status == 200


def test_d11_details_have_the_rows_of_the_update_in_force(alone):
    client, url = alone
    states = dependencies(url)
    slot = states.dataset("clean-ads/v1.0").slot(DAY)
    profile = Profile(430, {"cost": ColumnProfile(3, 40, 0.5, 9)})
    states.published([Published(slot, "u1", run="r1", profile=profile)], now=NOW)

    def details():
        return client.get("slot/details", dataset="clean-ads/v1.0", start=DAY).body["output"]

    until(details)
    assert details() == {
        "update": "u1",
        "run": "",
        "rows": 430,
        "columns": {"cost": {"nulls": 3, "distinct": 40, "smallest": 0.5, "largest": 9}},
        "unusual": [],
    }
