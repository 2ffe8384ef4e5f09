"""Snapshots: a state as it was after an entry, so that the entries before it can go.

A snapshot is a pure function of the snapshot before and the entries since, so any process can make it, and one that was
late by days makes the same bytes. Its first frame says what it is; the dump follows, with a BLAKE2b. Here: making,
verifying and reading snapshots, and what may be deleted. Not here: when one is due (the master decides that).

    python -m feed_assets.workflow.snapshots BASE NAME EPOCH MODULE:LOAD

makes one, and deletes for the master of EPOCH what it makes superfluous.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import AlreadyExistsError, NotFoundError
from feed_assets.blackboard.port import Entry as Object
from feed_assets.errors import BAD_ARGUMENT, FeedAssetsError
from feed_assets.journal.records import frame, read_frames
from feed_assets.workflow.epochs import newest_epoch
from feed_assets.workflow.errors import JournalDamagedError, SupersededError, WorkflowError
from feed_assets.workflow.history import BEGINNING, Cursor, HoleError, Replayed, follow
from feed_assets.workflow.places import DIGITS, Place, open_board, open_workflow

MUTATIONS: Final = 100_000
"""Mutations after which a snapshot is due."""
SECONDS: Final = 600.0
"""Seconds after which a snapshot is due if there were mutations."""

FORMAT: Final = 1
_DIGEST_BYTES: Final = 32
_LARGEST_SEAL: Final = 64
"""A smaller object is no entry: its token and nonce alone have 64 bytes."""

S = TypeVar("S", bound=Replayed)
Load = Callable[[bytes | None], S]
"""A state from its dump; None gives the empty state."""


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """What a snapshot says: the last entry in it, its checksum, the position, and the BLAKE2b of the dump."""

    format: int
    token: str
    epoch: int
    number: int
    checksum: int
    position: int
    digest: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Made:
    """A new snapshot, and the one before, which was verified as well; None if there was none."""

    newest: Snapshot
    before: Snapshot | None


def snapshot_once(place: Place, load: Load[S], *, said: Callable[[str], None] = lambda _: None) -> Made | None:
    """Make a snapshot of all entries there are now, and read it back.

    None if there are no mutations since the one before, or another process made a later one meanwhile. Raises
    JournalDamagedError, BlackboardError.
    """
    there = listed(place)
    try:
        state, cursor, before = load_newest(place, load, there, said=said)
        cursor = follow(place, state, cursor)
    except HoleError:
        if listed(place)[-1:] > there[-1:]:
            return None  # another process made a later one, and has removed what this one needs
        raise
    if state.position == (before.position if before else 0):
        return None
    dump = state.dump()
    digest = blake2b(dump, digest_size=_DIGEST_BYTES).digest()
    made = Snapshot(
        FORMAT, place.token, cursor.epoch, cursor.number, cursor.checksum, state.position, digest, len(dump)
    )
    _store(place, made, dump)
    del dump
    try:
        stored, _ = read_snapshot(place, made.epoch, made.number)
    except NotFoundError:
        return None  # so late that it was deleted already, after two later ones
    if stored != made:
        raise JournalDamagedError(
            f"{place.board.uri(place.snapshot(made.epoch, made.number))} is another state than its journal gives. "
            "One of the two is wrong: keep copies of both, and report this."
        )
    return Made(made, before)


def load_newest(
    place: Place,
    load: Load[S],
    there: Sequence[tuple[int, int]],
    *,
    said: Callable[[str], None] = lambda _: None,
) -> tuple[S, Cursor, Snapshot | None]:
    """The state of the newest of these snapshots (see `listed`); the empty state if there is none.

    A damaged snapshot is passed over, and `said` gets a sentence: the one before it serves as well. Raises HoleError if
    a snapshot was removed meanwhile.
    """
    for epoch, number in reversed(there):
        try:
            found, dump = read_snapshot(place, epoch, number)
        except NotFoundError as error:
            raise HoleError(f"{error} It was listed a moment ago. Restore the object.") from error
        except JournalDamagedError as error:
            said(f"{error} The snapshot before it is used.")
            continue
        state = load(dump)
        if state.position != found.position:
            uri = place.board.uri(place.snapshot(epoch, number))
            raise JournalDamagedError(
                f"{uri} was read as a state at position {state.position}, and is of position {found.position}. Use "
                "the version of feed_assets that wrote it, or a later one."
            )
        return state, Cursor(epoch, number, found.checksum), found
    return load(None), BEGINNING, None


def read_snapshot(place: Place, epoch: int, number: int) -> tuple[Snapshot, bytes]:
    """A snapshot and its dump, verified. Raises NotFoundError, JournalDamagedError, WorkflowError."""
    key = place.snapshot(epoch, number)
    file = BytesIO(place.board.read(key).data)
    try:
        header, after = next(read_frames(file))
        found = msgspec.msgpack.decode(header, type=Snapshot)
    except (StopIteration, msgspec.MsgspecError):
        raise _damaged(place, key) from None
    if found.format > FORMAT:
        uri = place.board.uri(key)
        raise WorkflowError(f"{uri} is of a newer version of feed_assets (format {found.format}): update this one.")
    file.seek(after)
    dump = file.read()
    is_right = (found.token, found.epoch, found.number, found.size) == (place.token, epoch, number, len(dump))
    if not is_right or blake2b(dump, digest_size=_DIGEST_BYTES).digest() != found.digest:
        raise _damaged(place, key)
    return found, dump


def listed(place: Place) -> list[tuple[int, int]]:
    """The epoch and number of the last entry of each snapshot, oldest first. One listing."""
    names = (each.key.removeprefix(place.snapshots) for each in list_all(place.board, place.snapshots))
    return [
        (int(name[:DIGITS]), int(name[DIGITS + 1 :]))
        for name in names
        if len(name) == 2 * DIGITS + 1 and name.replace("-", "", 1).isdecimal()
    ]


def truncate(place: Place, made: Made, *, epoch: int) -> int:
    """Delete what two verified snapshots make superfluous, for the master of `epoch`; returns the number of objects.

    Seals, epochs, and the newest entry of an epoch without a seal stay for ever: on a seal a master that stood still
    ends, and beside a deleted entry a candidate would place its seal in vain. Raises SupersededError if the epoch is
    not the newest: then a candidate may be reading.
    """
    if made.before is None:
        return 0
    covered = (made.before.epoch, made.before.number)
    superfluous = [*_entries(place, covered), *_heartbeats(place, epoch), *_snapshots(place, covered)]
    # After the listing: so each of these entries was written before this look.
    _look(place, epoch)
    place.board.delete(*superfluous)
    return len(superfluous)


def _entries(place: Place, covered: tuple[int, int]) -> list[str]:
    found = []
    of_epochs = groupby(list_all(place.board, place.journals), key=lambda each: each.key.rpartition("/")[0])
    for folder, group in of_epochs:
        objects = list(group)
        epoch = int(folder.removeprefix(place.journals))
        last = place.journal(epoch).number(objects[-1])
        up_to = covered[1] if epoch == covered[0] else last if epoch < covered[0] else 0
        found += [each.key for each in _deletable(objects) if place.journal(epoch).number(each) <= up_to]
    return found


def _deletable(objects: Sequence[Object]) -> list[Object]:
    """The entries of an epoch that may go. The last object is its seal, or the newest entry."""
    return [each for each in objects[:-1] if each.size > _LARGEST_SEAL]


def _heartbeats(place: Place, epoch: int) -> list[str]:
    return [each.key for each in list_all(place.board, place.heartbeats) if each.key < place.heartbeat(epoch)]


def _snapshots(place: Place, covered: tuple[int, int]) -> list[str]:
    return [place.snapshot(*each) for each in listed(place) if each < covered]


def _look(place: Place, epoch: int) -> None:
    newest = newest_epoch(place, known=epoch)
    if newest != epoch:
        raise SupersededError(f"Epoch {newest} of the workflow {place.name!r} is newer than epoch {epoch}.")


def _store(place: Place, snapshot: Snapshot, dump: bytes) -> None:
    key = place.snapshot(snapshot.epoch, snapshot.number)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "snapshot"
        with path.open("wb") as file:
            file.write(frame(msgspec.msgpack.encode(snapshot)))
            file.write(dump)
        try:
            place.board.upload(key, path)
        except AlreadyExistsError:
            return  # made by another process, or by this one, whose answer was lost


def _damaged(place: Place, key: str) -> JournalDamagedError:
    return JournalDamagedError(f"{place.board.uri(key)} is no sound snapshot of {place.name!r}: delete or restore it.")


def main(arguments: Sequence[str]) -> int:
    """Make a snapshot and truncate, as the master's child process. Returns the exit code."""
    if len(arguments) != 4 or not arguments[2].isdecimal():  # noqa: PLR2004 - those of the usage
        print("Usage: python -m feed_assets.workflow.snapshots BASE NAME EPOCH MODULE:LOAD", file=sys.stderr)  # noqa: T201
        return BAD_ARGUMENT
    base, name, epoch, loader = arguments
    module, _, attribute = loader.partition(":")
    load: Load[Replayed] = getattr(importlib.import_module(module), attribute)
    try:
        place = open_workflow(open_board(base), name)
        made = snapshot_once(place, load, said=lambda sentence: print(sentence, file=sys.stderr))  # noqa: T201
        if made is not None:
            truncate(place, made, epoch=int(epoch))
    except FeedAssetsError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
