"""What every blackboard promises of single objects; what only one of them does is tested beside it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, ConflictError, InvalidKeyError, NotFoundError
from feed_assets_tests.blackboard.shown import keys

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
    "a\x85b",
    "a\\b",
    "a\uffffb",
    "x" * 1025,
]


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


@pytest.mark.parametrize("key", ["a", "b/c", "b/c.d/e_f"])
def test_the_uri_says_where_the_object_is(blackboard: Blackboard, key: str):
    scheme, _, rest = blackboard.uri(key).partition("://")
    assert scheme in {"memory", "file", "s3"}
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


@pytest.mark.parametrize("there_before", [False, True], ids=["create", "replace"])
def test_of_writers_of_one_object_at_once_exactly_one_wins(blackboard: Blackboard, there_before: bool):
    writers = 6
    for attempt in range(5):
        key = f"claims/{attempt}/x"
        tag = blackboard.create(key, b"").tag if there_before else ""
        together = threading.Barrier(writers)

        def write(number: int, key: str = key, tag: str = tag, together: threading.Barrier = together) -> bytes | None:
            data = b"%d" % number * 1000
            together.wait()
            try:
                if there_before:
                    blackboard.replace(key, data, tag=tag)
                else:
                    blackboard.create(key, data)
            except (AlreadyExistsError, ConflictError):
                return None
            return data

        with ThreadPoolExecutor(writers) as pool:
            won = [data for data in pool.map(write, range(writers)) if data is not None]
        assert won == [blackboard.read(key).data]


def test_an_object_can_be_created_again_where_one_was_deleted(blackboard: Blackboard):
    blackboard.create("a/b", b"first")
    blackboard.delete("a/b")
    blackboard.create("a/b", b"second")
    assert blackboard.read("a/b").data == b"second"


def test_an_object_is_downloaded_as_it_is_into_a_new_file(blackboard: Blackboard, tmp_path: Path):
    created = blackboard.create("a/b", b"content")
    assert blackboard.download("a/b", tmp_path / "copy").tag == created.tag
    assert (tmp_path / "copy").read_bytes() == b"content"
    with pytest.raises(NotFoundError, match="missing"):
        blackboard.download("missing", tmp_path / "other")


def test_a_file_is_uploaded_as_it_is(blackboard: Blackboard, tmp_path: Path):
    content = bytes(range(256)) * 5000
    (tmp_path / "file").write_bytes(content)
    uploaded = blackboard.upload("a/b", tmp_path / "file")
    assert blackboard.read("a/b").data == content
    assert (uploaded.key, uploaded.size) == ("a/b", len(content))
    assert uploaded.tag == blackboard.read("a/b").entry.tag


def test_a_file_that_is_not_there_is_the_callers_mistake_and_creates_nothing(blackboard: Blackboard, tmp_path: Path):
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
    for key in ("a/b", "a/c", "a-b", "d"):
        blackboard.create(key, b"")
    blackboard.delete("a/c", "d")
    assert keys(blackboard) == ["a-b", "a/b"]
    with pytest.raises(NotFoundError):
        blackboard.read("d")


@pytest.mark.parametrize("key", ["missing", "a", "a/b/c", "x/y/z"])
def test_deleting_what_is_not_there_does_nothing(blackboard: Blackboard, key: str):
    blackboard.create("a/b", b"")
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
