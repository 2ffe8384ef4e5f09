"""Flows over raw data that a partner counts: nothing starts until enough records have landed, and then once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.operations.gate_answers import explain_flow
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.flows import Flows
from feed_assets.sources.kinds import Kind
from feed_assets.sources.layout import LandingId, landed_path, raw_file_key
from feed_assets.sources.ledger import Landing
from feed_assets.sources.loading import load_sources
from feed_assets.sources.spec import SpecError
from feed_assets_tests.harness import DAY, SHOP_ADS, Installation, write_sources
from feed_assets_tests.ledger import enter

COUNTED = SHOP_ADS + "complete: {basis: counted, witness: 'counts/{yyyy}-{mm}-{dd}.csv'}\n"


@pytest.fixture
def counted(desk: Installation, tmp_path: Path) -> Installation:
    """A shop that counts its ads, and a flow with a trigger."""
    sources = write_sources(tmp_path / "counted", COUNTED)
    settings = replace(desk.settings, gate=True, sources_directory=sources)
    return replace(desk, settings=settings, _definitions=None)


def land(installation: Installation, hour: int, records: int, content: str = "a") -> None:
    """A landed file of so many records, with its entry in the ledger."""
    digest, place = content * 16, f"{DAY}/{hour:02}"
    path = landed_path(f"{hour:02}", LandingId(digest, 1), records)
    installation.board.create(raw_file_key("ads/shop_ads", DAY, path), b"x" * records)
    entry = Landing(
        "ads/shop_ads", "log.csv", digest * 4, digest, read=records, landed=records, filtered=0, malformed=0,
        quarantined={}, quarantine_key=None, partitions=(place,), days=(DAY,), generation=1, records=(records,),
    )  # fmt: skip
    enter(installation.board, entry)


def count(installation: Installation, text: str) -> None:
    """The partner's control file of the day."""
    target = installation.base / "counts" / f"{DAY}.csv"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def all_hours(**hours: int) -> str:
    """A control file that names each hour: 0 records, save in these."""
    return "hour,records\n" + "".join(f"{each},{hours.get(f'h{each}', 0)}\n" for each in range(24))


def why(installation: Installation) -> str:
    sources = installation.definitions.resources["project"].sources
    feeds = AssetFeedGraph.of(installation.definitions.get_repository_def())
    flows = Flows.of(feeds, sources, installation.settings.first_day)
    states = flows.states(installation.store, installation.board)
    return explain_flow(installation.board, flows, states, sources, "clean_ads", DAY, now=installation.now).sentence


def test_nothing_starts_without_a_control_file_and_the_answer_names_it(counted: Installation) -> None:
    land(counted, 15, 1000)

    assert counted.tick("starts").asked == {}
    answer = why(counted)
    assert f"shop_ads hour {DAY}T00:00Z has no final number of counts/{DAY}.csv" in answer
    assert f"counts/{DAY}.csv is not there" in answer


def test_the_answer_names_a_file_without_a_line_for_an_hour_and_one_that_no_tick_has_read(
    counted: Installation,
) -> None:
    land(counted, 15, 1000)
    count(counted, "hour,records\n15,1000\n")
    counted.tick("starts")
    assert f"counts/{DAY}.csv has no line for it" in why(counted)

    count(counted, all_hours(h15=2000) + "\n")
    assert f"counts/{DAY}.csv names it; the next tick of the sensor `starts` takes that" in why(counted)
    counted.tick("starts")
    assert why(counted).endswith(f"hour {DAY}T15:00Z has 1,000 of 2,000 records, 50.000 %")


def test_a_day_starts_once_when_the_late_tenth_has_landed_and_until_then_says_what_is_missing(
    counted: Installation,
) -> None:
    count(counted, all_hours(h15=1000))
    land(counted, 15, 900)

    assert counted.tick("starts").asked == {}
    assert f"raw/ads shop_ads hour {DAY}T15:00Z has 900 of 1,000 records, 90.000 %" in why(counted)

    land(counted, 15, 100, "b")
    assert counted.tick("starts").asked == {DAY: ("clean_ads",)}
    assert counted.tick("starts").asked == {}


