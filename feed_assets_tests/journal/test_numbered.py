"""Of any writers below one prefix, each learns what became of its bytes, in every order of their requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import Entry, UnavailableError
from feed_assets.journal.numbered import FencedError, NumberedEntries, UndecidedError

PREFIX = "journal/1/"


class Scripted(MemoryBlackboard):
    """Each create does what its script says: nothing special, an answer that is lost, or a request that is lost."""

    def __init__(self, script: str = "") -> None:
        super().__init__()
        self.script = iter(script)

    def create(self, key: str, data: bytes) -> Entry:
        fate = next(self.script, ".")
        if fate == "q":
            raise UnavailableError("the request was lost")
        made = super().create(key, data)
        if fate == "a":
            raise UnavailableError("the answer was lost")
        return made


def contents(board: MemoryBlackboard) -> list[bytes]:
    entries = NumberedEntries(board, PREFIX)
    return [data for _, data in entries.read(entries.listed())]


def until_decided(entries: NumberedEntries, number: int, data: bytes) -> None:
    while True:
        with suppress(UndecidedError):
            return entries.append(number, data)


@pytest.mark.parametrize("script", ["", "a", "q", "qa", "aq", "qqqaaa"])
def test_the_same_bytes_are_appended_again_until_it_is_decided_and_are_there_once(script: str) -> None:
    board = Scripted(script)
    entries = NumberedEntries(board, PREFIX)

    until_decided(entries, 1, b"one")
    until_decided(entries, 2, b"two")

    assert contents(board) == [b"one", b"two"]
    with pytest.raises(FencedError, match=r"00002 is of another writer, or a seal"):
        entries.append(2, b"other")


def test_a_seal_keeps_its_first_content_and_nothing_is_appended_behind_it() -> None:
    board = MemoryBlackboard()
    entries = NumberedEntries(board, PREFIX)
    assert entries.sealed_with() is None
    entries.append(1, b"one")

    assert entries.seal(b"by candidate 2") == 2
    assert NumberedEntries(board, PREFIX).seal(b"by candidate 3") == 2
    assert entries.sealed_with() == b"by candidate 2"
    with pytest.raises(FencedError):
        entries.append(2, b"two")
    assert NumberedEntries(board, "journal/2/").seal() == 1
    assert NumberedEntries(board, "journal/2/").sealed_with() == b""


def writer(entries: NumberedEntries, name: bytes, acknowledged: list[bytes]) -> Iterator[None]:
    """Appends two entries of its own, one request a step; notes what it could acknowledge."""
    for number in (1, 2):
        data = name + b"%d" % number
        while data not in acknowledged:
            try:
                entries.append(number, data)
                acknowledged.append(data)
            except FencedError:
                return
            except UndecidedError:
                pass
            yield


def sealer(entries: NumberedEntries, sealed: list[list[bytes]], board: MemoryBlackboard) -> Iterator[None]:
    """Seals, and then reads what is before the seal, once and for ever."""
    number = 0
    while not number:
        with suppress(UnavailableError):
            number = entries.seal(b"end")
        yield
    sealed.append(contents(board)[: number - 1])


def interleavings(counts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if not any(counts):
        yield ()
    for who, left in enumerate(counts):
        if left:
            rest = tuple(each - (place == who) for place, each in enumerate(counts))
            yield from ((who, *order) for order in interleavings(rest))


@pytest.mark.parametrize("script", ["", "a", "q", "aa", "qa", "aq", ".a", ".q", "..a", "..q"])
def test_in_every_order_what_was_acknowledged_is_before_the_seal_and_of_one_writer(script: str) -> None:
    for order in interleavings((3, 3, 2)):
        board = Scripted(script)
        acknowledged: tuple[list[bytes], list[bytes]] = ([], [])
        sealed: list[list[bytes]] = []
        actors = [
            writer(NumberedEntries(board, PREFIX), b"a", acknowledged[0]),
            writer(NumberedEntries(board, PREFIX), b"b", acknowledged[1]),
            sealer(NumberedEntries(board, PREFIX), sealed, board),
        ]
        for who in order:
            next(actors[who], None)
        for each in actors:
            for _ in each:
                pass
        kept = sealed[0]
        assert all(data in kept for data in (*acknowledged[0], *acknowledged[1])), order
        # An entry that nobody acknowledged may be there, too: its writer never learnt that it was stored.
        assert [int(data[1:]) for data in kept] == list(range(1, len(kept) + 1)), order
        assert contents(board)[len(kept)] == b"sealend", order
