"""Descriptions of datasets in YAML: what they declare, and what is said of wrong ones."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from feed_assets.datasets.grains import Grain
from feed_assets.dependencies.declared.loading import load_datasets
from feed_assets.dependencies.rules import Basis
from feed_assets.sources.spec import SpecError

FIRST = date(2026, 1, 1)
GOOD = "name: topics/orders\ngrain: 5min\ncomplete: {basis: counted, witness: kafka}\n"


def describe(folder: Path, *texts: str) -> Path:
    for number, text in enumerate(texts):
        (folder / f"{number}.yaml").write_text(text, encoding="utf-8")
    return folder


def test_a_file_declares_a_dataset_with_its_grains_members_days_and_rule(tmp_path: Path) -> None:
    more = "levels: [region, center]\nmembers: [eu/par1, eu/ber1]\ncalendar: Europe/Paris\nfirst_day: 2026-03-01\n"
    (found,) = load_datasets(describe(tmp_path, GOOD + more), first_day=FIRST)

    dataset, rule = found.declared.dataset, found.declared.rule
    assert (found.name, dataset.base, Grain.QUARTER in dataset.grains) == ("topics/orders", Grain.FIVE_MINUTES, True)
    assert [(each.path, each.calendar.zone) for each in dataset.hierarchy.members] == [
        ("eu/ber1", "Europe/Paris"),
        ("eu/par1", "Europe/Paris"),
    ]
    assert dataset.hierarchy.members[0].first == date(2026, 3, 1)
    assert (rule.basis, rule.witnesses, rule.threshold) == (Basis.COUNTED, ("kafka",), 99_995)


def test_a_folder_that_is_not_there_declares_nothing(tmp_path: Path) -> None:
    assert load_datasets(tmp_path / "none", first_day=FIRST) == ()


@pytest.mark.parametrize(
    ("changed", "to", "message"),
    [
        ("topics/orders", "raw/orders", ":1: name: 'raw/orders' is a name of raw data, which sources make"),
        ("topics/orders", "a b", ":1: name: 'a b' is no name of a dataset"),
        ("5min", "7min", ":2: grain: is '7min': input should be '5min'"),
        ("grain: 5min", "", ":1: grain: is missing; add it"),
        ("grain: 5min", "grain: 5min\ncalender: UTC", ":3: calender: there is no such field; did you mean calendar?"),
        (
            "grain: 5min",
            "grain: 5min\ncalendar: Paris",
            "calendar: 'Paris' is no time zone: did you mean Europe/Paris?",
        ),
        (
            "grain: 5min",
            "grain: hour\ncalendar: Australia/Lord_Howe",
            ":2: grain: topics/orders: Australia/Lord_Howe has no slots of the grain hour: 2026-",
        ),
        ("grain: 5min", "grain: 5min\nmembers: [eu]", ":3: members: member 'eu' has 1 names; it must have no level"),
        ("grain: 5min", "grain: 5min\nlevels: [region]", ":3: levels: a dataset needs at least one member"),
        ("grain: 5min", "grain: 5min\nlevels: [region]\nmembers: [a, a]", "two members have the path a"),
        ("grain: 5min", "grain: 5min\nfirst_day: 2200-01-01", "2200"),
        ("witness: kafka", "witnes: kafka", "complete.witnes: there is no such field; did you mean witness?"),
        (", witness: kafka", "", ":3: complete: `basis: counted` needs a witness"),
        ("basis: counted", "basis: assumed", "`basis: assumed` takes no witness: leave it out, or change the basis"),
        ("witness: kafka", "witness: [a, a]", "complete.witness: a is named twice; name each witness once"),
        ("witness: kafka", "witness: 'c/{yyyy}.csv'", "must have each of {yyyy}, {mm}, {dd} once"),
        ("witness: kafka", "witness: 'feed:a b'", "complete.witness: 'feed:a b' is no witness"),
        ("witness: kafka", "witness: kafka, buffer: 5x", "'5x' is no duration: write a number and s, min, h, d or w"),
        ("witness: kafka", "witness: kafka, slack: -1", "complete.slack: is -1"),
        ("witness: kafka", "witness: kafka, grace: 5min", "`basis: counted` takes no grace"),
        ("counted, witness: kafka", "covered, witness: 'feed:a/v1.0'", "takes one witness of end positions"),
    ],
)
def test_a_wrong_description_is_refused_with_its_file_line_and_field(
    tmp_path: Path, changed: str, to: str, message: str
) -> None:
    with pytest.raises(SpecError) as refused:
        load_datasets(describe(tmp_path, GOOD.replace(changed, to)), first_day=FIRST)
    assert str(refused.value).startswith(f"{tmp_path}/0.yaml:")
    assert message in str(refused.value)


def test_two_files_cannot_declare_one_dataset_and_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"1\.yaml:1: name: 0\.yaml declares topics/orders too"):
        load_datasets(describe(tmp_path, GOOD, GOOD), first_day=FIRST)
    (tmp_path / "2.yml").write_text(GOOD, encoding="utf-8")
    with pytest.raises(SpecError, match=r"2\.yml would not be read; name it 2\.yaml"):
        load_datasets(tmp_path, first_day=FIRST)


def test_files_of_days_say_nothing_about_months_and_a_feed_nothing_about_members(tmp_path: Path) -> None:
    monthly = GOOD.replace("5min", "month").replace("kafka", "'c/{yyyy}-{mm}-{dd}.csv'")
    with pytest.raises(SpecError, match="files of days say nothing about a month"):
        load_datasets(describe(tmp_path, monthly), first_day=FIRST)
    members = GOOD.replace("kafka", "'feed:a/v1.0'") + "levels: [region]\nmembers: [eu]\n"
    with pytest.raises(SpecError, match="a feed does not say how many records each member has"):
        load_datasets(describe(tmp_path, members), first_day=FIRST)
