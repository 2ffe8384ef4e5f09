"""Which update is latest: the plain rule, in as few requests as listings that only ascend allow.

Here: resolving updates. Not here: the control area; nothing here depends on it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from feed_assets.blackboard import Content, Entry, NotFoundError
from feed_assets.blackboard.listing import list_folders
from feed_assets.file_feed.errors import MixedFeedError, NoValidUpdateError, UpdateChangedError
from feed_assets.file_feed.feed import CONTROL, Feed, File, Update
from feed_assets.file_feed.manifest import INVALIDATED, MANIFEST, MAX_BYTES, manifest, parse_manifest
from feed_assets.file_feed.names import begun, has_update_shape, is_partition_name, is_update_name, update_name
from feed_assets.file_feed.wording import counted

EARLIEST = datetime.min.replace(tzinfo=UTC)
RECENT = timedelta(days=1)
"""How far before now a search for the latest starts: most partitions were published within a day of being read."""

SKEW = timedelta(minutes=1)
"""How far ahead an update may be dated without a warning: several in one second move each other on."""

GALLOP = 8
"""By how much a search widens its span each time nothing valid was found in it."""

SECOND = timedelta(seconds=1)

ATTEMPTS = 3
"""How often an update is resolved again where what was listed has changed when it is looked at."""

REMEMBERED = 100_000
"""How many manifests a process remembers that it had to read."""

TICK = timedelta(seconds=3)
"""More than a tick of a disk's clock: a file that was written in place within it may change and keep its tag."""

_STATED: dict[tuple[str, str, datetime], int | None] = {}
"""What a manifest states, by its URI, tag and time, where the tag does not tell."""

_log = logging.getLogger("feed_assets.file_feed")
_Result = TypeVar("_Result")


class MovedError(Exception):
    """A manifest is not there any more, or is another, since it was listed: what was listed is to be listed again."""


@dataclass(slots=True)
class Found:
    """An update as a listing shows it: its files, and its manifest if it has one.

    `markers` are the directory markers below it, which are no files. `split` where a page of the listing ended at it,
    so that not all of it was seen at one moment.
    """

    name: str
    files: list[File] = field(default_factory=list)
    manifest: Entry | None = None
    markers: list[str] = field(default_factory=list)
    split: bool = False

    @property
    def paths(self) -> list[str]:
        """Everything in it save the manifest."""
        return [*(file.path for file in self.files), *self.markers]

    def add(self, path: str, entry: Entry) -> None:
        """Take one of its objects into account."""
        if path == MANIFEST:
            self.manifest = entry
        elif path.endswith("/"):
            self.markers.append(path)
        else:
            self.files.append(File(path, entry.size, entry.tag))

    def update(self, feed: Feed, partition: str | None) -> Update:
        """The update these files make, valid or not."""
        return Update(feed, partition, self.name, tuple(self.files))


def latest(feed: Feed, partition: str | None = None, *, now: datetime, as_of: datetime | None = None) -> Update | None:
    """The newest valid update of a partition, or None where there is none.

    With `as_of`, the newest among those begun at or before that time. Takes one LIST where what was begun within a
    day before `now` (or `as_of`) holds a valid update and fits a page, whatever the length of the history.
    Raises MixedFeedError where partitions lie at this level, too, and it came to look at the whole history: where a
    recent update is valid it does not, as looking for them would take another request of every reader.
    """
    end, newest = as_of or now, update_name(as_of) if as_of else None
    for _ in range(ATTEMPTS):
        with suppress(MovedError):
            return _warn_of_future(_resolve(feed, partition, end, newest, valid_as_listed), now)
    return _warn_of_future(_resolve(feed, partition, end, newest, is_valid), now)


def require_latest(feed: Feed, partition: str | None = None, *, now: datetime, as_of: datetime | None = None) -> Update:
    """The latest valid update. Raises NoValidUpdateError, which says what is there instead."""
    update = latest(feed, partition, now=now, as_of=as_of)
    if update is not None:
        return update
    at = f" as of {as_of:%Y-%m-%d %H:%M:%S}" if as_of else ""
    there = [found.name for found in list_updates(feed, partition)]
    instead = _instead(there, update_name(as_of) if as_of else None)
    command = f"feed-assets feed ls {feed.uri}" + (f" --partition {partition}" if partition else "")
    raise NoValidUpdateError(f"{feed.title(partition)} has no valid update{at}. {instead}; see why with `{command}`.")


