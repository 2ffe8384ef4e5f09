"""Resolving the latest update by the plain rule, in few requests, although listings only ascend.

Nothing here depends on the control area.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from feed_assets.blackboard.listing import list_all, list_folders
from feed_assets.blackboard.port import Content, Entry, NotFoundError
from feed_assets.file_feed.bounded_cache import BoundedCache
from feed_assets.file_feed.errors import MixedFeedError, NoValidUpdateError, UpdateChangedError
from feed_assets.file_feed.feed import CONTROL, Feed, File, Update
from feed_assets.file_feed.manifest import INVALIDATED, MANIFEST, MAX_BYTES, manifest, parse_manifest
from feed_assets.file_feed.names import SECOND, begun, has_update_shape, is_partition_name, is_update_name, update_name
from feed_assets.file_feed.wording import counted

EARLIEST = datetime.min.replace(tzinfo=UTC)
RECENT = timedelta(days=1)
"""How far before now a search for the latest starts: most partitions are published within a day of being read."""

SKEW = timedelta(minutes=1)
"""How far ahead an update may be dated without a warning: claims in the same second move each other on."""

GALLOP = 8
"""The factor by which a search widens its span after it found nothing valid."""

ATTEMPTS = 3
"""How often to resolve an update again if a manifest changed after it was listed."""

REMEMBERED = 100_000
"""How many manifests a process remembers after reading them."""

TICK = timedelta(seconds=3)
"""More than a tick of a disk's clock: within it a file may be rewritten in place and keep its tag."""

_STATED: BoundedCache[tuple[str, str, datetime], int | None] = BoundedCache(REMEMBERED)
"""The number that a manifest states, by its URI, tag and time, for stores whose tags do not tell the content."""

_log = logging.getLogger("feed_assets.file_feed")
_Result = TypeVar("_Result")


class MovedError(Exception):
    """A manifest changed or vanished since it was listed: list again."""


@dataclass(slots=True)
class Found:
    """An update as a listing shows it: its files, and its manifest if it has one.

    `markers` are the directory markers below it; they do not count as files. `split` if a page of the listing ended
    inside it, so that it was not seen at one moment.
    """

    name: str
    files: list[File] = field(default_factory=list)
    manifest: Entry | None = None
    markers: list[str] = field(default_factory=list)
    split: bool = False

    @property
    def paths(self) -> list[str]:
        """The paths of everything in it except the manifest."""
        return [*(file.path for file in self.files), *self.markers]

    def add(self, path: str, entry: Entry) -> None:
        """Add one of its objects."""
        if path == MANIFEST:
            self.manifest = entry
        elif path.endswith("/"):
            self.markers.append(path)
        else:
            self.files.append(File(path, entry.size, entry.tag))

    def update(self, feed: Feed, partition: str | None) -> Update:
        """These files as an update, valid or not."""
        return Update(feed, partition, self.name, tuple(self.files))


_IsValid = Callable[[Feed, Found], bool]


def latest(feed: Feed, partition: str | None = None, *, now: datetime, as_of: datetime | None = None) -> Update | None:
    """The newest valid update of a partition, or None.

    With `as_of`, the newest of those begun at or before that time. One LIST if the updates begun within a day before
    `now` (or `as_of`) include a valid one and fit a page, however long the history. Raises MixedFeedError if partitions
    lie at this level, but only if it lists the whole history: to look for partitions would cost each reader a request.
    """
    end, newest = as_of or now, update_name(as_of) if as_of else None
    for _ in range(ATTEMPTS):
        with suppress(MovedError):
            return _warn_of_future(_resolve(feed, partition, end, newest, valid_as_listed), now)
    return _warn_of_future(_resolve(feed, partition, end, newest, is_valid), now)


def require_latest(feed: Feed, partition: str | None = None, *, now: datetime, as_of: datetime | None = None) -> Update:
    """The latest valid update. Raises NoValidUpdateError, whose message says what the partition holds instead."""
    update = latest(feed, partition, now=now, as_of=as_of)
    if update is not None:
        return update
    at = f" as of {as_of:%Y-%m-%d %H:%M:%S}" if as_of else ""
    names = [found.name for found in list_updates(feed, partition)]
    instead = _instead(names, update_name(as_of) if as_of else None)
    command = f"feed-assets feed ls {feed.arguments(partition)}"
    raise NoValidUpdateError(f"{feed.title(partition)} has no valid update{at}. {instead}; see why with `{command}`.")


def _instead(names: Sequence[str], newest: str | None) -> str:
    """The content of a partition, for the message that no update up to `newest` is valid."""
    if not names:
        return "There is nothing"
    invalid = [name for name in names if not _is_past(name, newest)]
    reasons = []
    if invalid:
        reasons.append(
            f"Update {invalid[0]} is not valid"
            if len(invalid) == 1
            else f"{len(invalid)} updates are not valid, the newest is {invalid[-1]}"
        )
    if later := len(names) - len(invalid):
        reasons.append(f"{counted(later, 'update')} {'was' if later == 1 else 'were'} begun later")
    return ", and ".join(reasons)


