"""Which update is latest: the library and the plainest reader always agree, whatever lies there."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feed_assets.blackboard import memory
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import Blackboard, Page
from feed_assets.file_feed import (
    BadNameError,
    Feed,
    File,
    MixedFeedError,
    NoValidUpdateError,
    Update,
    UpdateChangedError,
    begun,
    is_latest,
    latest,
    latest_of_all,
    partitions,
    read_file,
    read_resolved,
    recorded_digests,
    require_latest,
)
from feed_assets_tests.file_feed import plain_reader

NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
BEGINNING, END = datetime(1, 1, 1, 0, 0, 1, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
DAY = "2018-05-20"

UPDATES = [
    *("20180521.160000", "20180521.155959", "20180521.160001", "20180521.000000", "20180520.160000", "20180520.155959"),
    *("20180519.120000", "20180501.120000", "20180101.000000", "20170521.160000", "19991231.235959", "00010101.000000"),
    *("20180521.160002", "20190521.160000", "99991231.235959"),
]
ODD_NAMES = [
    *("20180230.000000", "20180521.160060", "20180521.240000", "00000101.000000", "20181301.000000"),
    *("20180521.160000.bak", "20180521.160000-x", "20180521.160000 copy", "20180521.160000_x", "x20180521.160000"),
    *("20180521", "20180521.1600", "20180521.160000Z", "2018052a.160000", "٢٠١٨٠٥٢١.١٦٠٠٠٠", "20180521_160000"),
    *(".hidden", "+junk", "zzz", "tmp", "_temporary", "_SUCCESS", "v1.0"),
]
PATHS = [
    "part-0",
    "part-1",
    "part-2.parquet",
    ".part-0.crc",
    "_temporary/0/part-0",
    "deep/er/part",
    "_SUCCESS/x",
    "Z",
    "ü",
]
MARKERS = ["", "deep/", "_temporary/", "_SUCCESS/"]
ODD_MANIFESTS = [
    *(b"", b" ", b"\n", b"-1", b"-2", b"-0", b"+3", b"3.0", b"1_0", b"1_000", b"03", b"00", b"1e0", b"0x1", b"1 1"),
    *(b"1\n2", b"\xef\xbb\xbf1", b"\xff\xfe1\x00", b"1\x00", b"1\xc2\xa0", b"\xe2\x80\x8b1", b"one", b"true", b"None"),
    *("\N{ARABIC-INDIC DIGIT THREE}".encode(), "\N{FULLWIDTH DIGIT ONE}".encode(), "\N{SUPERSCRIPT TWO}".encode()),
    *(b'{"name": "org.apache.hadoop.fs.s3a.commit", "timestamp": 1}', b"[1]", b'"1"'),
    *(b"1" * 65, b" " * 64 + b"1", b"1" + b" " * 64, b"0" * 64, b"9" * 64),
]
STATED = ["{}", "{}\n", " {} ", "\t{}\r\n", "{}\n\n", "\v{}\f"]


@contextmanager
def pages_of(size: int) -> Iterator[None]:
    with mock.patch.object(memory, "PAGE_SIZE", size):
        yield


@st.composite
def one_folder(draw: st.DrawFn) -> dict[str, bytes]:
    """What is in an update's folder: path -> content."""
    files = draw(st.lists(st.sampled_from(PATHS), unique=True, max_size=3))
    markers = draw(st.lists(st.sampled_from(MARKERS), unique=True, max_size=1))
    folder = dict.fromkeys([*files, *markers], b"")
    count = len(files) + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
    manifests = [
        *(form.format(count).encode() for form in STATED),
        *draw(st.lists(st.sampled_from(ODD_MANIFESTS), max_size=1)),
    ]
    stated = draw(st.sampled_from([None, str(count).encode(), str(count).encode(), *manifests[-2:]]))
    return folder if stated is None else folder | {"_SUCCESS": stated}


def below(prefix: str, folders: Mapping[str, Mapping[str, bytes]]) -> dict[str, bytes]:
    return {f"{prefix}{name}/{path}": data for name, each in folders.items() for path, data in each.items()}


HISTORY = st.dictionaries(st.sampled_from([*UPDATES, *UPDATES, *ODD_NAMES]), one_folder(), max_size=8)
PAGE_SIZES = st.sampled_from([1, 2, 3, 5, 1000])


