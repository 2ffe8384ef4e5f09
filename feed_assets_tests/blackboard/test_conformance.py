"""What the port promises, held against every store. What only one of them does is tested beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feed_assets.blackboard import (
    PAGE_SIZE,
    AlreadyExistsError,
    Blackboard,
    ConflictError,
    InvalidKeyError,
    NotFoundError,
)

ODD_KEYS = [
    "",
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "../a",
    "a/../b",
    "a/./b",
    "a\nb",
    "a\0b",
    "a\x7fb",
    "x" * 1025,
]
NEIGHBOURS = ["a", "a b/x", "a!/x", "a-b/x", "a.b", "a0/x", "ab", "b/x", "b/y/z", "b0", "é", "\uff5a", "😀/x"]


def filled(blackboard: Blackboard, keys: Iterable[str]) -> Blackboard:
    for key in keys:
        blackboard.create(key, key.encode())
    return blackboard


def keys(blackboard: Blackboard, prefix: str = "", after: str = "") -> list[str]:
    return [entry.key for entry in blackboard.page(prefix, after=after).entries]


# -- listing ---------------------------------------------------------------------------------------


def test_a_blackboard_without_objects_has_an_empty_page(blackboard: Blackboard):
    page = blackboard.page("")
    assert (page.entries, page.folders, page.next_after) == ((), (), None)


def test_keys_ascend_by_the_bytes_of_the_whole_key(blackboard: Blackboard):
    filled(blackboard, reversed(NEIGHBOURS))
    assert keys(blackboard) == sorted(NEIGHBOURS, key=str.encode)


def test_a_name_sorts_with_its_slash_so_after_what_goes_on_with_a_dash_or_a_dot(blackboard: Blackboard):
    filled(blackboard, ["a/x", "a-b/x", "a.b", "a0"])
    assert keys(blackboard) == ["a-b/x", "a.b", "a/x", "a0"]


def test_a_prefix_stops_at_its_slash(blackboard: Blackboard):
    filled(blackboard, ["v1.0/x", "v1.0-beta/x", "v1.00", "v1/x"])
    assert keys(blackboard, "v1.0/") == ["v1.0/x"]


@pytest.mark.parametrize("prefix", ["nowhere/", "b/x/", "b/y/z/"])
def test_a_missing_prefix_is_an_empty_page(blackboard: Blackboard, prefix: str):
    filled(blackboard, NEIGHBOURS)
    page = blackboard.page(prefix)
    assert (page.entries, page.folders, page.next_after) == ((), (), None)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("p/b", ["p/b/y", "p/c"]),
        ("p/b/", ["p/b/y", "p/c"]),
        ("p/b/x", ["p/b/y", "p/c"]),
        ("p/b/y", ["p/c"]),
        ("p/b/y/", ["p/c"]),
        ("p/b0", ["p/c"]),
        ("p/c", []),
        ("q", []),
        ("p/", ["p/a", "p/b/y", "p/c"]),
        ("o", ["p/a", "p/b/y", "p/c"]),
        ("", ["p/a", "p/b/y", "p/c"]),
    ],
)
def test_a_page_starts_after_any_string_whether_it_is_a_key_or_not(
    blackboard: Blackboard, after: str, expected: list[str]
):
    filled(blackboard, ["p/a", "p/b/y", "p/c", "z"])
    assert keys(blackboard, "p/", after) == expected


def test_folders_roll_up_what_is_below_them(blackboard: Blackboard):
    filled(blackboard, ["p/a", "p/b-c/x", "p/b/x", "p/b/y/z", "p/c", "q/r"])
    page = blackboard.page("p/", folders=True)
    assert [entry.key for entry in page.entries] == ["p/a", "p/c"]
    assert page.folders == ("p/b-c/", "p/b/")
    assert page.next_after is None


@pytest.mark.parametrize(
    ("after", "expected"),
    [("p/b", ("p/b/", "p/c/")), ("p/b/", ("p/c/",)), ("p/b/x", ("p/c/",)), ("p/c/", ())],
)
def test_a_folder_is_compared_with_after_by_its_own_name_with_the_slash(
    blackboard: Blackboard, after: str, expected: tuple[str, ...]
):
    filled(blackboard, ["p/a/x", "p/b/x", "p/b/y", "p/c/x"])
    assert blackboard.page("p/", after=after, folders=True).folders == expected


def test_a_folder_is_gone_with_its_last_object(blackboard: Blackboard):
    filled(blackboard, ["p/a/x", "p/b/c/x"])
    blackboard.delete("p/b/c/x")
    assert blackboard.page("p/", folders=True).folders == ("p/a/",)
    blackboard.delete("p/a/x")
    assert blackboard.page("", folders=True).folders == ()


def test_a_listing_longer_than_a_page_goes_on_where_the_page_ended(blackboard: Blackboard):
    more_than_a_page = PAGE_SIZE + 3
    names = [f"p/{number:04}" for number in range(more_than_a_page)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: blackboard.create(f"{name}/x", b""), names))

    first = blackboard.page("p/")
    assert [entry.key for entry in first.entries] == [f"{name}/x" for name in names[:PAGE_SIZE]]
    assert first.next_after is not None
    second = blackboard.page("p/", after=first.next_after)
    assert [entry.key for entry in second.entries] == [f"{name}/x" for name in names[PAGE_SIZE:]]
    assert second.next_after is None

    first = blackboard.page("p/", folders=True)
    assert first.folders == tuple(f"{name}/" for name in names[:PAGE_SIZE])
    assert first.next_after is not None
    second = blackboard.page("p/", after=first.next_after, folders=True)
    assert second.folders == tuple(f"{name}/" for name in names[PAGE_SIZE:])
    assert second.next_after is None

    exactly_full = blackboard.page("p/", after=f"{names[2]}/x")
    assert len(exactly_full.entries) == PAGE_SIZE
    assert exactly_full.next_after is None


_names = st.sampled_from(
    ["a", "a b", "a!", "a-b", "a.b", "a0", "b", "_SUCCESS", "é", "\uff5a", "😀", "2018", "20"]
)
_keys = st.lists(_names, min_size=1, max_size=4).map("/".join)
_prefixes = st.lists(_names, max_size=2).map(lambda names: "".join(f"{name}/" for name in names))
_afters = st.one_of(
    st.just(""), _keys, _prefixes, _keys.map(lambda key: key[:-1]), st.text("a!-./0bé😀", max_size=6)
)


def possible_on_a_disk(keys: set[str]) -> bool:
    return not any(other.startswith(f"{key}/") for key in keys for other in keys)


def listed(keys: Iterable[str], prefix: str, after: str, *, folders: bool) -> list[str]:
    """The model: what a page has to show, from the port's description alone."""
    below = [key for key in keys if key.startswith(prefix)]
    if folders:
        below = [
            prefix + first + slash for first, slash, _ in (key[len(prefix) :].partition("/") for key in below)
        ]
    return sorted({name for name in below if name.encode() > after.encode()}, key=str.encode)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_page_of_any_tree_is_what_a_sorted_dictionary_would_show(
    new_blackboard: Callable[[], Blackboard], data: st.DataObject
):
    present = data.draw(st.sets(_keys, max_size=12).filter(possible_on_a_disk), label="keys")
    blackboard = filled(new_blackboard(), present)
    questions = st.tuples(_prefixes, _afters, st.booleans())
    for prefix, after, folders in data.draw(st.lists(questions, min_size=1, max_size=8), label="questions"):
        page = blackboard.page(prefix, after=after, folders=folders)
        shown = [entry.key for entry in page.entries]
        assert shown == sorted(shown, key=str.encode)
        assert list(page.folders) == sorted(page.folders, key=str.encode)
        expected = listed(present, prefix, after, folders=folders)
        assert sorted([*shown, *page.folders], key=str.encode) == expected
        assert page.next_after is None