def is_latest(update: Update) -> bool:
    """Whether this update is still the one in force, with the same files: one LIST.

    The listing starts at the update itself, to see its own invalidation.
    """
    found = updates_from(update.feed, update.partition, start=update.name)
    return newest_valid(update.feed, update.partition, found) == update


def read_manifest(feed: Feed, partition: str | None, name: str) -> Content | None:
    """The manifest of an update, valid or not, or None: one GET."""
    return manifest_at(feed, f"{feed.update_prefix(partition, name)}{MANIFEST}")


def manifest_at(feed: Feed, key: str) -> Content | None:
    """The manifest under this key, cut after the longest valid length; None if it is gone: one GET."""
    try:
        return feed.blackboard.read(key, limit=MAX_BYTES + 1)
    except NotFoundError:
        return None


def list_updates(feed: Feed, partition: str | None = None) -> list[Found]:
    """Every update of a partition, valid or not, oldest first: lists the whole history."""
    return list(updates_from(feed, partition, start=f"{CONTROL}0" if partition is None else "").values())


def is_valid(feed: Feed, found: Found) -> bool:
    """The plain rule: the manifest states the number of the other files. Reads it only if its tag does not tell."""
    try:
        return valid_as_listed(feed, found)
    except MovedError:
        return False


def valid_as_listed(feed: Feed, found: Found) -> bool:
    """As `is_valid`; raises MovedError if the manifest changed after it was listed.

    A process reads a manifest once, as long as its tag and its time stay the same.
    """
    entry = found.manifest
    if entry is None or entry.size > MAX_BYTES or entry.tag == feed.blackboard.tag_of(INVALIDATED):
        return False
    # A listing of two pages may mix the manifest before a removal with the files after it: then read the manifest.
    if not found.split and feed.blackboard.tag_of(manifest(len(found.files))) == entry.tag:
        return True
    read_as = (feed.blackboard.uri(entry.key), entry.tag, entry.modified)
    if not found.split:
        with suppress(KeyError):
            return _STATED[read_as] == len(found.files)
    content = manifest_at(feed, entry.key)
    if content is None or content.entry.tag != entry.tag:
        raise MovedError(entry.key)
    stated = parse_manifest(content.data)
    if entry.modified < datetime.now(UTC) - TICK:
        _STATED[read_as] = stated
    return stated == len(found.files)


def newest_valid(
    feed: Feed, partition: str | None, found: Mapping[str, Found], *, valid: _IsValid = is_valid
) -> Update | None:
    """The newest of these updates that is valid by `valid`, or None."""
    for name in sorted(found, reverse=True):
        if valid(feed, found[name]):
            return found[name].update(feed, partition)
    return None


def partitions(feed: Feed) -> list[str]:
    """The partitions that hold anything, ascending; none if the feed is unpartitioned."""
    return [name for name in list_folders(feed.blackboard, feed.root) if is_partition_name(name)]


def read_resolved(
    feed: Feed, partition: str | None, consume: Callable[[Update], _Result], *, now: datetime, attempts: int = ATTEMPTS
) -> _Result:
    """Resolve the latest update and let `consume` read exactly its files.

    If a file is gone or changed meanwhile (`consume` raises NotFoundError), it resolves again from scratch: two updates
    are never mixed. Raises NoValidUpdateError, or UpdateChangedError after `attempts` attempts.
    """
    for _ in range(attempts):
        update = require_latest(feed, partition, now=now)
        try:
            return consume(update)
        except NotFoundError as error:
            _log.info("%s moved while it was read (%s): resolving again", update.uri, error)
    raise UpdateChangedError(
        f"{feed.title(partition)} changed under the reader {attempts} times in a row. "
        "Is retention too short for how long reading takes? Pin the update with `feed-assets feed pin`."
    )


def changed_files(update: Update) -> list[str]:
    """The URIs of the files of an update that are gone or have another size or tag: a LIST for each page of files."""
    board, resolved = update.feed.blackboard, {update.key(file.path): file for file in update.files}
    for entry in list_all(board, update.prefix) if resolved else ():
        file = resolved.get(entry.key)
        if file is not None and (file.size, file.tag) == (entry.size, entry.tag):
            del resolved[entry.key]
    return [board.uri(key) for key in resolved]


def read_file(update: Update, file: File) -> bytes:
    """The bytes of one file as it was resolved. Raises NotFoundError if it is gone or changed."""
    content = update.feed.blackboard.read(update.key(file.path))
    if content.entry.tag != file.tag:
        message = f"{update.feed.blackboard.uri(update.key(file.path))} changed since it was resolved: resolve again."
        raise NotFoundError(message)
    return content.data


def updates_from(feed: Feed, partition: str | None, *, start: str, newest: str | None = None) -> dict[str, Found]:
    """The updates from the name `start` to the name `newest`, oldest first: a LIST for each page of keys."""
    prefix = feed.prefix(partition)
    after: str | None = f"{prefix}{start}" if start else ""
    found: dict[str, Found] = {}
    while after is not None:
        after = _add_page(feed, partition, found, after, newest)
    return found


