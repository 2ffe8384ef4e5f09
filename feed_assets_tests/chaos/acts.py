"""What the workers do: publish, read, invalidate, remove, land and watch, through the library and by the plain rule.

Here: single acts, and what they note in their histories. Not here: killing workers (see `run`), and judging histories
(see `checker`). An act notes `begin` before its first request, and `end` after its last; an error of the library is
noted as `failed`.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, NotFoundError, UnavailableError
from feed_assets.file_feed import (
    CheckOutcome,
    Facts,
    Feed,
    NoValidUpdateError,
    Policy,
    Position,
    Staged,
    Update,
    Watch,
    carry_out,
    claim,
    continue_scan,
    drop_ended_pins,
    drop_old_entries,
    invalidate,
    is_update_name,
    latest,
    log_page,
    look_at_logged,
    pin,
    plan,
    publish,
    publish_files,
    read_file,
    read_resolved,
    reject,
    stage,
    staged_files,
)
from feed_assets.sources.layout import (
    LandingId,
    attempt_prefix,
    attempted_prefix,
    landed_by,
    landed_path,
    raw_file_key,
    sent_key,
    staging_prefix,
)
from feed_assets.sources.ledger import Landing, find, newest_landing
from feed_assets.sources.plan import (
    ABANDONED,
    Plan,
    clear,
    complete,
    read_plan,
    sweep_staging,
    tidy,
    write_plan,
)
from feed_assets.sources.raw import raw_days
from feed_assets_tests.chaos.history import History
from feed_assets_tests.chaos.killing import KillingBlackboard
from feed_assets_tests.chaos.proof import Part, content, parts_of

LOCATION: Final = "clean-ads/v1.0"
PARTITIONS: Final = tuple(f"2018-05-{day}" for day in range(20, 28))
"""So many that a partition gets less than an update each second: else their names would run ahead of the clock."""

SOURCE: Final = "shown/portal"
LANDED_DAYS: Final = ("2019-11-24", "2019-11-25")

LONGEST_WRITE: Final = timedelta(seconds=3)
POLICY: Final = Policy(keep=2, younger_than=timedelta(0), longest_write=LONGEST_WRITE)
SCAN_EVERY: Final = timedelta(seconds=2)
PINNED_FOR: Final = timedelta(seconds=5)

FILES: Final = (0, 1, *range(2, 6), *range(2, 6))
"""The numbers of files that updates have. Only several files can be torn or mixed, so these are more frequent."""

PUBLISH_ATTEMPTS: Final = 3
PASSED: Final = (CheckOutcome("rows", passed=True, severity="ERROR"),)
FAILED: Final = (CheckOutcome("rows", passed=False, severity="ERROR"),)


@dataclass(frozen=True, slots=True)
class Worker:
    """What a worker works with. `folder` is for its local files, and outlives it."""

    board: KillingBlackboard
    history: History
    random: random.Random
    folder: Path
    name: str

    @property
    def feed(self) -> Feed:
        """The feed of all workers."""
        return Feed(self.board, LOCATION)

    def partition(self) -> str:
        """Any of the partitions."""
        return self.random.choice(PARTITIONS)

    def end(self, **fields: Any) -> None:
        """The act is acknowledged."""
        self.history.note("end", steps=self.board.steps, **fields)


Act = Callable[[Worker], None]


def now() -> datetime:
    """The time by the workers' clock."""
    return datetime.now(UTC)


# --- publishing -------------------------------------------------------------------------------------------------------


def new_attempt(worker: Worker, kind: str, **fields: Any) -> tuple[str, list[Part]]:
    """A partition, and the files of a new update for it; the act begins."""
    partition = worker.partition()
    attempt = f"{worker.name}-{worker.history.act}"
    of = worker.random.choice(FILES)
    worker.history.begin(kind, partition=partition, attempt=attempt, files=of, **fields)
    return partition, [Part(attempt, number, of) for number in range(of)]


def file_name(part: Part) -> str:
    """The name of a file, which no other attempt uses."""
    return f"part-{part.part}-{part.attempt}"