def _instead(there: Sequence[str], newest: str | None) -> str:
    """What is there where nothing up to `newest` is valid."""
    if not there:
        return "There is nothing"
    invalid = [name for name in there if not _is_past(name, newest)]
    reasons = []
    if invalid:
        reasons.append(
            f"Update {invalid[0]} is not valid"
            if len(invalid) == 1
            else f"{len(invalid)} updates are not valid, the newest is {invalid[-1]}"
        )
    if later := len(there) - len(invalid):
        reasons.append(f"{counted(later, 'update')} {'was' if later == 1 else 'were'} begun later")
    return ", and ".join(reasons)


def is_latest(update: Update, *, now: datetime) -> bool:
    """Whether the update that is held is still the one in force, with the same files: one LIST.

    The listing starts at the update itself, so that its own invalidation is seen.
    """
    del now  # what is held says where to start, whatever the time is
    found = updates_from(update.feed, update.partition, start=update.name)
    return newest_valid(update.feed, update.partition, found) == update


def read_manifest(feed: Feed, partition: str | None, name: str) -> Content | None:
    """The manifest of an update, whatever it says, or None: one GET."""
    try:
        return feed.blackboard.read(f"{feed.update_prefix(partition, name)}{MANIFEST}", limit=MAX_BYTES + 1)
    except NotFoundError:
        return None


def list_updates(feed: Feed, partition: str | None = None) -> list[Found]:
    """Every update of a partition, valid or not, oldest first: the whole history is listed."""
    return list(updates_from(feed, partition, start=f"{CONTROL}0" if partition is None else "").values())


def is_valid(feed: Feed, found: Found) -> bool:
    """The plain rule: the manifest states the number of the other files. Where its tag cannot tell, it is read."""
    try:
        return valid_as_listed(feed, found)
    except MovedError:
        return False


def valid_as_listed(feed: Feed, found: Found) -> bool:
    """The same; raises MovedError where the manifest, when it is read, is not the one that was listed.

    A process reads a manifest once, as long as its tag and its time stay.
    """
    entry = found.manifest
    if entry is None or entry.size > MAX_BYTES or entry.tag == feed.blackboard.tag_of(INVALIDATED):
        return False
    # A listing of two pages may show the manifest of before and the files of after a removal: then it is read, too.
    if not found.split and feed.blackboard.tag_of(manifest(len(found.files))) == entry.tag:
        return True
    read_as = (feed.blackboard.uri(entry.key), entry.tag, entry.modified)
    if not found.split and read_as in _STATED:
        return _STATED[read_as] == len(found.files)
    try:
        content = feed.blackboard.read(entry.key, limit=MAX_BYTES + 1)
    except NotFoundError:
        raise MovedError(entry.key) from None
    if content.entry.tag != entry.tag:
        raise MovedError(entry.key)
    stated = parse_manifest(content.data)
    if entry.modified < datetime.now(UTC) - TICK:
        if len(_STATED) >= REMEMBERED:
            _STATED.clear()
        _STATED[read_as] = stated
    return stated == len(found.files)


def newest_valid(
    feed: Feed, partition: str | None, found: Mapping[str, Found], *, valid: Callable[[Feed, Found], bool] = is_valid
) -> Update | None:
    """The newest valid one among these updates of a partition, judged by `valid`."""
    for name in sorted(found, reverse=True):
        if valid(feed, found[name]):
            return found[name].update(feed, partition)
    return None


def partitions(feed: Feed) -> list[str]:
    """The partitions that hold anything, ascending; none where the feed holds its updates itself."""
    return [name for name in list_folders(feed.blackboard, feed.root) if is_partition_name(name)]


def read_resolved(
    feed: Feed,
    partition: str | None,
    consume: Callable[[Update], _Result],
    *,
    now: datetime,
    attempts: int = ATTEMPTS,
) -> _Result:
    """Resolve the latest update and let `consume` read exactly its files.

    A file that is gone or changed on the way (`consume` raises NotFoundError) makes it resolve again from scratch:
    two updates are never mixed. Raises NoValidUpdateError, or UpdateChangedError after so many attempts.
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


def read_file(update: Update, file: File) -> bytes:
    """The bytes of one file as it was resolved. Raises NotFoundError where it is gone, or is another by now."""
    content = update.feed.blackboard.read(update.key(file.path))
    if content.entry.tag != file.tag:
        message = f"{update.feed.blackboard.uri(update.key(file.path))} changed since it was resolved: resolve again."
        raise NotFoundError(message)
    return content.data


@dataclass(frozen=True, slots=True)
class _Beginning:
    """The start of a partition's history; `complete` where that is all of it."""

    updates: dict[str, Found]
    complete: bool