def names(update: Update | None) -> tuple[str, list[str]] | None:
    return (update.name, [file.path for file in update.files]) if update else None


def plainly(objects: Mapping[str, bytes], prefix: str, as_of: str | None = None) -> tuple[str, list[str]] | None:
    found = plain_reader.latest(objects, prefix, as_of)
    return (found[0], sorted(path for path, _ in found[1])) if found else None


def on(objects: Mapping[str, bytes], *, content_tags: bool = True) -> Blackboard:
    return MemoryBlackboard(objects, content_tags=content_tags)


# --- the library and a plain reader agree -----------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=300)
@given(
    history=HISTORY, other=HISTORY, page=PAGE_SIZES, content_tags=st.booleans(), partition=st.sampled_from([DAY, None])
)
def test_the_latest_is_the_one_a_plain_reader_finds(
    history: dict[str, dict[str, bytes]],
    other: dict[str, dict[str, bytes]],
    page: int,
    content_tags: bool,
    partition: str | None,
) -> None:
    prefix = "ads/v1.0/" + (f"{partition}/" if partition else "")
    objects = (
        below(prefix, history) | below("ads/v1.0-beta/", other) | below("ads/v1.0.1/", other) | below("ads/", other)
    )
    feed = Feed(on(objects, content_tags=content_tags), "ads/v1.0")
    with pages_of(page):
        found = latest(feed, partition, now=NOW)
        assert names(found) == plainly(objects, prefix)
        assert found is None or is_latest(found)
        for name in plain_reader.updates(objects, prefix):
            held = latest(feed, partition, now=NOW, as_of=max(begun(name), BEGINNING))
            assert held is not None
            assert held.name == name
            assert is_latest(held) == (held == found)


@settings(max_examples=200)
@given(
    history=HISTORY,
    page=PAGE_SIZES,
    as_of=st.sampled_from(UPDATES),
    shift=st.sampled_from([-1, 0, 1]),
    now=st.sampled_from(UPDATES),
)
def test_as_of_a_time_it_is_the_newest_valid_one_begun_by_then(
    history: dict[str, dict[str, bytes]], page: int, as_of: str, shift: int, now: str
) -> None:
    moment = min(max(begun(as_of), BEGINNING), END) + timedelta(seconds=shift)
    objects = below("ads/v1.0/", history)
    with pages_of(page):
        found = latest(Feed(on(objects), "ads/v1.0"), now=min(max(begun(now), BEGINNING), END), as_of=moment)
    assert names(found) == plainly(objects, "ads/v1.0/", f"{moment.year:04}{moment:%m%d.%H%M%S}")


PARTITIONS = ["2018-05-20", "2018-05-21", "2018-05-20.bak", "2018-05-20-x", "20180520", "-1", "a b", "ü", "x"]
NO_PARTITIONS = [".tmp", ".feed", "20180230.000000", ".."]


@settings(max_examples=200)
@given(
    feed_content=st.dictionaries(st.sampled_from([*PARTITIONS, *PARTITIONS, *NO_PARTITIONS]), HISTORY, max_size=4),
    page=PAGE_SIZES,
    content_tags=st.booleans(),
    first=st.sampled_from(["", *PARTITIONS]),
    last=st.sampled_from([None, *PARTITIONS]),
    only=st.none() | st.sets(st.sampled_from(PARTITIONS), min_size=1),
    recorded=st.sets(st.tuples(st.sampled_from(PARTITIONS), st.sampled_from(UPDATES)), max_size=5),
)
def test_the_latest_of_all_partitions_is_that_of_each(
    feed_content: dict[str, dict[str, dict[str, bytes]]],
    page: int,
    content_tags: bool,
    first: str,
    last: str | None,
    only: set[str] | None,
    recorded: set[tuple[str, str]],
) -> None:
    objects: dict[str, bytes] = {}
    for partition, history in feed_content.items():
        objects |= below(f"ads/v1.0/{partition}/", history)
    objects |= {f"ads/v1.0/.feed/records/{partition}/{name}.0.json": b"" for partition, name in recorded}
    feed = Feed(on(objects, content_tags=content_tags), "ads/v1.0")
    expected, those = {}, {}
    with pages_of(page):
        for partition in set(feed_content) & set(PARTITIONS):
            found = latest(feed, partition, now=NOW)
            after_first = not first or f"{first}/" <= f"{partition}/"
            if found and after_first and (last is None or f"{partition}/" <= f"{last}/"):
                expected[partition] = found
            if found and only is not None and partition in only:
                those[partition] = found
        assert latest_of_all(feed, now=NOW, first=first, last=last) == expected
        if only is not None:
            assert latest_of_all(feed, now=NOW, only=only) == those
            assert recorded_digests(feed, only=only).keys() == {each for each, _ in recorded if each in only}
        assert set(partitions(feed)) == {
            name for name in PARTITIONS if feed_content.get(name) and any(feed_content[name].values())
        }


