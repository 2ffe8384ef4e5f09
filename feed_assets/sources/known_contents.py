"""What raw files on a disk hold: a copied or restored file has another tag there, and the same content.

Here: for each source and day, the SHA-256 of files that were read, and all tags under which each content was seen. The
first of these tags stands for the content: read sets and decisions use it, so a copied base is as it was, on every
machine that uses it. Not here: listing (`raw`), and what a change means (`growth`). Where tags tell the content, as on
S3, nothing is kept and no tag is translated.

A file is read when a run reads it first, or by the monitor if its tag is new and its size is known.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf

from feed_assets.blackboard.contents import digests, local_root
from feed_assets.blackboard.port import (
    AlreadyExistsError,
    Blackboard,
    BlackboardError,
    ConflictError,
    Content,
    NotFoundError,
)
from feed_assets.file_feed.bounded_cache import BoundedCache
from feed_assets.file_feed.record import RawFile, RawInput, inputs_digest
from feed_assets.sources.layout import contents_key, raw_file_key

_log = logging.getLogger("feed_assets.sources")

MOST_TAGS, MOST_CONTENTS = 10, 10
"""Tags of a content, and contents of a path, that are kept: the first tag and the newest ones."""
BYTES_AT_ONCE = 2**30
"""Bytes that are read before the digests are kept: a process that is killed meanwhile loses no more."""
ATTEMPTS = 20
MOST_FILES = 50_000
"""Files that a tick collects to remember."""

_Files = dict[str, list[tuple[int, str, list[str]]]]
"""Path below the day -> size, SHA-256 and tags of each content that it had."""

_RECOGNIZED: BoundedCache[tuple[str, str], RawInput] = BoundedCache(1000)
"""Read sets with translated tags, by the key of the contents and a digest of the read set."""
_REMEMBERED: BoundedCache[tuple[str, str], bool] = BoundedCache(10_000)


class StillComparingError(Exception):
    """The time was over before all files with new tags were read. The next attempt goes on."""


@dataclass(slots=True)
class Comparing:
    """How long to read files, by the monotonic clock; and the `processed` read sets, to be remembered later."""

    until: float = inf
    processed: list[RawInput] = field(default_factory=list)
    _files: int = 0

    def add(self, board: Blackboard, read: RawInput) -> None:
        """Add a read set whose update is in force, unless this process knows that its contents are kept."""
        if local_root(board) is None or not read.files or self._files >= MOST_FILES:
            return
        if (board.uri(""), inputs_digest([read])) not in _REMEMBERED:
            self._files += len(read.files)
            self.processed.append(read)


def known_by_tags(board: Blackboard, read: RawInput) -> RawInput:
    """The read set with the tags that stand for the contents, as far as its tags are known. A GET on a disk."""
    if local_root(board) is None or not read.files:
        return read
    return _translated(read, _stored(board, read)[0])


def recognized(board: Blackboard, read: RawInput, *, until: float = inf) -> RawInput:
    """The read set with the tags that stand for the contents; reads files whose tag is new and whose size is known.

    A GET on a disk, once in a process for one state of the files. Raises StillComparingError after `until`.
    """
    if local_root(board) is None or not read.files:
        return read
    place = (board.uri(contents_key(read.source, read.partition)), inputs_digest([read]))
    with suppress(KeyError):
        return _RECOGNIZED[place]
    known, _ = _stored(board, read)
    unknown = [
        file
        for file in read.files
        if not _contents_with(known, file) and any(size == file.size for size, *_ in known.get(file.path, ()))
    ]
    if not _read(board, read, unknown, until):
        raise StillComparingError
    found = _translated(read, _stored(board, read)[0] if unknown else known)
    _RECOGNIZED[place] = found
    return found


def remembered(board: Blackboard, read: RawInput, *, until: float = inf, largest: float = inf) -> RawInput:
    """The read set with the tags that stand for the contents; reads all files whose tag is new, as far as time goes.

    Leaves out files of more than `largest` bytes.
    """
    if local_root(board) is None or not read.files:
        return read
    known, _ = _stored(board, read)
    unknown = [file for file in read.files if file.size <= largest and not _contents_with(known, file)]
    if _read(board, read, unknown, until):
        _REMEMBERED[board.uri(""), inputs_digest([read])] = True
    return _translated(read, _stored(board, read)[0] if unknown else known)


def remember(board: Blackboard, read_sets: Iterable[RawInput], *, until: float) -> None:
    """Read and keep the contents of these files that are not kept yet, until the time is over.

    Files that take seconds to read are left to runs.
    """
    for read in read_sets:
        if time.monotonic() > until:
            return
        remembered(board, read, until=until, largest=BYTES_AT_ONCE)


def _read(board: Blackboard, read: RawInput, files: Sequence[RawFile], until: float) -> bool:
    """Keep the contents of these files; False if the time was over before. A file that changes is left out."""
    for some in _portions(files):
        keys = {raw_file_key(read.source, read.partition, file.path): file for file in some}
        found = digests(board, keys, until=until)
        _keep(board, read, {keys[key]: digest for key, (tag, digest) in found.items() if tag == keys[key].tag})
        if time.monotonic() > until and (some[-1] is not files[-1] or len(found) < len(keys)):
            return False
    return True


def _portions(files: Sequence[RawFile]) -> Iterator[list[RawFile]]:
    some: list[RawFile] = []
    size = 0
    for file in files:
        some.append(file)
        size += file.size
        if size >= BYTES_AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some


def _keep(board: Blackboard, read: RawInput, found: Mapping[RawFile, str]) -> None:
    """Add these contents. If that fails, they are read again another time."""
    key = contents_key(read.source, read.partition)
    try:
        for _ in range(ATTEMPTS if found else 0):
            known, stored = _stored(board, read)
            for file, digest in found.items():
                _add(known.setdefault(file.path, []), file, digest)
            content = json.dumps({"files": known}, separators=(",", ":"), sort_keys=True).encode()
            with suppress(AlreadyExistsError, ConflictError):
                if stored is None:
                    board.create(key, content)
                else:
                    board.replace(key, content, tag=stored.entry.tag)
                return
    except BlackboardError as error:
        _log.info("The contents of raw files are not kept, and read again next time: %s", error)


def _add(contents: list[tuple[int, str, list[str]]], file: RawFile, digest: str) -> None:
    for place, (size, known, tags) in enumerate(contents):
        if (size, known) == (file.size, digest):
            if file.tag not in tags:
                contents[place] = (size, known, [*tags[:1], *[*tags[1:], file.tag][1 - MOST_TAGS :]])
            return
    contents.append((file.size, digest, [file.tag]))
    del contents[:-MOST_CONTENTS]


def _translated(read: RawInput, known: _Files) -> RawInput:
    if not known:
        return read
    files = tuple(
        replace(file, tag=tags[0]) if (tags := _contents_with(known, file)) and tags[0] != file.tag else file
        for file in read.files
    )
    return replace(read, files=files)


def _contents_with(known: _Files, file: RawFile) -> list[str]:
    """The tags of the content that this file had under its tag; empty if unknown."""
    for size, _, tags in known.get(file.path, ()):
        if size == file.size and file.tag in tags:
            return tags
    return []


def _stored(board: Blackboard, read: RawInput) -> tuple[_Files, Content | None]:
    """The known contents of a day; empty if nothing is kept, or if the object is damaged, and is then replaced."""
    try:
        stored = board.read(contents_key(read.source, read.partition))
    except NotFoundError:
        return {}, None
    try:
        files = json.loads(stored.data)["files"]
        known = {path: [(int(size), str(of), list(tags)) for size, of, tags in each] for path, each in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        known = {}
    return known, stored