def updates_from(feed: Feed, partition: str | None, *, start: str, newest: str | None = None) -> dict[str, Found]:
    """The updates named from `start` on, and not after `newest`, oldest first: a LIST for each page of keys."""
    prefix = feed.prefix(partition)
    after: str | None = f"{prefix}{start}" if start else ""
    found: dict[str, Found] = {}
    while after is not None:
        after = _add_page(feed, partition, found, after, newest)
    return found


def _add_page(feed: Feed, partition: str | None, found: dict[str, Found], after: str, newest: str | None) -> str | None:
    """Add the updates on the page after this key; where the next page starts, None where there is none to look at."""
    prefix = feed.prefix(partition)
    page = feed.blackboard.page(prefix, after=after)
    for entry in page.entries:
        name, path = _name_and_path(entry.key.removeprefix(prefix))
        # Only what is shaped like an update is in order: a stray file `20180521` is before `20180521.160000/`.
        if has_update_shape(name) and _is_past(name, newest):
            return None
        if is_update_name(name) and path:
            found.setdefault(name, Found(name)).add(path, entry)
    return None if page.next_after is None else next_page(found, prefix, after, page.next_after)


def _is_past(name: str, newest: str | None) -> bool:
    # Compared as folders, as a listing shows `20180521.160000.bak/` before `20180521.160000/`.
    return newest is not None and f"{name}/" > f"{newest}/"


def next_page(found: dict[str, Found], prefix: str, after: str, next_after: str) -> str:
    """Where to go on when the page after the key `after` has ended at `next_after`.

    The update at which it ended is listed again from its start, so that all of it is seen at one moment: no request
    more, and its manifest needs no reading. One that fills more than a page cannot be, and is marked as split.
    """
    last = next(reversed(found), None)
    if last is None or not next_after.startswith(f"{prefix}{last}/"):
        return next_after
    if f"{prefix}{last}" > after and not found[last].split:
        del found[last]
        return f"{prefix}{last}"
    found[last].split = True
    return next_after


def _resolve(
    feed: Feed, partition: str | None, end: datetime, newest: str | None, valid: Callable[[Feed, Found], bool]
) -> Update | None:
    """The newest valid update: a recent one, else from the whole of a short history, else galloping back.

    Each listing goes to the very end again. An update may be published, and the one before taken out of force, between
    two requests; a reader that looked at older history alone would then fall back to what neither of them is.
    """
    known = max(end, EARLIEST + RECENT) - RECENT
    recent = updates_from(feed, partition, start=update_name(known), newest=newest)
    update = newest_valid(feed, partition, recent, valid=valid)
    if update is not None:
        return update
    beginning = _beginning(feed, partition, newest=newest)
    if beginning.complete:
        return newest_valid(feed, partition, beginning.updates, valid=valid)
    depth = end - begun(min(beginning.updates))
    span = RECENT
    while span < depth:
        span = min(span * GALLOP, depth)
        update = _newest_since(feed, partition, end - span, known, newest, valid)
        if update is not None:
            return update
        known = end - span
    return None


def _newest_since(
    feed: Feed,
    partition: str | None,
    low: datetime,
    high: datetime,
    newest: str | None,
    valid: Callable[[Feed, Found], bool],
) -> Update | None:
    """The newest valid update that was begun since `low`; it is known that none was since `high`.

    Most of a long history lies before its last page and need not be listed: that page is looked for by halving.
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


def _beginning(feed: Feed, partition: str | None, *, newest: str | None) -> _Beginning:
    """The first page, from the very beginning, that shows an update: of a short history it is the whole."""
    prefix = feed.prefix(partition)
    after = f"{prefix}{CONTROL}0" if partition is None else ""
    while True:
        page = feed.blackboard.page(prefix, after=after)
        found: dict[str, Found] = {}
        deeper, passed = False, False
        for entry in page.entries:
            name, path = _name_and_path(entry.key.removeprefix(prefix))
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
            return _Beginning(found, complete=True)
        if found:
            return _Beginning(found, complete=False)
        after = page.next_after


def not_one_level(feed: Feed, *, mixed: bool) -> str:
    """What to tell of a feed that has partitions where updates were looked for, or both."""
    if mixed:
        return f"{feed.uri} holds updates and partitions at one level: move one of them to a location of its own."
    return f"{feed.uri} has partitions: name one of them (`feed-assets feed ls {feed.uri}` lists them)."


def _warn_of_future(update: Update | None, now: datetime) -> Update | None:
    if update is not None and update.begun > now + SKEW:
        _log.warning("%s is dated in the future: is a writer's clock ahead?", update.uri)
    return update


def _name_and_path(rest: str) -> tuple[str, str]:
    name, _, path = rest.partition("/")
    return name, path
