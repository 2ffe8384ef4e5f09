from __future__ import annotations

import re
from datetime import UTC, date, datetime

import pytest

from feed_assets.datasets.calendars import Calendar
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import DatasetError, MemberError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import day_of, instant_of
from feed_assets.datasets.member_changes import MemberChange, check_change, member_changes
from feed_assets.datasets.members import Hierarchy, Member

START, TODAY, TOMORROW = date(2026, 1, 1), date(2026, 11, 27), date(2026, 11, 28)
NOW = instant_of(datetime(2026, 11, 27, 12, tzinfo=UTC))
PARIS = Calendar("Europe/Paris")


def dataset(*members: Member, base: Grain = Grain.HOUR, levels: tuple[str, ...] = ("region", "country")) -> Dataset:
    return Dataset("raw/ads", base.and_coarser, Hierarchy(levels, members))


def test_a_hierarchy_is_a_tree_of_paths():
    tree = Hierarchy(
        ("region", "country", "center"),
        (
            Member("eu/fr/par1", START),
            Member("eu/fr/par2", START),
            Member("eu/de/fra1", START),
            Member("us/ca/sfo", START),
        ),
    )
    assert [*tree] == [
        "eu/de/fra1",
        "eu/de",
        "eu",
        "-",
        "eu/fr/par1",
        "eu/fr",
        "eu/fr/par2",
        "us/ca/sfo",
        "us/ca",
        "us",
    ]
    assert tree.children("-") == ("eu", "us")
    assert tree.children("eu") == ("eu/de", "eu/fr")
    assert tree.children("eu/fr") == ("eu/fr/par1", "eu/fr/par2")
    assert tree.children("eu/fr/par1") == ()
    assert [each.path for each in tree.leaves("eu/fr")] == ["eu/fr/par1", "eu/fr/par2"]
    assert len(tree.leaves("-")) == 4
    assert "eu/f" not in tree


def test_a_dataset_without_a_hierarchy_has_one_member():
    tree = Hierarchy.flat(START)
    assert [*tree] == ["-"]
    assert tree.children("-") == ()
    assert tree == Hierarchy((), (Member("-", START),))


@pytest.mark.parametrize(
    ("levels", "paths", "message"),
    [
        (
            ("region", "country"),
            ["eu"],
            "member 'eu' has 1 names; it must have one name for each level (region / country)",
        ),
        (("region",), ["eu/fr"], "member 'eu/fr' has 2 names"),
        (("region",), ["-"], "member '-' has 0 names"),
        ((), ["eu"], "member 'eu' has 1 names; it must have no level: its path is '-'"),
        (("region",), [], "a dataset needs at least one member"),
        (("region",), ["eu", "eu"], "two members have the path eu"),
        (("",), ["eu"], "'' is no level"),
        (("a b",), ["eu"], "'a b' is no level"),
        (("a/b",), ["eu"], "'a/b' is no level"),
    ],
)
def test_a_hierarchy_that_is_no_tree_of_its_levels_is_refused(levels: tuple[str, ...], paths: list[str], message: str):
    with pytest.raises(MemberError, match=re.escape(message)):
        Hierarchy(levels, tuple(Member(path, START) for path in paths))


@pytest.mark.parametrize(
    "path", ["", "/", "eu/", "/eu", "eu//fr", "eu/..", ".", "-x", "eu fr", "eu\tfr", "eu:fr", "eu/-", "x" * 256, 5]
)
def test_an_unsafe_path_is_refused(path: str):
    with pytest.raises(MemberError, match="is no member"):
        Member(path, START)


def test_dates_of_a_member_are_in_order_and_in_the_years_of_calendars():
    with pytest.raises(MemberError, match="member eu ends on 2025-12-31, before its first batch date 2026-01-01"):
        Member("eu", START, date(2025, 12, 31))
    with pytest.raises(MemberError, match="member eu: 1969-01-01 is no batch date here"):
        Member("eu", date(1969, 1, 1))