# -- reading ---------------------------------------------------------------------------------------


def test_what_was_created_is_read_and_listed_under_one_entry(blackboard: Blackboard):
    created = blackboard.create("a/b", b"content")
    read = blackboard.read("a/b")
    (in_listing,) = blackboard.page("").entries
    assert read.data == b"content"
    for entry in (created, read.entry, in_listing):
        assert (entry.key, entry.size, entry.tag) == ("a/b", 7, created.tag)
        assert entry.modified.utcoffset() == timedelta(0)


def test_times_are_those_of_the_writes(blackboard: Blackboard):
    before = datetime.now(UTC) - timedelta(seconds=2)
    blackboard.create("a", b"")
    blackboard.copy("a", "b")
    after = before + timedelta(minutes=5)
    assert all(before < entry.modified < after for entry in blackboard.page("").entries)


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, b"123456"), (0, b""), (4, b"1234"), (6, b"123456"), (64, b"123456")]
)
def test_at_most_the_first_bytes_are_read(blackboard: Blackboard, limit: int | None, expected: bytes):
    blackboard.create("a", b"123456")
    content = blackboard.read("a", limit=limit)
    assert content.data == expected
    assert content.entry.size == 6


def test_an_empty_object_is_an_object(blackboard: Blackboard):
    blackboard.create("a", b"")
    assert blackboard.read("a", limit=64).data == b""
    assert [entry.size for entry in blackboard.page("").entries] == [0]