def _add_page(feed: Feed, partition: str | None, found: dict[str, Found], after: str, newest: str | None) -> str | None:
    """Add the updates on the page after this key; returns where the next page starts, or None."""
    prefix = feed.prefix(partition)
    page = feed.blackboard.page(prefix, after=after)
    for entry in page.entries:
        name, _, path = entry.key.removeprefix(prefix).partition("/")
        # Only folders of updates are in order: a stray file `20180521` is before `20180521.160000/`.
        if has_update_shape(name) and _is_past(name, newest):
            return None
        if is_update_name(name) and path:
            found.setdefault(name, Found(name)).add(path, entry)
    return None if page.next_after is None else next_page(found, prefix, after, page.next_after)


def _is_past(name: str, newest: str | None) -> bool:
    # Compare folders, as listings do: `20180521.160000.bak/` is before `20180521.160000/`.
    return newest is not None and f"{name}/" > f"{newest}/"


def next_page(found: dict[str, Found], prefix: str, after: str, next_after: str) -> str:
    """The key after which the next page starts, after a page from the key `after` that ended at `next_after`.

    The update at which the page ended is listed again from its start, so that it is seen at one moment: this costs no
    request, and saves reading its manifest. An update of more than a page is marked as split.
    """
    last = next(reversed(found), None)
    if last is None or not next_after.startswith(f"{prefix}{last}/"):
        return next_after
    if f"{prefix}{last}" > after and not found[last].split:
        del found[last]
        return f"{prefix}{last}"
    found[last].split = True
    return next_after


def _resolve(feed: Feed, partition: str | None, end: datetime, newest: str | None, valid: _IsValid) -> Update | None:
    """The newest valid update: a recent one, else from the whole of a short history, else galloping back.

    Each listing goes to the very end: between two requests an update may be published and the one before invalidated.
    A reader that lists only older history the second time would return an update that is neither of the two.
    """
    known = max(end, EARLIEST + RECENT) - RECENT
    recent = updates_from(feed, partition, start=update_name(known), newest=newest)
    update = newest_valid(feed, partition, recent, valid=valid)
    if update is not None:
        return update
    oldest, complete = _beginning(feed, partition, newest=newest)
    if complete:
        return newest_valid(feed, partition, oldest, valid=valid)
    depth = end - begun(min(oldest))
    span = RECENT
    while span < depth:
        span = min(span * GALLOP, depth)
        update = _newest_since(feed, partition, end - span, known, newest, valid)
        if update is not None:
            return update
        known = end - span
    return None


def _newest_since(
    feed: Feed, partition: str | None, low: datetime, high: datetime, newest: str | None, valid: _IsValid
) -> Update | None:
    """The newest valid update begun since `low`, if none was since `high`.

    It halves the span to find the last page of the history, so that it need not list the pages before.
    """
    start, below = low, low
    while high - below > 2 * SECOND:
        found: dict[str, Found] = {}
        more = _add_page(feed, partition, found, f"{feed.prefix(partition)}{update_name(start)}", newest)
        if more is None:
            update = newest_valid(feed, partition, found, valid=valid)
            if update is not None or start == low:
                return update
            high = start
        else:
            below = max(below, begun(max(found)) if found else start)
        start = below + (high - below) / 2
    return newest_valid(
        feed, partition, updates_from(feed, partition, start=update_name(low), newest=newest), valid=valid
    )


def _beginning(feed: Feed, partition: str | None, *, newest: str | None) -> tuple[dict[str, Found], bool]:
    """The first page that shows an update, and whether the history ends on it."""
    prefix = feed.prefix(partition)
    after = f"{prefix}{CONTROL}0" if partition is None else ""
    while True:
        page = feed.blackboard.page(prefix, after=after)
        found: dict[str, Found] = {}
        deeper = passed = False
        for entry in page.entries:
            name, _, path = entry.key.removeprefix(prefix).partition("/")
            shaped = has_update_shape(name)
            if shaped and _is_past(name, newest):
                passed = True
                break
            if is_update_name(name) and path:
                found.setdefault(name, Found(name)).add(path, entry)
            deeper = deeper or (not shaped and is_update_name(path.partition("/")[0]))
        if partition is None and deeper:
            raise MixedFeedError(not_one_level(feed, mixed=bool(found)))
        if passed or page.next_after is None:
            return found, True
        if found:
            return found, False
        after = page.next_after


def not_one_level(feed: Feed, *, mixed: bool) -> str:
    """The message on a feed that has partitions where updates were expected, or both."""
    if mixed:
        return f"{feed.uri} holds updates and partitions at one level: move one of them to a location of its own."
    return f"{feed.uri} has partitions: name one of them (`feed-assets feed ls {feed.arguments()}` lists them)."


def _warn_of_future(update: Update | None, now: datetime) -> Update | None:
    if update is not None and update.begun > now + SKEW:
        _log.warning("%s is dated in the future: is a writer's clock ahead?", update.uri)
    return update