def attempts_of(update: Update) -> list[str]:
    """The attempts that wrote the files of an update, by their names."""
    return sorted({file.path.split("-", 2)[2] for file in update.files if file.path.startswith("part-")})


def publish_local_files(worker: Worker) -> None:
    """Publish local files in one call."""
    partition, parts = new_attempt(worker, "publish")
    sources = [worker.folder / file_name(part) for part in parts]
    for source, part in zip(sources, parts, strict=True):
        source.write_bytes(content(part))
    try:
        update = publish_files(worker.feed, partition, sources, now=now(), owner=worker.name)
    finally:
        for source in sources:
            source.unlink()
    worker.end(partition=partition, name=update.name)


def stage_update(worker: Worker, partition: str, parts: list[Part]) -> Staged:
    """Claim, write and stage an update, as an engine does."""
    claimed = claim(worker.feed, partition, now=now(), owner=worker.name)
    for part in parts:
        # No other writer uses this name, so an object that is there is this one, and the first answer was lost.
        with suppress(AlreadyExistsError):
            worker.board.create(f"{claimed.prefix}{file_name(part)}", content(part))
    return stage(claimed, staged_files(claimed, len(parts)), Facts(run_id=worker.name), now=now())


def publish_audited(worker: Worker) -> None:
    """Stage an update, audit it, publish it; ask again where storage did not answer."""
    partition, parts = new_attempt(worker, "publish")
    staged = stage_update(worker, partition, parts)
    for attempt in range(PUBLISH_ATTEMPTS):
        try:
            update = publish(staged, now=now(), checks=PASSED)
            break
        except UnavailableError:
            if attempt + 1 == PUBLISH_ATTEMPTS:
                raise
    worker.end(partition=partition, name=update.name)


def reject_audited(worker: Worker) -> None:
    """Stage an update whose audit fails."""
    partition, parts = new_attempt(worker, "reject")
    staged = stage_update(worker, partition, parts)
    reject(staged, reason="too few rows", now=now(), checks=FAILED)
    worker.end(partition=partition, name=staged.claim.name)


# --- reading ----------------------------------------------------------------------------------------------------------


def read_latest(worker: Worker) -> None:
    """Resolve the latest update through the library, and read its files."""
    partition = worker.partition()

    def consume(update: Update) -> tuple[str, list[Part | None]]:
        return update.name, parts_of([read_file(update, file) for file in update.files])

    worker.history.begin("read", partition=partition)
    try:
        name, parts = read_resolved(worker.feed, partition, consume, now=now(), attempts=20)
    except NoValidUpdateError:
        worker.end(partition=partition, name=None, parts=[])
    else:
        worker.end(partition=partition, name=name, parts=parts)


def read_plainly(worker: Worker) -> None:
    """Read the latest update by the plain rule alone."""
    partition = worker.partition()
    worker.history.begin("read", partition=partition, plain=True)
    while True:
        with suppress(NotFoundError):  # it was removed meanwhile: look again
            name, files = next(plain_updates(worker.board, f"{LOCATION}/{partition}/"), (None, []))
            break
    worker.end(partition=partition, name=name, parts=parts_of(files))


def read_history(worker: Worker) -> None:
    """Read every valid update of a partition by the plain rule alone, as far as none is removed meanwhile."""
    partition, read = worker.partition(), []
    worker.history.begin("read history", partition=partition)
    with suppress(NotFoundError):
        for name, files in plain_updates(worker.board, f"{LOCATION}/{partition}/"):
            read.append([name, parts_of(files)])
    worker.end(partition=partition, updates=read)


def plain_updates(board: Blackboard, prefix: str) -> Iterator[tuple[str, list[bytes]]]:
    """The updates whose manifest states the number of their files, newest first, and the contents of these files."""
    updates: dict[str, list[str]] = {}
    for entry in list_all(board, prefix):
        name, _, path = entry.key.removeprefix(prefix).partition("/")
        if is_update_name(name):
            updates.setdefault(name, []).append(path)
    for name in sorted(updates, reverse=True):
        paths = [path for path in updates[name] if path != "_SUCCESS"]
        if "_SUCCESS" in updates[name] and board.read(f"{prefix}{name}/_SUCCESS").data == b"%d" % len(paths):
            yield name, [board.read(f"{prefix}{name}/{path}").data for path in paths]


