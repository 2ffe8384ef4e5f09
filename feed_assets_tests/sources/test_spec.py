"""Descriptions of sources: what comes out of a good one, and what is said about a bad one."""

import re
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feed_assets.ads.partners import partners_directory
from feed_assets.ads.schemas import KINDS
from feed_assets.engine.sql import quoted
from feed_assets.sources.loading import load_source, load_sources
from feed_assets.sources.spec import SpecError

GOOD = """\
name: partner
kind: ads
format: {type: csv, header: true}
columns:
  event_time: to_timestamp(stamp)
  ad_id: ad
identity: [stamp, ad]
growth_threshold_percent: 2.5
lookback_days: 7
"""


@pytest.fixture
def described(tmp_path):
    """Write a description to a file and load it."""

    def load(text, name="partner.yaml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return load_source(path, KINDS)

    return load


@pytest.fixture
def problems(described, tmp_path):
    """What is said about a bad description, without the directory."""

    def say(text):
        with pytest.raises(SpecError) as caught:
            described(text)
        return str(caught.value).replace(f"{tmp_path}/", "").splitlines()

    return say


def test_a_source_is_what_its_file_says(described):
    source = described(GOOD)

    assert (source.key, source.kind, source.identifier) == ("ads/partner", "ads", "impression_id")
    assert source.growth_threshold_percent == Decimal("2.5")
    assert (source.time_zone, source.null_tokens, source.filter) == ("UTC", ("",), None)
    assert source.expressions["cost"] == "CAST(NULL AS decimal(18,6))"
    assert list(source.expressions) == [
        "impression_id", "event_time", "ad_id", "campaign_id", "user_id", "placement_id", "cost"
    ]  # fmt: skip


def test_a_day_is_due_three_hours_after_its_last_one_unless_the_source_says_otherwise(described, problems):
    assert described(GOOD).buffer_hours == 3
    assert described(GOOD + "buffer_hours: 0\n").buffer_hours == 0
    assert problems(GOOD + "buffer_hours: -1\n") == [
        "partner.yaml:10: buffer_hours: is -1: input should be greater than or equal to 0"
    ]


def test_the_sources_that_come_with_the_project_are_one_log_described_twice():
    ads, clicks = load_sources(partners_directory(), KINDS)

    assert (ads.key, clicks.key) == ("ads/open_bandit_ads", "clicks/open_bandit_clicks")
    assert ads.format == clicks.format
    assert ads.columns["impression_id"] == clicks.columns["impression_id"]


def test_a_problem_is_reported_with_file_line_field_and_what_to_do(problems):
    assert problems(GOOD.replace("header: true", "heder: true"))[0] == (
        "partner.yaml:3: format.heder: there is no such field; did you mean header?"
    )


def test_all_problems_of_a_file_are_reported_at_once_in_order_of_lines(problems):
    found = problems(
        """\
name: Bad Name
kind: views
format: {type: xml}
null_tokens: [null, ""]
time_zone: Mars
lookback_days: 0
columns:
  event_time: now()
identity: []
growth_threshold_percent: -1
speed: 3
"""
    )

    assert [line.split(": ")[:2] for line in found] == [
        ["partner.yaml:1", "name"],
        ["partner.yaml:2", "kind"],
        ["partner.yaml:3", "format"],
        ["partner.yaml:4", "null_tokens[0]"],
        ["partner.yaml:5", "time_zone"],
        ["partner.yaml:6", "lookback_days"],
        ["partner.yaml:9", "identity"],
        ["partner.yaml:10", "growth_threshold_percent"],
        ["partner.yaml:11", "speed"],
    ]
    assert all(len(line.split(": ", 2)[2]) > 10 for line in found)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: partner\n", "", "partner.yaml:1: name: is missing; add it"),
        (
            "kind: ads",
            "kind: clicks\nkind: ads",
            "partner.yaml:3: kind: is there twice (first on line 2); keep one",
        ),
        ("  ad_id: ad\n", "", "partner.yaml:4: columns.ad_id: is missing; add an expression for it"),
        (
            "  ad_id: ad\n",
            "  ad_id: ad\n  price: ad\n",
            (
                "partner.yaml:7: columns.price: canonical ads have no such column; "
                "they have impression_id, event_time, "
                "ad_id, campaign_id, user_id, placement_id, cost"
            ),
        ),
        (
            "ad_id: ad",
            "ad_id: concat(ad, uuid())",
            (
                "partner.yaml:6: columns.ad_id: uses uuid, which differs from run to run; "
                "use only the record's own columns"
            ),
        ),
        (
            "{type: csv, header: true}",
            "{type: csv, header: true, columns: [ad]}",
            "partner.yaml:7: identity[0]: the format has no column 'stamp'; it has ad",
        ),
        (
            "{type: csv, header: true}",
            "{type: csv, header: true, columns: [ad, AD, stamp]}",
            "partner.yaml:3: format.columns: 'AD' is there twice (case does not count); ",
        ),
        (
            "{type: csv, header: true}",
            "{type: csv, header: true, columns: [ad, stamp, _line]}",
            ("partner.yaml:3: format.columns: raw files use the name '_line' themselves; give the column another one"),
        ),
        (
            "{type: csv, header: true}",
            "{type: tsv}",
            (
                "partner.yaml:3: format: nothing names the columns; list them in `columns`, in order, "
                "or set `header: true`"
            ),
        ),
        (
            "{type: csv, header: true}",
            "{type: csv, header: true, encoding: klingon}",
            "partner.yaml:3: format.encoding: 'klingon' is no encoding; use a name such as utf-8",
        ),
        (
            "{type: csv, header: true}",
            "{type: csv, header: true, speed: 3}",
            (
                "partner.yaml:3: format.speed: there is no such field; "
                "there are type, header, columns, separator, quote, escape, line_breaks, encoding"
            ),
        ),
        (
            "{type: csv, header: true}",
            "{type: tsv, header: true, line_breaks: true}",
            "partner.yaml:3: format: `line_breaks` are those inside quotes: it takes a `quote`, and a separator",
        ),
        (
            "{type: csv, header: true}",
            "{type: tsv, header: true, escape: '\\'}",
            "partner.yaml:3: format: `escape` is before a quote inside quotes: it takes a `quote`, and is neither",
        ),
        ("{type: csv, header: true}", "{type: jsonl}", "partner.yaml:3: format.columns: is missing; add it"),
        (
            "{type: csv, header: true}",
            "{type: jsonl, columns: [ad, AD, stamp]}",
            "partner.yaml:3: format.columns: 'AD' is there twice (case does not count); ",
        ),
        (
            "{type: csv, header: true}",
            "{type: jsonl, columns: [ad, stamp], encoding: klingon}",
            "partner.yaml:3: format.encoding: 'klingon' is no encoding; use a name such as utf-8",
        ),
        (
            "{type: csv, header: true}",
            "{type: csv, header: true, encoding: hex}",
            "partner.yaml:3: format.encoding: 'hex' is no encoding; use a name such as utf-8",
        ),
        ("lookback_days: 7", "lookback_days: [", "partner.yaml:10: this is not YAML: "),
        (
            "lookback_days: 7",
            "lookback_days: 7\nfilter: from_json(payload, 'struct<a: int>').a > 1",
            "partner.yaml:10: this is not YAML: mapping values are not allowed here; if the value has a colon and a",
        ),
        (
            "identity: [stamp, ad]",
            "identity: stamp",
            "partner.yaml:7: identity: is 'stamp', not a list; put it in brackets",
        ),
        (
            "lookback_days: 7",
            "lookback_days: 7\nrecipients: [nobody]",
            "partner.yaml:10: recipients[0]: is 'nobody'; use an address such as team@example.com",
        ),
        (
            "lookback_days: 7",
            "lookback_days: 7\ngrowth_threshold: {cost_per_gb: 1, value_per_late_gb: 0, currency: EUR}",
            "partner.yaml:10: growth_threshold.value_per_late_gb: is 0: input should be greater than 0",
        ),
        (
            "lookback_days: 7",
            "lookback_days: 1000000",
            "partner.yaml:9: lookback_days: is 1000000: input should be less than or equal to 3650",
        ),
        (
            "lookback_days: 7",
            "lookback_days: 7\nbuffer_hours: 1000000000000",
            "partner.yaml:10: buffer_hours: is 1000000000000: input should be less than or equal to 8760",
        ),
    ],
)
def test_each_mistake_is_named_where_it_is(problems, old, new, message):
    assert old in GOOD

    assert problems(GOOD.replace(old, new))[0].startswith(message)


