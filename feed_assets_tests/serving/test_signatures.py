"""Signatures of webhooks, by the examples that the services themselves publish."""

from __future__ import annotations

import base64
import hmac
from datetime import UTC, datetime, timedelta

import pytest

from feed_assets.serving.signatures import SCHEMES, BadSignatureError, Refusal, Scheme, Verifier, secret_of

SLACK_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar"
    b"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com"
    b"%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a1"
    b"4d10d2c447fce8b6703c"
)
PUBLISHED = {
    "standard": (
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        b'{"test": 2432232314}',
        {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        },
        1614265330,
    ),
    "github": (
        "It's a Secret to Everybody",
        b"Hello, World!",
        {"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
        0,
    ),
    "slack": (
        "8f742231b10e8888abcd99yyyzzz85a5",
        SLACK_BODY,
        {
            "x-slack-request-timestamp": "1531420618",
            "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        },
        1531420618,
    ),
}
"""Secret, body, headers and time of an example of each service's documentation."""
SLACK = Scheme(
    "x-slack-signature",
    prefix="v0=",
    signed="v0:{timestamp}:{body}",
    timestamp_header="x-slack-request-timestamp",
)
"""As a source describes a scheme that has no name here."""
NOW = datetime(2024, 1, 1, tzinfo=UTC)


def verifier(name, *texts, tolerance=300.0):
    scheme = SLACK if name == "slack" else SCHEMES[name]
    return Verifier(scheme, [secret_of(scheme, text) for text in texts], tolerance)


def refusal(of, headers, body, now=NOW):
    with pytest.raises(BadSignatureError) as refused:
        of.verify(headers, body, now=now)
    return refused.value.refusal


def stripe(secret, body, at, *more):
    signature = hmac.new(secret.encode(), f"{at:.0f}.".encode() + body, "sha256").hexdigest()
    return {"stripe-signature": ",".join((f"t={at:.0f}", *more, f"v1={signature}"))}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_example_is_right_and_with_another_byte_or_secret_wrong(name):
    secret, body, headers, at = PUBLISHED[name]
    now = datetime.fromtimestamp(at, UTC)

    assert verifier(name, secret).verify(headers, body, now=now) == headers.get("webhook-id", "")
    assert refusal(verifier(name, secret), headers, body + b" ", now) == Refusal.WRONG
    other = base64.b64encode(b"another").decode()
    assert refusal(verifier(name, other), headers, body, now) == Refusal.WRONG
    assert verifier(name, other, secret).is_signed(headers)
    verifier(name, other, secret).verify(headers, body, now=now)  # while the secret is replaced


@pytest.mark.parametrize("name", ["standard", "slack"])
def test_a_signature_is_right_within_the_tolerance_of_the_clock_only(name):
    secret, body, headers, at = PUBLISHED[name]
    of = verifier(name, secret)

    for seconds in (-300, 300):
        of.verify(headers, body, now=datetime.fromtimestamp(at + seconds, UTC))
    for seconds in (-301, 301):
        assert refusal(of, headers, body, datetime.fromtimestamp(at + seconds, UTC)) == Refusal.TIME


def test_a_header_may_have_several_signatures_as_while_the_service_replaces_its_secret():
    body, at = b"{}", NOW.timestamp()
    of = verifier("stripe", "new")

    of.verify(stripe("new", body, at, "v0=abc", "v1=00ff"), body, now=NOW)
    assert refusal(of, stripe("old", body, at), body) == Refusal.WRONG
    assert refusal(of, stripe("new", body, at, *["v1=00"] * 100), body) == Refusal.WRONG  # not all are looked at
    assert refusal(of, stripe("new", body, at + 1000), body, NOW) == Refusal.TIME


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"stripe-signature": ""},
        {"stripe-signature": "t=,v1=aa"},
        {"stripe-signature": "t=12e3,v1=aa"},
        {"stripe-signature": "t=1704067200"},
        {"stripe-signature": "t=1704067200,v1=no-hex"},
        {"stripe-signature": "v1=aa"},
    ],
)
def test_headers_in_another_form_are_refused_without_an_error(headers):
    assert refusal(verifier("stripe", "secret"), headers, b"{}") == Refusal.MALFORMED


def test_an_id_that_the_scheme_signs_must_be_there_and_is_put_into_the_text_as_it_is():
    secret, body, headers, at = PUBLISHED["standard"]
    now = datetime.fromtimestamp(at, UTC)
    of = verifier("standard", secret)

    assert refusal(of, headers | {"webhook-id": ""}, body, now) == Refusal.MALFORMED
    assert refusal(of, headers | {"webhook-id": "{timestamp}"}, body, now) == Refusal.WRONG


def test_another_scheme_is_described_by_its_fields():
    text = "{id}|{body}|{timestamp}"
    scheme = Scheme("x-sign", "A:", "", "base64", text, timestamp_header="x-at", id_header="x-id")
    at = NOW - timedelta(seconds=1)
    signature = hmac.digest(b"s", f"7|body|{at.timestamp():.0f}".encode(), "sha256")
    headers = {"x-sign": f"A:{base64.b64encode(signature).decode()}", "x-at": f"{at.timestamp():.0f}", "x-id": "7"}

    assert Verifier(scheme, [b"s"]).verify(headers, b"body", now=NOW) == "7"


def test_a_secret_that_is_no_base64_is_named_without_being_shown():
    with pytest.raises(ValueError, match="is no base64") as refused:
        secret_of(SCHEMES["standard"], "whsec_hidden!")

    assert "hidden" not in str(refused.value)
    assert "hidden" not in repr(verifier("github", "hidden"))