def read_pinned(worker: Worker) -> None:
    """Pin the latest update, and read it twice before the pin ends."""
    partition = worker.partition()
    worker.history.begin("pin", partition=partition)
    until, held = now() + PINNED_FOR, latest(worker.feed, partition, now=now())
    if held is None:
        worker.end(partition=partition, name=None, lost=False)
        return
    pin(worker.feed, partition, held.name, until=until, holder=worker.name)
    worker.history.note("pinned", name=held.name)
    lost, parts = False, None
    for _ in range(2):
        try:
            parts = parts_of([read_file(held, file) for file in held.files])
        except NotFoundError:
            lost |= now() < until
    worker.end(partition=partition, name=held.name, lost=lost, parts=parts)


# --- taking out of force, and removing --------------------------------------------------------------------------------


def invalidate_latest(worker: Worker, *, plainly: bool | None = None) -> None:
    """Invalidate the latest update through the library, or as a plain program does: by adding an empty file."""
    partition = worker.partition()
    if plainly is None:
        plainly = worker.random.random() < 0.5
    worker.history.begin("choose", partition=partition)
    update = latest(worker.feed, partition, now=now())
    if update is None:
        return
    worker.history.begin(
        "invalidate", partition=partition, name=update.name, attempts=attempts_of(update), plain=plainly
    )
    if plainly:
        with suppress(AlreadyExistsError):
            worker.board.create(f"{update.prefix}invalidated", b"")
    else:
        invalidate(worker.feed, partition, update.name, reason="wrong", author=worker.name, now=now())
    worker.end(partition=partition, name=update.name)


def remove_old(worker: Worker) -> None:
    """Retention."""
    worker.history.begin("remove")
    removals = plan(worker.feed, POLICY, now=now(), recovering=True)
    worker.history.note("planned", updates=[[each.partition, each.update, each.valid] for each in removals])
    outcomes = carry_out(worker.feed, removals, now=now())
    drop_ended_pins(worker.feed, now=now())
    drop_old_entries(worker.feed, now=now())
    worker.end(removed=sum(outcome.removed for outcome in outcomes))


# --- landing ----------------------------------------------------------------------------------------------------------


def landing_of(number: int) -> Landing:
    """What landing the partner's file with this number results in."""
    digest = hashlib.sha256(f"file {number}".encode()).hexdigest()[:16]
    hours = tuple(f"{LANDED_DAYS[each % 2]}/{(number + each) % 24:02}" for each in range(2 + number % 3))
    return Landing(
        source=SOURCE,
        file=f"{number}.csv",
        sha256=digest,
        digest=digest,
        read=len(hours),
        landed=len(hours),
        filtered=0,
        malformed=0,
        quarantined={},
        quarantine_key=None,
        partitions=tuple(sorted(hours)),
        records=(1,) * len(hours),
        days=LANDED_DAYS,
    )