def test_functions_that_differ_from_run_to_run_are_only_refused_where_they_are_called(described):
    text = GOOD.replace("ad_id: ad", """ad_id: concat(now, 'rand()', "uuid()", `now()`)""")

    assert described(text).columns["ad_id"].startswith("concat(now")


NOTHING = ["", "- a list\n", "just text\n", "\t", "name: [", "a: &x [*x]\n", "? {a: b}\n: c\n", "\x00"]


@pytest.mark.parametrize("text", NOTHING)
def test_a_file_that_describes_nothing_is_a_problem_and_never_another_error(problems, text):
    assert problems(text)[0].startswith("partner.yaml:")


@given(st.text(max_size=200))
def test_no_text_whatever_makes_loading_fail_in_another_way(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))

    with pytest.raises(SpecError, match=re.escape(f"{path}:")):
        load_source(path, KINDS)


def test_a_directory_gives_its_sources_in_order_of_kind_and_name(tmp_path):
    for name, kind in (("b", "ads"), ("a", "ads"), ("c", "clicks")):
        text = GOOD.replace("name: partner", f"name: {name}").replace("kind: ads", f"kind: {kind}")
        (tmp_path / f"{name}{kind}.yaml").write_text(text)

    assert [source.key for source in load_sources(tmp_path, KINDS)] == ["ads/a", "ads/b", "clicks/c"]