@settings(max_examples=100)
@given(history=HISTORY, page=PAGE_SIZES)
def test_the_latest_of_all_of_a_feed_without_partitions_is_under_the_empty_name(
    history: dict[str, dict[str, bytes]], page: int
) -> None:
    feed = Feed(on(below("ads/v1.0/", history)), "ads/v1.0")
    with pages_of(page):
        found = latest(feed, now=NOW)
        assert latest_of_all(feed, now=NOW) == ({"": found} if found else {})


@pytest.mark.parametrize("page", [2, 3, 4, 1000])
def test_the_latest_of_all_is_found_also_in_history_that_a_scan_jumps_over(page: int) -> None:
    valid, incomplete = {"_SUCCESS": b"1", "part-0": b""}, {"part-0": b""}
    history = {
        "20180101.000000": valid,
        "20180201.000000": valid,
        "20180301.000000": valid,
        "20180521.150000": incomplete,
    }
    feed = Feed(on(below(f"{DAY}/", history) | below("2018-05-21/", history)))
    with pages_of(page):
        found = latest_of_all(feed, now=NOW)
        assert found == {each: latest(feed, each, now=NOW) for each in (DAY, "2018-05-21")}
    assert {update.name for update in found.values()} == {"20180301.000000"}


@pytest.mark.parametrize("stated", ODD_MANIFESTS, ids=repr)
@pytest.mark.parametrize("content_tags", [True, False])
def test_a_manifest_that_is_no_plain_number_makes_no_update_valid(stated: bytes, content_tags: bool) -> None:
    for files in (0, 1, 3, 10, 1000):
        folder = {f"part-{number}": b"" for number in range(files)} | {"_SUCCESS": stated}
        assert latest(Feed(on(below("", {"20180521.160000": folder}), content_tags=content_tags)), now=NOW) is None


@pytest.mark.parametrize("form", STATED, ids=repr)
def test_white_space_around_the_number_is_tolerated(form: str) -> None:
    objects = below("", {"20180521.160000": {"part-0": b"", "_SUCCESS": form.format(1).encode()}})
    assert names(latest(Feed(on(objects)), now=NOW)) == ("20180521.160000", ["part-0"])


# --- what a history looks like to a reader ----------------------------------------------------------------------------


def published(*updates: str, files: int = 1) -> dict[str, bytes]:
    folder = {f"part-{number}": b"" for number in range(files)} | {"_SUCCESS": str(files).encode()}
    return below("", dict.fromkeys(updates, folder))


def test_an_update_without_files_whose_manifest_states_zero_is_valid() -> None:
    found = require_latest(Feed(on(published("20180521.160000", files=0))), now=NOW)
    assert (found.files, found.bytes) == ((), 0)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda board: board.delete("20180521.160000/_SUCCESS"),
        lambda board: board.put("20180521.160000/extra", b""),
        lambda board: board.put("20180521.160000/.extra", b""),
        lambda board: board.put("20180521.160000/deep/extra", b""),
        lambda board: board.delete("20180521.160000/part-0"),
        lambda board: board.put("20180521.160000/_SUCCESS", b""),
    ],
)
def test_once_it_is_invalidated_the_update_before_is_in_force_again(spoil: object) -> None:
    board = MemoryBlackboard(published("20180521.150000", "20180521.160000"))
    held = require_latest(Feed(board), now=NOW)
    assert held.name == "20180521.160000"
    spoil(board)
    assert not is_latest(held)
    assert require_latest(Feed(board), now=NOW).name == "20180521.150000"


