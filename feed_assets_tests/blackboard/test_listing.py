"""What every blackboard promises of its listings; what only one of them does is tested beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feed_assets.blackboard.port import PAGE_SIZE, AlreadyExistsError, Blackboard, InvalidKeyError, Page
from feed_assets_tests.blackboard.shown import keys

NEIGHBOURS = ["a", "a b/x", "a!/x", "a-b/x", "a.b", "a0/x", "ab", "b/x", "b/y/z", "b0", "é", "\uff5a", "😀/x"]


def filled(blackboard: Blackboard, keys: Iterable[str]) -> Blackboard:
    for key in keys:
        blackboard.create(key, key.encode())
    return blackboard


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


def test_a_listing_longer_than_a_page_goes_on_where_the_page_ended(
    blackboard: Blackboard, request: pytest.FixtureRequest
):
    names = [f"p/{number:04}" for number in range(PAGE_SIZE + 3)]

    def create(name: str) -> None:
        # A busy server's answer may be lost; the client then asks again, and finds its own object.
        with suppress(AlreadyExistsError):
            blackboard.create(f"{name}/x", b"")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, names))

    found = pages(blackboard, "")
    assert [entry.key for page in found for entry in page.entries] == [f"{name}/x" for name in names]
    rolled_up = pages(blackboard, "", folders=True)
    assert [folder for page in rolled_up for folder in page.folders] == [f"{name}/" for name in names]
    exactly_full = pages(blackboard, f"{names[2]}/x")
    assert sum(len(page.entries) for page in exactly_full) == PAGE_SIZE
    assert all(len(page.entries) + len(page.folders) <= PAGE_SIZE for page in (*found, *rolled_up, *exactly_full))
    if "[ceph]" not in request.node.name:  # a busy Ceph ends a page early, as the protocol allows
        assert [len(page.entries) for page in found] == [PAGE_SIZE, 3]
        assert [len(page.folders) for page in rolled_up] == [PAGE_SIZE, 3]
        assert len(exactly_full) == 1


def pages(blackboard: Blackboard, after: str, *, folders: bool = False) -> list[Page]:
    found = [blackboard.page("p/", after=after, folders=folders)]
    while found[-1].next_after is not None:
        found.append(blackboard.page("p/", after=found[-1].next_after, folders=folders))
    return found


_names = st.sampled_from(["a", "a b", "a!", "a-b", "a.b", "a0", "b", "_SUCCESS", "é", "\uff5a", "😀", "2018", "20"])
_keys = st.lists(_names, min_size=1, max_size=4).map("/".join)
_prefixes = st.lists(_names, max_size=2).map(lambda names: "".join(f"{name}/" for name in names))
_afters = st.one_of(st.just(""), _keys, _prefixes, _keys.map(lambda key: key[:-1]), st.text("a!-./0bé😀", max_size=6))


def possible_on_a_disk(keys: set[str]) -> bool:
    return not any(other.startswith(f"{key}/") for key in keys for other in keys)


def listed(keys: Iterable[str], prefix: str, after: str, *, folders: bool) -> list[str]:
    """The model: what a page has to show, from the port's description alone."""
    below = [key for key in keys if key.startswith(prefix)]
    if folders:
        below = [prefix + first + slash for first, slash, _ in (key[len(prefix) :].partition("/") for key in below)]
    return sorted({name for name in below if name.encode() > after.encode()}, key=str.encode)


@settings(max_examples=60)
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


@pytest.mark.parametrize("prefix", ["a", "/", "a//", "../", "a/../", "./", "a\n/"])
def test_a_prefix_is_a_path_that_ends_in_a_slash(blackboard: Blackboard, prefix: str):
    with pytest.raises(InvalidKeyError):
        blackboard.page(prefix)