def test_one_record_below_the_threshold_is_not_enough_and_at_the_threshold_it_is(counted: Installation) -> None:
    count(counted, all_hours(h15=100_000))
    land(counted, 15, 99_994)
    assert counted.tick("starts").asked == {}

    land(counted, 15, 1, "b")
    assert counted.tick("starts").asked == {DAY: ("clean_ads",)}


def test_a_revised_number_replaces_the_old_one(counted: Installation) -> None:
    count(counted, all_hours(h15=1000))
    land(counted, 15, 900)
    counted.tick("starts")

    count(counted, all_hours(h15=900) + "\n")
    assert counted.tick("starts").asked == {DAY: ("clean_ads",)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hours,records\n", "its first line is 'hours,records', and must be 'hour,records'"),
        ("hour,records\n24,1\n", "line 2: there is no hour 24: hours are 0 to 23"),
        ("hour,records\n1,-1\n", "line 2: '1,-1' is no hour and number of records"),
        ("hour,records\n1,\u0661\n", "line 2: '1,\u0661' is no hour and number of records"),
        ("hour,records\n1,1\n1,2\n", "line 3: hour 1 comes twice"),
        ("", "its first line is '', and must be 'hour,records'"),
        ("x" * 70_000, "it has more than 65536 bytes"),
    ],
)
def test_a_control_file_that_cannot_be_read_counts_for_nothing_and_is_named(
    counted: Installation, text: str, message: str
) -> None:
    count(counted, text)
    land(counted, 15, 1000)

    tick = counted.tick("starts")
    assert tick.asked == {}
    assert f"counts/{DAY}.csv: {message}" in tick.skipped
    assert f"counts/{DAY}.csv is refused: {message}" in why(counted)


@pytest.mark.parametrize(
    ("complete", "message"),
    [
        ("{basis: counted}", "needs a witness"),
        ("{basis: assumed, witness: 'counts/{yyyy}-{mm}-{dd}.csv'}", "takes no witness"),
        ("{witness: 'counts/{yyyy}-{mm}.csv'}", "must have each of {yyyy}, {mm}, {dd} once"),
        ("{witness: 'counts/{yyyy}-{mm}-{dd}-{hh}.csv'}", "must have each of {yyyy}, {mm}, {dd} once"),
        ("{witness: '{yyyy}-{mm}-{dd}.csv'}", "must lie in a folder of its own"),
        ("{witness: '../counts/{yyyy}-{mm}-{dd}.csv'}", "is no path below the base"),
        ("{witness: 'c/{yyyy}-{mm}-{dd}.csv', threshold_percent: 100.1}", "less than or equal to 100"),
        ("{witness: 'c/{yyyy}-{mm}-{dd}.csv', slack: -1}", "greater than or equal to 0"),
        ("{witness: 'c/{yyyy}-{mm}-{dd}.csv', basis: covered}", "'assumed' or 'counted'"),
    ],
)
def test_a_field_that_cannot_work_is_refused_with_its_line(tmp_path: Path, complete: str, message: str) -> None:
    directory = write_sources(tmp_path / "sources", SHOP_ADS + f"complete: {complete}\n")

    with pytest.raises(SpecError) as refused:
        load_sources(directory, KINDS)
    assert "0.yaml:17: complete" in str(refused.value)
    assert message in str(refused.value)


def test_the_field_changes_neither_digest_of_a_source(tmp_path: Path) -> None:
    kinds: tuple[Kind, ...] = KINDS
    (plain,) = load_sources(write_sources(tmp_path / "plain", SHOP_ADS), kinds)
    (with_counts,) = load_sources(write_sources(tmp_path / "counted", COUNTED), kinds)

    assert (plain.digest, plain.landing_digest) == (with_counts.digest, with_counts.landing_digest)