@pytest.mark.parametrize("content_tags", [True, False])
def test_an_update_that_is_taken_out_of_force_between_two_pages_of_its_listing_is_not_read_torn(
    monkeypatch: pytest.MonkeyPatch, content_tags: bool
) -> None:
    board = MemoryBlackboard(clock=lambda: NOW, content_tags=content_tags)
    old, torn = f"{DAY}/20180521.150000/", f"{DAY}/20180521.155000/"
    for prefix, files in ((old, ["a"]), (torn, ["a", "b", "c", "d"])):
        for path in files:
            board.put(f"f/{prefix}{path}", b"x")
        board.put(f"f/{prefix}_SUCCESS", b"%d" % len(files))
    page, changed = board.page, []

    def page_and_then(prefix: str, **options: Any) -> Page:
        found = page(prefix, **options)
        if not changed and found.next_after == f"f/{torn}b":  # the manifest is on this page
            changed.append(found)
            board.put(f"f/{torn}_SUCCESS", b"-1")
            board.delete(f"f/{torn}d")
            board.put(f"f/{torn}e", b"of another writer")
        return found

    feed = Feed(board, "f")
    with pages_of(3):
        whole = latest(feed, DAY, now=NOW)  # remembers what the manifest states
        monkeypatch.setattr(board, "page", page_and_then)
        update = latest(feed, DAY, now=NOW)

    assert whole is not None
    assert whole.prefix == f"f/{torn}"
    assert changed
    assert update is not None
    assert update.prefix == f"f/{old}"


def test_an_update_whose_file_was_replaced_is_not_the_one_that_is_held() -> None:
    board = MemoryBlackboard(published("20180521.160000"))
    held = require_latest(Feed(board), now=NOW)
    board.put("20180521.160000/part-0", b"other")
    assert not is_latest(held)


def test_the_loss_of_the_record_and_of_the_whole_control_area_changes_nothing() -> None:
    objects = published("20180521.160000")
    control = {
        ".feed/claims/20180521.170000": b"",
        ".feed/records/20180521.170000.0.json": b"{",
        ".feed/20180521.170000/_SUCCESS": b"0",
    }
    assert names(latest(Feed(on(objects | control)), now=NOW)) == names(latest(Feed(on(objects)), now=NOW))


def test_a_future_date_is_used_and_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "feed_assets.file_feed"):
        found = require_latest(Feed(on(published("20180521.150000", "20190521.160000"))), now=NOW)
    assert found.name == "20190521.160000"
    assert "20190521.160000 is dated in the future" in caplog.text


def test_a_shell_takes_the_command_that_an_error_names_as_one_location_and_one_partition() -> None:
    feed = Feed(on({}), "for our partners/ads")
    with pytest.raises(NoValidUpdateError) as failed:
        require_latest(feed, "2018-05-20|Köln", now=NOW)
    command = str(failed.value).split("`")[1]
    assert shlex.split(command) == ["feed-assets", "feed", "ls", feed.uri, "--partition", "2018-05-20|Köln"]


def test_without_any_valid_update_the_error_says_what_is_there_and_how_to_look() -> None:
    feed = Feed(on({f"ads/{DAY}/20180521.160000/part-0": b""}), "ads")
    with pytest.raises(
        NoValidUpdateError, match=rf"ads {DAY} .*Update 20180521.160000 is .*`feed-assets feed ls .*--partition {DAY}`"
    ):
        require_latest(feed, DAY, now=NOW)
    several = Feed(on({f"ads/{DAY}/20180521.16000{second}/part-0": b"" for second in range(3)}), "ads")
    with pytest.raises(NoValidUpdateError, match=r"3 updates are not valid, the newest is 20180521.160002;"):
        require_latest(several, DAY, now=NOW)
    with pytest.raises(NoValidUpdateError, match=r"as of 2018-05-21 16:00:00\. There is nothing"):
        require_latest(feed, "2018-05-19", now=NOW, as_of=NOW)


@pytest.mark.parametrize("page", [1, 2, 1000])
@pytest.mark.parametrize("stray", ["2018", "20180521", "20180521.1", "20180521.150000.bak/x"])
def test_a_stray_file_whose_name_begins_like_an_update_hides_none(page: int, stray: str) -> None:
    day = published("20180520.230000", "20180521.100000", "20180521.150000") | {stray: b""}
    feed = Feed(on({f"2018-05-20/{key}": data for key, data in day.items()}))
    with pages_of(page):
        update = latest(feed, "2018-05-20", now=NOW, as_of=datetime(2018, 5, 21, 12, tzinfo=UTC))
    assert update is not None
    assert update.name == "20180521.100000"


