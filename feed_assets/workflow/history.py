"""Reading the journal: entry after entry, over the ends of epochs, each checked against the one before.

Here: from a known entry on, to the end. Not here: from which entry (`snapshots`), and writing (`reigns`). An epoch
that nobody served in has a seal and nothing else, and is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from feed_assets.blackboard.port import Entry as Object
from feed_assets.blackboard.port import NotFoundError
from feed_assets.journal.numbered import NumberedEntries
from feed_assets.workflow.entries import Entry, checksum, decode
from feed_assets.workflow.errors import JournalDamagedError
from feed_assets.workflow.places import Place


class Replayed(Protocol):
    """A state that mutations are applied to, one after the other."""

    position: int
    """The position of the last mutation; 0 at first."""

    def replay(self, mutation: bytes) -> None:
        """Apply the next mutation; `position` grows by 1."""
        ...

    def dump(self) -> bytes:
        """The state as bytes; equal states give equal bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last entry that a state has seen."""

    epoch: int
    number: int
    checksum: int


BEGINNING: Final = Cursor(0, 0, 0)


class HoleError(JournalDamagedError):
    """An object is missing that must be there, unless a later master has removed it after its snapshots."""


def follow(place: Place, state: Replayed, cursor: Cursor, *, through: int | None = None) -> Cursor:
    """Replay what comes after this entry, and return the last one.

    Ends with the sealed epoch `through`; without, with the last entry that is there now. Costs a listing for each epoch
    and a GET for each entry. Raises HoleError, JournalDamagedError, BlackboardError.
    """
    epoch = max(cursor.epoch, 1)
    end = (0, 0)
    while True:
        journal = place.journal(epoch)
        last = cursor.number if epoch == cursor.epoch else 0
        objects = journal.listed(after=last)
        if objects and not objects[-1].size:
            # It would pass for a seal; but candidates write into theirs who they are.
            uri = journal.blackboard.uri(objects[-1].key)
            raise JournalDamagedError(f"{uri} is empty. Restore this object, from a backup or an older version of it.")
        is_sealed = bool(objects) and journal.is_seal(objects[-1])
        if through is not None and not is_sealed:
            # Every epoch before a new one was sealed by its candidate, and a seal is never deleted.
            raise _hole(journal, last + len(objects) + 1, "the seal of a past epoch")
        _refuse_holes(journal, last, objects)
        try:
            for number, (uri, data) in enumerate(journal.read(objects[:-1] if is_sealed else objects), start=last + 1):
                entry = decode(data, uri)
                _check(place, entry, uri, Cursor(epoch, number, cursor.checksum), end, state.position)
                for each in entry.mutations:
                    state.replay(each)
                cursor = Cursor(epoch, number, checksum(data))
        except NotFoundError as error:
            raise HoleError(f"{error} It was listed a moment ago. Restore the object.") from error
        if not is_sealed or epoch == through:
            return cursor
        if cursor.epoch == epoch:
            end = (epoch, journal.number(objects[-1]))
        epoch += 1


def _check(place: Place, entry: Entry, uri: str, due: Cursor, end: tuple[int, int], position: int) -> None:
    start = end if due.number == 1 else None
    for what, found, expected in (
        ("token", entry.token, place.token),
        ("epoch", entry.epoch, due.epoch),
        ("number", entry.number, due.number),
        ("predecessor", entry.predecessor, start),
        ("checksum of the entry before", entry.before, due.checksum),
        ("position", entry.position, position + 1),
    ):
        if found != expected:
            raise JournalDamagedError(
                f"{uri} is not the entry that comes here: its {what} is {found}, and {expected} is due. Restore this "
                "object and those before it as they were."
            )


def _refuse_holes(journal: NumberedEntries, last: int, objects: Sequence[Object]) -> None:
    for due, each in enumerate(objects, start=last + 1):
        if journal.number(each) != due:
            raise _hole(journal, due, "entry")


def _hole(journal: NumberedEntries, number: int, what: str) -> HoleError:
    return HoleError(
        f"{journal.blackboard.uri(journal.key(number))} is missing ({what}), and no snapshot covers it. Restore the "
        "object, from a backup or an older version of it. Until then the workflow has no master."
    )