@pytest.mark.parametrize("key", ["missing", "a", "a/b/c", "a/b/c/d", "x/y/z"])
def test_a_missing_object_is_not_found_and_the_message_says_where(blackboard: Blackboard, key: str):
    blackboard.create("a/b", b"")
    with pytest.raises(NotFoundError, match=key):
        blackboard.read(key)


@pytest.mark.parametrize("key", NEIGHBOURS)
def test_the_uri_says_where_the_object_is(blackboard: Blackboard, key: str):
    scheme, _, rest = blackboard.uri(key).partition("://")
    assert scheme in {"memory", "file", "s3"}
    if key.isascii() and " " not in key and "!" not in key:
        assert rest.endswith(f"/{key}")


# -- creating --------------------------------------------------------------------------------------


def test_creating_never_overwrites(blackboard: Blackboard, tmp_path: Path):
    first = blackboard.create("a/b", b"first")
    blackboard.create("other", b"other")
    (tmp_path / "file").write_bytes(b"second")
    with pytest.raises(AlreadyExistsError, match="a/b"):
        blackboard.create("a/b", b"second")
    with pytest.raises(AlreadyExistsError, match="a/b"):
        blackboard.upload("a/b", tmp_path / "file")
    with pytest.raises(AlreadyExistsError, match="a/b"):
        blackboard.copy("other", "a/b")
    assert blackboard.read("a/b").data == b"first"
    assert blackboard.read("a/b").entry.tag == first.tag


def test_of_writers_that_create_one_object_at_once_exactly_one_wins(blackboard: Blackboard):
    writers = 6
    for attempt in range(5):
        together = threading.Barrier(writers)

        def write(
            number: int, key: str = f"claims/{attempt}/x", together: threading.Barrier = together
        ) -> bytes | None:
            data = b"%d" % number * 1000
            together.wait()
            try:
                blackboard.create(key, data)
            except AlreadyExistsError:
                return None
            return data

        with ThreadPoolExecutor(writers) as pool:
            won = [data for data in pool.map(write, range(writers)) if data is not None]
        assert won == [blackboard.read(f"claims/{attempt}/x").data]


def test_an_object_can_be_created_again_where_one_was_deleted(blackboard: Blackboard):
    blackboard.create("a/b", b"first")
    blackboard.delete("a/b")
    blackboard.create("a/b", b"second")
    assert blackboard.read("a/b").data == b"second"


def test_a_file_is_uploaded_as_it_is(blackboard: Blackboard, tmp_path: Path):
    content = bytes(range(256)) * 5000
    (tmp_path / "file").write_bytes(content)
    uploaded = blackboard.upload("a/b", tmp_path / "file")
    assert blackboard.read("a/b").data == content
    assert (uploaded.key, uploaded.size) == ("a/b", len(content))
    assert uploaded.tag == blackboard.read("a/b").entry.tag


def test_a_file_that_is_not_there_is_the_callers_mistake_and_creates_nothing(
    blackboard: Blackboard, tmp_path: Path
):
    with pytest.raises(FileNotFoundError):
        blackboard.upload("a/b", tmp_path / "missing")
    assert keys(blackboard) == []


def test_a_copy_has_the_content_and_a_life_of_its_own(blackboard: Blackboard):
    original = blackboard.create("a/b", b"content")
    copied = blackboard.copy("a/b", "c/d")
    assert (copied.key, copied.size) == ("c/d", 7)
    assert copied.tag == blackboard.read("c/d").entry.tag

    blackboard.replace("a/b", b"changed", tag=original.tag)
    assert blackboard.read("c/d").data == b"content"
    blackboard.delete("a/b")
    assert blackboard.read("c/d").data == b"content"


def test_what_is_not_there_cannot_be_copied(blackboard: Blackboard):
    with pytest.raises(NotFoundError, match="missing"):
        blackboard.copy("missing", "a")
    assert keys(blackboard) == []


