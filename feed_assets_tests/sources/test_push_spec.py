"""The field `push`: what it takes, and that no message shows a secret."""

from __future__ import annotations

import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.sources.loading import load_source
from feed_assets.sources.spec import SpecError
from feed_assets_tests.harness import SHOP_ADS
from feed_assets_tests.receiving.serving import EVENTS


def source(tmp_path, push, text=EVENTS):
    path = tmp_path / "shop_ads.yaml"
    path.write_text(f"{text}push: {push}\n", encoding="utf-8")
    return load_source(path, KINDS)


@pytest.mark.parametrize(
    ("push", "problem"),
    [
        ("{signature: nope, secrets: [A]}", "push.signature: is 'nope'"),
        ("{signature: github, secrets: whsec_hidden}", "push.secrets: is no list; name the variables in brackets"),
        ("{signature: github, secrets: [whsec_hidden]}", "put the secret into the variable, not here"),
        ("{signature: github, secrets: []}", "push.secrets: is empty; name at least one"),
        ("{signature: github, secrets: [A], tolerance: 3}", "there is no such field; did you mean tolerance_seconds?"),
        ("{signature: {heder: X}, secrets: [A]}", "push.signature.heder: there is no such field; did you mean header?"),
        ("{signature: {header: 'X Y'}, secrets: [A]}", "push.signature.header: 'X Y' is no name of a header"),
        ("{signature: {header: X, signed: '{time}{body}'}, secrets: [A]}", "has {time}; there are {body}"),
        ("{signature: {header: X, signed: '{timestamp}'}, secrets: [A]}", "has to have {body} once"),
        ("{signature: {header: X, signed: '{id}{body}'}, secrets: [A]}", "name its header in `id_header`"),
        ("{signature: {header: X, timestamp_header: Y}, secrets: [A]}", "protects nothing unless `signed` has"),
        ("3", "push: is 3, not fields"),
    ],
)
def test_a_field_that_is_wrong_is_named_with_what_to_do_and_without_a_secret(tmp_path, push, problem):
    with pytest.raises(SpecError) as error:
        source(tmp_path, push)

    assert problem in str(error.value)
    assert "hidden" not in str(error.value)
    assert "shop_ads.yaml:17: push" in str(error.value)


def test_only_a_source_that_takes_events_has_it_and_it_changes_no_result(tmp_path):
    with pytest.raises(SpecError, match=r"push: is for sources of `format: \{type: jsonl"):
        source(tmp_path, "{signature: github, secrets: [A]}", SHOP_ADS)
    one = source(tmp_path, "{signature: github, secrets: [A]}")
    other = source(tmp_path, "{signature: {header: X-Sign}, secrets: [B, C], partner: acme}")

    assert (one.digest, one.landing_digest) == (other.digest, other.landing_digest)


def test_a_variable_that_is_not_set_or_holds_no_secret_is_named(tmp_path):
    push = source(tmp_path, "{signature: standard, secrets: [OLD, NEW]}").push
    assert push is not None

    assert len(push.verifier({"OLD": "whsec_aGlkZGVu", "NEW": "aGlkZGVu\n"}).secrets) == 2
    with pytest.raises(ValueError, match="the variable NEW is not set"):
        push.verifier({"OLD": "whsec_aGlkZGVu", "NEW": " "})
    with pytest.raises(ValueError, match="the variable OLD is no base64"):
        push.verifier({"OLD": "hidden!", "NEW": "aGlkZGVu"})