OLD = dataset(Member("eu/fr", START, calendar=PARIS), Member("us/ca", START, date(2026, 12, 31)))


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([Member("eu/fr", START, calendar=PARIS), Member("us/ca", START, date(2026, 12, 31))], []),
        (
            [*OLD.hierarchy.members, Member("eu/de", TOMORROW)],
            ["eu/de from 2026-11-28 on (added)"],
        ),
        ([OLD.hierarchy.members[0]], ["us/ca from 2026-01-01 to 2026-12-31 (removed)"]),
        (
            [OLD.hierarchy.members[0], Member("us/ca", START, date(2027, 1, 31))],
            ["us/ca from 2027-01-01 to 2027-01-31 (dates)"],
        ),
        (
            [OLD.hierarchy.members[0], Member("us/ca", START, date(2026, 11, 30))],
            ["us/ca from 2026-12-01 to 2026-12-31 (dates)"],
        ),
        (
            [OLD.hierarchy.members[0], Member("us/ca", date(2026, 2, 1), date(2026, 12, 31))],
            ["us/ca from 2026-01-01 to 2026-01-31 (dates)"],
        ),
        (
            [Member("eu/fr", START, calendar=Calendar("Europe/Berlin")), OLD.hierarchy.members[1]],
            [],
        ),
        (
            [Member("eu/fr", START, calendar=Calendar("UTC+01:00")), OLD.hierarchy.members[1]],
            ["eu/fr from 2026-03-29 to 2099-10-25 (calendar)"],
        ),
        (
            [
                Member("eu/fr", START, calendar=Calendar("Europe/Paris", frozenset({date(2026, 12, 25)}))),
                OLD.hierarchy.members[1],
            ],
            ["eu/fr from 2026-12-25 to 2026-12-25 (holiday)"],
        ),
    ],
)
def test_a_change_alters_the_dates_that_it_names(members: list[Member], expected: list[str]):
    assert [str(each) for each in member_changes(OLD, dataset(*members))] == expected


def test_a_change_of_later_dates_is_taken():
    new = dataset(*OLD.hierarchy.members, Member("eu/de", TOMORROW))
    assert check_change(OLD, new, NOW) == [MemberChange("eu/de", day_of(TOMORROW), day_of(date(2099, 12, 31)), "added")]
    holiday = Calendar("Europe/Paris", frozenset({TOMORROW}))
    assert check_change(OLD, dataset(Member("eu/fr", START, calendar=holiday), OLD.hierarchy.members[1]), NOW)


@pytest.mark.parametrize(
    "new",
    [
        dataset(*OLD.hierarchy.members, Member("eu/de", TODAY)),
        dataset(OLD.hierarchy.members[0]),
        dataset(OLD.hierarchy.members[0], Member("us/ca", START, date(2026, 11, 26))),
        dataset(OLD.hierarchy.members[0], Member("us/ca", date(2025, 12, 1), date(2026, 12, 31))),
        dataset(Member("eu/fr", START), OLD.hierarchy.members[1]),
        dataset(Member("eu", START), levels=("region",)),
        dataset(*OLD.hierarchy.members, base=Grain.DAY),
    ],
)
def test_a_change_of_dates_that_have_begun_is_refused_unless_it_says_reopen(new: Dataset):
    with pytest.raises(DatasetError, match=r"raw/ads: the change alters batch dates that have begun: .* or say reopen"):
        check_change(OLD, new, NOW)
    assert check_change(OLD, new, NOW, reopen=True)


def test_a_date_has_begun_by_the_calendar_of_its_member():
    """At noon UTC on 27 November, 28 November has begun in Kiritimati, and not in Paris."""
    new = dataset(*OLD.hierarchy.members, Member("oc/ki", TOMORROW, calendar=Calendar("Pacific/Kiritimati")))
    with pytest.raises(MemberError, match="oc/ki from 2026-11-28 on"):
        check_change(OLD, new, NOW)


def test_a_date_that_begins_now_has_begun():
    new = dataset(*OLD.hierarchy.members, Member("eu/de", TOMORROW))
    midnight = instant_of(datetime(2026, 11, 28, tzinfo=UTC))
    assert check_change(OLD, new, midnight - 1)
    with pytest.raises(MemberError):
        check_change(OLD, new, midnight)


def test_more_grains_and_other_names_of_levels_change_nothing():
    fewer = Dataset("raw/ads", (Grain.HOUR, Grain.DAY), Hierarchy(("area", "state"), OLD.hierarchy.members))
    assert check_change(OLD, fewer, NOW) == []
