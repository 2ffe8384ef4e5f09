"""Names from outside: which are legal, and their order."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feed_assets.blackboard.keys import check_key
from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, InvalidKeyError
from feed_assets.file_feed import (
    BadNameError,
    Feed,
    MixedFeedError,
    begun,
    check_partition,
    is_update_name,
    pin,
    publish_files,
    tag,
    update_name,
)
from feed_assets.file_feed.names import check_label, check_update, is_partition_name

MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.timezones())  # noqa: DTZ001


@given(MOMENTS)
def test_an_update_is_named_by_the_utc_second_it_was_begun_in(moment: datetime) -> None:
    name = update_name(moment)
    assert is_update_name(name)
    assert begun(name) == moment.astimezone(UTC).replace(microsecond=0)


@given(MOMENTS, MOMENTS)
def test_names_are_in_the_order_of_time(one: datetime, other: datetime) -> None:
    earlier, later = sorted(moment.astimezone(UTC).replace(microsecond=0) for moment in (one, other))
    assert (update_name(earlier) < update_name(later)) == (earlier < later)


@given(st.text(max_size=20) | st.from_regex(r"[0-9]{8}\.[0-9]{6}", fullmatch=True))
def test_a_name_is_an_updates_exactly_where_it_is_the_name_of_its_second(name: str) -> None:
    if is_update_name(name):
        assert update_name(begun(name)) == check_update(name) == name
    else:
        with pytest.raises(BadNameError, match="such as 20180521"):
            begun(name)


def test_a_moment_in_another_zone_is_named_in_utc() -> None:
    assert update_name(datetime(2018, 5, 21, 1, 30, tzinfo=timezone(timedelta(hours=9)))) == "20180520.163000"


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(BadNameError, match="aware"):
        update_name(datetime(2018, 5, 21))  # noqa: DTZ001


@pytest.mark.parametrize(
    "name",
    [
        *("20180230.000000", "20180521.160060", "20180521.160061", "20180521.240000", "20181301.000000"),
        *("00000101.000000", "", "2018-05-21.160000", "20180521_160000"),
        *("20180521", "20180521.1600", "20180521.16000", "20180521.1600000"),
        *(" 20180521.160000", "20180521.160000 ", "20180521.160000\n", "20180521.160000/", "+0180521.160000"),
        *("2018 521.160000", "\N{ARABIC-INDIC DIGIT TWO}0180521.160000", "\N{FULLWIDTH DIGIT TWO}0180521.160000"),
    ],
)  # fmt: skip
def test_this_is_no_update(name: str) -> None:
    assert not is_update_name(name)


@pytest.mark.parametrize("name", ["20160229.235959", "20180521.000000", "00010101.000000", "99991231.235959"])
def test_this_is_an_update(name: str) -> None:
    assert is_update_name(name)


@pytest.mark.parametrize("name", ["2018-05-20", "20180520", "de", "a b", "ü", "x.y", "_", "-1", "20180521.1600"])
def test_any_safe_name_can_be_a_partition(name: str) -> None:
    assert check_partition(name) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "is empty"),
        (".", "'.' or '..' segment"),
        ("..", "'.' or '..' segment"),
        ("a/b", "path separator"),
        ("/", "path separator"),
        ("a\\b", "backslash"),
        ("a\nb", "control character"),
        ("a\0", "control character"),
        ("yad-\u202e0202", "reorders text"),
        ("a\u2067b", "reorders text"),
        (".feed", "leading dot"),
        ("20180521.160000", "shaped like an update"),
        ("20180230.000000", "shaped like an update"),
        ("x" * 1025, "1024 bytes"),
    ],
)
def test_a_name_that_cannot_be_a_partition_is_refused_with_the_reason(name: str, why: str) -> None:
    assert not is_partition_name(name)
    with pytest.raises(BadNameError, match=why):
        check_partition(name)


@given(st.text(max_size=30))
def test_a_partition_never_leads_out_of_its_feed(name: str) -> None:
    if is_partition_name(name):
        assert check_key(f"feed/{check_partition(name)}/x").split("/") == ["feed", name, "x"]
    else:
        with pytest.raises(BadNameError):
            check_partition(name)


DAY = "2018-05-20"

HOSTILE = st.lists(
    st.sampled_from(
        [
            *("..", ".", "/", "\\", "%2e", "%2f", "%2E%2E%2F", "%252e", "a", "a", "~", "$HOME", "C:", "file:", "s3:"),
            *("\u2024", "\u2025", "\uff0e", "\uff0f", "\u2215", "\u202e", "\0", "\n", "\x85", " ", ".feed", "_SUCCESS"),
        ]
    ),
    min_size=1,
    max_size=6,
).map("".join)
"""Names that mean a way out, to somebody: in other scripts, encoded, absolute."""


@pytest.mark.slow
@settings(max_examples=40)
@given(HOSTILE)
def test_no_name_leads_out_of_its_place(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    outside = tmp_path_factory.mktemp("outside")
    file = outside / "data.csv"
    file.touch()
    now = datetime(2018, 5, 21, 16, tzinfo=UTC)
    boards: tuple[Blackboard, ...] = (MemoryBlackboard(), LocalBlackboard(outside / "base"))
    for board in boards:
        feed = Feed(board, "feeds/ads/v1.0")
        update = publish_files(feed, DAY, [file], now=now, owner=name)
        for use in (
            lambda feed=feed: publish_files(feed, name, [file], now=now, owner="me"),
            lambda board=board: publish_files(Feed(board, f"feeds/{name}"), DAY, [file], now=now, owner="me"),
            lambda feed=feed, update=update: tag(feed, DAY, update.name, name),
            lambda feed=feed, update=update: pin(feed, DAY, update.name, until=now, holder=name),
            lambda board=board, update=update: board.create(update.key(name), b""),
            lambda board=board, update=update: board.upload(update.key(name), file),
        ):
            with suppress(BadNameError, InvalidKeyError, AlreadyExistsError, MixedFeedError):
                use()
        assert {entry.key.split("/")[0] for entry in list_all(board, "")} == {"feeds"}
    assert sorted(path.name for path in outside.iterdir()) == ["base", "data.csv"]
    assert {path.name for path in (outside / "base").iterdir()} == {"feeds", ".blackboard"}  # its own scratch area


def test_a_label_says_what_it_was_meant_to_be() -> None:
    assert check_label(".x", "tag") == ".x"
    with pytest.raises(BadNameError, match="cannot be a tag: it has a path separator"):
        check_label("a/b", "tag")