@pytest.mark.parametrize("page", [1, 2, 1000])
def test_a_stray_file_whose_name_begins_like_a_partition_hides_none(page: int) -> None:
    objects = {f"{partition}/20180501.160000/_SUCCESS": b"0" for partition in ("a.b", "a", "b")} | {"a": b""}
    with pages_of(page):
        assert set(latest_of_all(Feed(on(objects)), now=NOW, last="a.b")) == {"a.b"}
        assert set(latest_of_all(Feed(on(objects)), now=NOW, last="a")) == {"a.b", "a"}
        assert set(latest_of_all(Feed(on(objects)), now=NOW, first="a")) == {"a", "b"}


@pytest.mark.parametrize("page", [1, 2, 1000])
def test_updates_and_partitions_at_one_level_are_an_error(page: int) -> None:
    objects = below("2018-05-20/", {"20180501.160000": {"_SUCCESS": b"0"}}) | published("20180401.160000")
    with pages_of(page):
        with pytest.raises(MixedFeedError, match="one level"):
            latest_of_all(Feed(on(objects)), now=NOW)
        with pytest.raises(MixedFeedError):
            latest(Feed(on(objects)), now=NOW)


def test_asking_a_feed_with_partitions_for_its_latest_names_the_way_out() -> None:
    with pytest.raises(MixedFeedError, match="name one of them"):
        latest(Feed(on(below("2018-05-20/", {"20180501.160000": {"_SUCCESS": b"0"}}))), now=NOW)


def test_a_folder_in_an_update_may_look_like_an_update() -> None:
    objects = {"20180101.000000/20180521.150000/part": b"", "20180101.000000/_SUCCESS": b"1"}
    assert names(latest(Feed(on(objects)), now=NOW)) == ("20180101.000000", ["20180521.150000/part"])


@pytest.mark.parametrize("partition", ["", "..", "a/b", "20180521.160000", ".feed", "a\nb", "a\\b"])
def test_a_name_that_is_no_partitions_is_refused(partition: str) -> None:
    with pytest.raises(BadNameError):
        latest(Feed(on({})), partition, now=NOW)


# --- reading what was resolved ----------------------------------------------------------------------------------------


def contents(update: Update) -> dict[str, bytes]:
    return {file.path: read_file(update, file) for file in update.files}


def test_a_file_that_changed_since_it_was_resolved_makes_the_reader_resolve_again() -> None:
    board = MemoryBlackboard(
        published("20180521.150000") | {"20180521.160000/a": b"1", "20180521.160000/_SUCCESS": b"1"}
    )
    resolved = []

    def consume(update: Update) -> dict[str, bytes]:
        resolved.append(update.name)
        board.delete("20180521.160000/_SUCCESS", "20180521.160000/a")
        return contents(update)

    assert read_resolved(Feed(board), None, consume, now=NOW) == {"part-0": b""}
    assert resolved == ["20180521.160000", "20180521.150000"]


def test_a_reader_gives_up_where_the_updates_move_each_time() -> None:
    board = MemoryBlackboard(published("20180521.160000"))
    tries = []

    def consume(update: Update) -> dict[str, bytes]:
        tries.append(update)
        board.put("20180521.160000/part-0", str(len(tries)).encode())
        return contents(update)

    with pytest.raises(UpdateChangedError, match=r"4 times.*feed pin"):
        read_resolved(Feed(board), None, consume, now=NOW, attempts=4)
    assert len(tries) == 4


def test_a_resolved_update_tells_where_its_files_are() -> None:
    board = MemoryBlackboard()
    entry = board.put(f"ads/v1.0/{DAY}/20180521.160000/part-0", b"abc")
    board.put(f"ads/v1.0/{DAY}/20180521.160000/_SUCCESS", b"1")
    update = require_latest(Feed(board, "ads/v1.0"), DAY, now=NOW)
    assert update == Update(Feed(board, "ads/v1.0"), DAY, "20180521.160000", (File("part-0", 3, entry.tag),))
    assert update.uri == f"memory:///ads/v1.0/{DAY}/20180521.160000"
    assert update.uris() == [f"{update.uri}/part-0"]
    assert (update.begun, update.bytes) == (NOW, 3)