def land_file(worker: Worker) -> None:
    """Land a partner's file by the storage steps of a landing; another worker may land, or have landed, the same."""
    landing = landing_of(worker.random.randrange(1000) // 5)
    worker.history.begin("land", digest=landing.digest)
    staging = staging_prefix(SOURCE, landing.id)
    if not newest_landing(worker.board, SOURCE, landing.digest):
        try:
            planned = read_plan(worker.board, staging)
            if planned is None:
                staged = _staged(worker, landing)
                planned = write_plan(worker.board, staging, staged)
                if planned.staged != staged.staged:
                    clear(worker.board, staged.staged)
            complete(worker.board, planned, now=now())
        except NotFoundError:
            if find(worker.board, SOURCE, landing.id) is None:
                # The sweeper took this worker for dead, and removed its staging.
                clear(worker.board, staging)
                raise
    tidy(worker.board, landing)
    worker.end(digest=landing.digest)


def _staged(worker: Worker, landing: Landing) -> Plan:
    staged = attempted_prefix(attempt_prefix(SOURCE, uuid4().hex), landing.id)
    copies = []
    for hour in landing.partitions:
        copies.append((f"{staged}{hour}", raw_key(landing.id, hour)))
        with suppress(AlreadyExistsError):  # the names are this attempt's own
            worker.board.create(copies[-1][0], raw_content(landing.id, hour))
    copies.append((f"{staged}sent", sent_key(SOURCE, landing.digest)))
    with suppress(AlreadyExistsError):
        worker.board.create(copies[-1][0], b"as it was sent")
    return Plan(landing, tuple(copies), staged)


def raw_key(landing: LandingId, hour: str) -> str:
    """The key of the raw file of a landing in an hour, `YYYY-MM-DD/HH`."""
    return raw_file_key(SOURCE, hour[:10], landed_path(hour[11:], landing, 1))


def raw_content(landing: LandingId, hour: str) -> bytes:
    """The content of that file."""
    return f"{landing} {hour}".encode()


def sweep(worker: Worker) -> None:
    """Complete or remove landings that were killed: those without a write for as long as the longest write."""
    worker.history.begin("sweep")
    swept = sweep_staging(worker.board, SOURCE, now=now() + ABANDONED - LONGEST_WRITE)
    worker.end(completed=len(swept.completed), removed=swept.removed)


def read_raw(worker: Worker) -> None:
    """Read which hours of which landings count."""
    worker.history.begin("read raw")
    worker.end(landings=landed_hours(worker.board))


def landed_hours(board: Blackboard) -> dict[str, list[str]]:
    """Digest -> the hours that count of each landing."""
    hours: dict[str, list[str]] = {}
    for (_, day), read in raw_days(board, [SOURCE], date.min, date.max).items():
        for file in read.files:
            hours.setdefault(str(landed_by(file.path)), []).append(f"{day}/{file.path[:2]}")
    return hours


# --- watching ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Watched:
    """What a watcher keeps between ticks: its place in the feed, and the last reported update of each partition."""

    watch: Watch
    known: Mapping[str, str]

    @classmethod
    def load(cls, path: Path) -> Watched:
        """What the last complete tick left."""
        if not path.exists():
            return cls(Watch(Position.at(now())), {})
        kept = json.loads(path.read_bytes())
        return cls(Watch.from_plain(kept["watch"], now=now()), kept["known"])

    def save(self, path: Path) -> None:
        """Keep it: all or nothing."""
        new = path.with_suffix(".new")
        new.write_text(json.dumps({"watch": self.watch.to_plain(), "known": dict(self.known)}))
        os.replace(new, path)  # noqa: PTH105 - the same as Path.replace


def watch(worker: Worker) -> None:
    """A tick of the watcher that all workers of this slot continue."""
    tick(worker, worker.folder / "watched.json", SCAN_EVERY)


def tick(worker: Worker, kept: Path, interval: timedelta) -> None:
    """Read the log, scan if a scan is due, report what is new. It is kept only after it was reported."""
    before = Watched.load(kept)
    known = dict(before.known)
    watcher = kept.parent.name
    worker.history.begin("watch", watcher=watcher)

    def report(looks: Any) -> None:
        for look in looks:
            for change in look.changes:
                worker.history.note(
                    "reported",
                    watcher=watcher,
                    change=change.kind,
                    partition=change.partition,
                    name=change.name,
                    in_force=change.update and change.update.name,
                    attempts=attempts_of(change.update) if change.update else [],
                )
                if change.update is None:
                    known.pop(change.partition or "", None)
                else:
                    known[change.partition or ""] = change.update.name

    page = log_page(worker.feed, before.watch.position, now=now())
    report(look_at_logged(worker.feed, page.new, known, now=now()))
    after = replace(before.watch, position=page.position_before(None)).scanning(interval, now=now())
    if after.place is not None:
        report(continue_scan(worker.feed, after, dict(known), now=now()))
        after = replace(after, place=None)
    Watched(after, known).save(kept)
    worker.end(watcher=watcher)