def test_problems_of_several_files_and_a_name_used_twice_are_reported_together(tmp_path):
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text(f"# the same again\n{GOOD}")
    (tmp_path / "c.yaml").write_text(GOOD.replace("lookback_days: 7", "lookback_days: soon"))

    with pytest.raises(SpecError) as caught:
        load_sources(tmp_path, KINDS)

    assert str(caught.value).replace(f"{tmp_path}/", "").splitlines() == [
        "b.yaml:2: name: a.yaml describes ads/partner too; give one of them another name",
        ("c.yaml:9: lookback_days: is 'soon': input should be a valid integer, unable to parse string as an integer"),
    ]


def test_one_name_may_be_that_of_ads_and_of_clicks(tmp_path):
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text(GOOD.replace("kind: ads", "kind: clicks"))

    assert [source.key for source in load_sources(tmp_path, KINDS)] == ["ads/partner", "clicks/partner"]


def test_two_polled_sources_never_share_the_variable_of_their_credentials(tmp_path):
    kinds = [*KINDS, replace(next(iter(KINDS)), name="ads_eu")]
    polled = f"{GOOD}poll: {{place: /out, pattern: '*.csv', every: '0 * * * *'}}\n"
    (tmp_path / "a.yaml").write_text(GOOD.replace("name: partner", "name: eu_shop"))
    (tmp_path / "b.yaml").write_text(polled.replace("name: partner", "name: shop").replace("kind: ads", "kind: ads_eu"))
    assert [source.key for source in load_sources(tmp_path, kinds)] == ["ads/eu_shop", "ads_eu/shop"]
    (tmp_path / "a.yaml").write_text(polled.replace("name: partner", "name: eu_shop"))

    with pytest.raises(SpecError) as caught:
        load_sources(tmp_path, kinds)

    assert str(caught.value).replace(f"{tmp_path}/", "") == (
        "b.yaml:1: name: ads/eu_shop and ads_eu/shop are polled, and both would take the credentials in "
        "FEED_ASSETS_POLL_ADS_EU_SHOP; give one of them another name"
    )


def test_a_directory_that_is_not_there_and_a_file_that_would_be_skipped_are_errors(tmp_path):
    with pytest.raises(SpecError, match="not a directory"):
        load_sources(tmp_path / "nowhere", KINDS)
    (tmp_path / "partner.yml").write_text(GOOD)
    with pytest.raises(SpecError, match=r"name it partner\.yaml"):
        load_sources(tmp_path, KINDS)


def test_a_column_may_have_any_name():
    assert quoted("a`b c") == "`a``b c`"