# -- replacing -------------------------------------------------------------------------------------


def test_an_object_is_replaced_where_it_is_the_one_that_was_read(blackboard: Blackboard):
    first = blackboard.create("a", b"1")
    second = blackboard.replace("a", b"2", tag=first.tag)
    assert second.tag != first.tag
    assert blackboard.read("a").data == b"2"
    assert blackboard.read("a").entry.tag == second.tag
    blackboard.replace("a", b"longer", tag=second.tag)
    assert [(entry.key, entry.size) for entry in blackboard.page("").entries] == [("a", 6)]


def test_an_object_that_changed_since_is_not_replaced(blackboard: Blackboard):
    first = blackboard.create("a/b", b"1")
    blackboard.replace("a/b", b"2", tag=first.tag)
    with pytest.raises(ConflictError, match="a/b"):
        blackboard.replace("a/b", b"3", tag=first.tag)
    assert blackboard.read("a/b").data == b"2"


@pytest.mark.parametrize("key", ["a/b", "a/c", "d/e"])
def test_an_object_that_vanished_is_not_replaced(blackboard: Blackboard, key: str):
    gone = blackboard.create("a/b", b"1")
    blackboard.create("a/other", b"")
    blackboard.delete("a/b")
    with pytest.raises(ConflictError, match=key):
        blackboard.replace(key, b"2", tag=gone.tag)
    assert keys(blackboard) == ["a/other"]


def test_no_update_is_lost_between_writers_that_read_and_replace(blackboard: Blackboard):
    writers, each = 4, 8
    blackboard.create("counter", b"0")

    def count(_: int) -> None:
        done = 0
        while done < each:
            content = blackboard.read("counter")
            try:
                blackboard.replace("counter", b"%d" % (int(content.data) + 1), tag=content.entry.tag)
            except ConflictError:
                continue
            done += 1

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(count, range(writers)))
    assert int(blackboard.read("counter").data) == writers * each


def test_where_tags_tell_the_content_they_are_known_beforehand(blackboard: Blackboard):
    expected = blackboard.tag_of(b"3")
    assert expected in {None, blackboard.create("a", b"3").tag}
    assert expected is None or expected != blackboard.tag_of(b"4")


# -- deleting --------------------------------------------------------------------------------------


def test_what_was_deleted_is_gone_and_nothing_else(blackboard: Blackboard):
    filled(blackboard, ["a/b", "a/c", "a-b", "d"])
    blackboard.delete("a/c", "d")
    assert keys(blackboard) == ["a-b", "a/b"]
    with pytest.raises(NotFoundError):
        blackboard.read("d")


@pytest.mark.parametrize("key", ["missing", "a", "a/b/c", "x/y/z"])
def test_deleting_what_is_not_there_does_nothing(blackboard: Blackboard, key: str):
    filled(blackboard, ["a/b"])
    blackboard.delete(key, key)
    blackboard.delete()
    assert keys(blackboard) == ["a/b"]


def test_objects_come_and_go_in_one_folder_without_losing_any(blackboard: Blackboard):
    """A folder that empties again and again, while others create in it."""
    rounds = 15

    def come_and_go(number: int) -> None:
        for _ in range(rounds):
            blackboard.create(f"p/q/{number}", b"x")
            assert blackboard.read(f"p/q/{number}").data == b"x"
            blackboard.delete(f"p/q/{number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(come_and_go, range(4)))
    assert keys(blackboard) == []


# -- keys ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ODD_KEYS)
def test_an_odd_key_is_refused_before_anything_happens(blackboard: Blackboard, tmp_path: Path, key: str):
    blackboard.create("source", b"")
    (tmp_path / "file").write_bytes(b"")
    for attempt in (
        lambda: blackboard.read(key),
        lambda: blackboard.create(key, b""),
        lambda: blackboard.replace(key, b"", tag="tag"),
        lambda: blackboard.upload(key, tmp_path / "file"),
        lambda: blackboard.copy("source", key),
        lambda: blackboard.copy(key, "target"),
    ):
        with pytest.raises(InvalidKeyError):
            attempt()
    assert keys(blackboard) == ["source"]


@pytest.mark.parametrize("prefix", ["a", "/", "a//", "../", "a/../", "./", "a\n/"])
def test_a_prefix_is_a_path_that_ends_in_a_slash(blackboard: Blackboard, prefix: str):
    with pytest.raises(InvalidKeyError):
        blackboard.page(prefix)
