"""The computed blackboard answers as the one in memory does, so that what is measured on it holds elsewhere."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import BlackboardError, Page
from feed_assets_tests.blackboard.computed import ComputedBlackboard, Objects

FOLDERS, FILES = 60, 40
GROUPS = [
    Objects(FOLDERS * FILES, lambda n: f"feed/d{n // FILES:02}/{n % FILES:02}", lambda n: b"x" * (n % 3)),
    Objects(5, lambda n: f"other/{n}", lambda n: str(n).encode()),
]
CONTENT = {group.key(number): group.data(number) for group in GROUPS for number in range(group.count)}

prefixes = st.sampled_from(["", "feed/", "feed/d07/", "feed/d0/", "other/", "none/"])
keys = st.sampled_from(["feed/d07/12", "feed/d07/39", "feed/d07/new", "feed/d24/39", "other/0", "other/9", "x", "a/b"])
places = keys | st.sampled_from(["", "feed/", "feed/d07", "feed/d07/", "feed/d24/", "feed/e", "z"])
acts = st.tuples(st.sampled_from(["create", "replace", "put", "delete", "read"]), keys)


@settings(max_examples=60)
@given(done=st.lists(acts, max_size=6), prefix=prefixes, after=places, folders=st.booleans())
def test_whatever_is_written_over_it_it_lists_and_reads_as_memory_does(
    done: list[tuple[str, str]], prefix: str, after: str, *, folders: bool
) -> None:
    boards = (ComputedBlackboard(GROUPS), MemoryBlackboard(CONTENT))

    assert len({str([answer(board, *act) for act in done]) for board in boards}) == 1
    pages = [board.page(prefix, after=after, folders=folders) for board in boards]
    assert plain(pages[0]) == plain(pages[1])


def answer(board: ComputedBlackboard | MemoryBlackboard, act: str, key: str) -> object:
    try:
        if act == "read":
            return board.read(key).data
        if act == "delete":
            return board.delete(key)
        if act == "replace":
            return board.replace(key, b"new", tag=board.read(key).entry.tag).tag
        return getattr(board, act)(key, b"new").tag
    except BlackboardError as error:
        return type(error)


def plain(page: Page) -> object:
    """A page without the times of its objects."""
    return [(entry.key, entry.size, entry.tag) for entry in page.entries], page.folders, page.next_after
