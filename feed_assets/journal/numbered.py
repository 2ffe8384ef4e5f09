"""Numbered entries below a prefix of a blackboard: 1, 2, 3 ... without a gap, each created once, ended by a seal.

Whoever creates entry n has written it; everybody else learns that n is taken. So two writers need no lock and no clock:
of both, one finds the other's bytes at its next number, and is *fenced*. A seal is an entry that nobody appends behind.
An object that is empty, or begins with `SEAL`, is a seal. Not here: when a seal may be deleted. If it is, a writer that
stood still appends behind it without noticing: so keep a seal for longer than any writer can stand still, or for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, BlackboardError, NotFoundError, UnavailableError
from feed_assets.blackboard.port import Entry as Object
from feed_assets.journal.records import JournalError

SEAL: Final = b"seal"
_AT_ONCE: Final = 8


class FencedError(JournalError):
    """Other bytes have this number: another writer's, or a seal. This writer must not append any more."""


class UndecidedError(JournalError):
    """The store did not answer, and the bytes may be there, or come later: append the same bytes again."""


@dataclass(frozen=True, slots=True)
class NumberedEntries:
    """The entries below `prefix`, which ends in `/`. Data must be unlike any other writer's, and not begin with SEAL.

    Names have `digits` digits, as storage sorts them as text.
    """

    blackboard: Blackboard
    prefix: str
    digits: int = 20

    def append(self, number: int, data: bytes) -> None:
        """Store the entry of this number, also if an earlier try did, and its answer was lost.

        One PUT; a GET if the number is taken. Raises FencedError, and UndecidedError with the store's message.
        """
        try:
            self.blackboard.create(self.key(number), data)
        except AlreadyExistsError:
            self._compare(number, data)
        except UnavailableError as error:
            raise UndecidedError(str(error)) from error

    def seal(self, content: bytes = b"") -> int:
        """End the entries, unless they are: then the content that is there stays. Returns the seal's number.

        A LIST and a PUT, again if an append comes in between. Raises BlackboardError.
        """
        while True:
            found = self.listed()
            last = self.number(found[-1]) if found else 0
            if found and self.is_seal(found[-1]):
                return last
            try:
                self.blackboard.create(self.key(last + 1), SEAL + content if content else b"")
            except AlreadyExistsError:
                continue
            return last + 1

    def sealed_with(self) -> bytes | None:
        """The content of the seal; None without one."""
        found = self.listed()
        if not found or not self.is_seal(found[-1]):
            return None
        return self.blackboard.read(found[-1].key).data.removeprefix(SEAL)

    def listed(self, *, after: int = 0) -> list[Object]:
        """All objects with higher numbers than `after`, in order. One listing."""
        return list(list_all(self.blackboard, self.prefix, after=self.key(after) if after else ""))

    def read(self, objects: list[Object]) -> Iterator[tuple[str, bytes]]:
        """The URI and the bytes of each of these objects, in order; some are read ahead."""
        keys = [each.key for each in objects]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for start in range(0, len(keys), _AT_ONCE):
                for content in pool.map(self.blackboard.read, keys[start : start + _AT_ONCE]):
                    yield self.blackboard.uri(content.entry.key), content.data

    def is_seal(self, found: Object) -> bool:
        """Whether an object is a seal; False if it was removed since. A GET of its first bytes, unless it is empty."""
        try:
            return not found.size or self.blackboard.read(found.key, limit=len(SEAL)).data == SEAL
        except NotFoundError:
            return False

    def key(self, number: int) -> str:
        """The key of the entry of this number."""
        return f"{self.prefix}{number:0{self.digits}}"

    def number(self, found: Object) -> int:
        """The number of a listed object. Raises BlackboardError if its name is none."""
        name = found.key.removeprefix(self.prefix)
        if not name.isdecimal():
            raise BlackboardError(f"{self.blackboard.uri(found.key)} is no entry of a journal; move it away")
        return int(name)

    def _compare(self, number: int, data: bytes) -> None:
        key = self.key(number)
        try:
            is_mine = self.blackboard.read(key).data == data
        except NotFoundError:  # removed since, as only others do
            is_mine = False
        except UnavailableError as error:
            raise UndecidedError(str(error)) from error
        if not is_mine:
            uri = self.blackboard.uri(key)
            raise FencedError(f"{uri} is of another writer, or a seal; give each writer a name of its own")
