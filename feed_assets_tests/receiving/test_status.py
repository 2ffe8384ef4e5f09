"""What a partner and an operator see of the records that were sent: also after a kill, and with two receivers."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from feed_assets.receiving.limits import Limits
from feed_assets.serving.tokens import add_token
from feed_assets_tests.receiving.light import Light, describe, running_light
from feed_assets_tests.receiving.serving import SOURCE
from feed_assets_tests.receiving.test_server import GOOD
from feed_assets_tests.waiting import until

NOW = dt.datetime.now(dt.UTC)
BAD = b'nope\n{"id":"2"}\n'
NO_TIME = "the record has no time: no value for time"
IDLE = Limits(roll_seconds=3600)


def installed(tmp_path, limits=IDLE):
    """A receiver with two partners of a source and an operator, and their tokens."""
    light = Light(tmp_path / "base", limits, tokens=True)
    describe(light.base)
    tokens = {name: add_token(light.store, name, [SOURCE], now=NOW, expires=None) for name in ("acme", "other")}
    tokens["ops"] = add_token(light.store, "ops", ["read:*"], now=NOW, expires=None)
    return light, tokens


def asking(server, token, path="/v1/status"):
    return server.ask(path, Authorization=f"Bearer {token}")


def counts(server, token):
    (each,) = asking(server, token).body["sources"]
    return {name: each[name] for name in ("requests", "accepted", "rejected_by_reason", "waiting")}


def test_a_partner_sees_its_own_records_also_after_a_kill_and_of_all_receivers_and_the_operator_sees_all(tmp_path):
    light, tokens = installed(tmp_path)
    acme = {
        "requests": 2,
        "accepted": 2,
        "rejected_by_reason": {"is not a JSON object": 1, NO_TIME: 1},
        "waiting": 2,
    }
    nothing = {"requests": 0, "accepted": 0, "rejected_by_reason": {}, "waiting": 0}
    with running_light(light) as server:
        server.post(GOOD + BAD, Authorization=f"Bearer {tokens['acme']}")
        for _ in range(2):  # the repeated request is no other
            server.post(GOOD, Authorization=f"Bearer {tokens['acme']}", Idempotency_Key="k")

        assert counts(server, tokens["acme"]) == acme
        assert counts(server, tokens["other"]) == nothing
        until(lambda: asking(server, tokens["acme"]).body["sources"][0]["lag_seconds"] > 0)
        of_all = asking(server, tokens["ops"]).body["sources"]
        assert {(each["partner"], each["source"], each["requests"]) for each in of_all} == {
            ("acme", SOURCE, 2),
            ("", "ads/signed_ads", 0),
        }
        metrics = asking(server, tokens["ops"], "/v1/metrics").body
        assert f'feed_assets_receive_source_events_total{{outcome="accepted",source="{SOURCE}"}} 2.0' in metrics
        assert 'source_events_total{outcome="accepted",source="ads/signed_ads"} 0.0' in metrics
        assert [asking(server, tokens["acme"], path).status for path in ("/v1/metrics", "/v1/status?hours=0")] == [
            403,
            400,
        ]
        assert [server.get(path).status for path in ("/v1/metrics", "/v1/status")] == [401, 401]
    soon = Limits(roll_seconds=0.2)
    with (
        running_light(replace(light, journal="blackboard", limits=soon)) as second,
        running_light(replace(light, limits=soon)) as server,  # the first one was killed
    ):
        landed = acme | {"waiting": 0}
        until(lambda: counts(server, tokens["acme"]) == landed)
        (each,) = asking(server, tokens["acme"]).body["sources"]
        assert (each["last_landed"] is not None, each["lag_seconds"]) == (True, 0.0)
        second.post(GOOD, Authorization=f"Bearer {tokens['acme']}")
        expected = landed | {"requests": 3, "accepted": 3}
        for each in (server, second):
            until(lambda each=each: counts(each, tokens["acme"]) == expected)


def test_all_series_exist_from_the_start(tmp_path):
    with running_light(Light(tmp_path / "base", IDLE)) as server:
        assert server.metric('feed_assets_receive_events_total{outcome="rejected"}') == 0
        assert server.metric('feed_assets_receive_requests_total{status="503"}') == 0
        assert server.metric('feed_assets_receive_landed_total{outcome="quarantined"}') == 0
        known = set(server.get("/openapi.json").body["paths"]["/v1/events/{source}"]["post"]["responses"])
        assert [server.metric(f'feed_assets_receive_requests_total{{status="{each}"}}') for each in known] == [0] * len(
            known
        )
        assert server.get("/v1/status").status == 200  # without tokens, whoever is on this machine
