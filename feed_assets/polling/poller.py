"""A poll: what a partner has that has not landed is fetched, landed, and noted.

Here: the order of these steps. Not here: the partner's place (`places`), what was taken (`taken`), and the landing of
files (`sources.landing`).

A poll may be killed at any point, and any number of polls of a source may run at once: a state of a file is noted only
after it has landed, and a state that lands twice adds nothing. So the next poll takes the files that are not noted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import disk_usage
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

from feed_assets.blackboard.port import Blackboard, InvalidKeyError
from feed_assets.leases.holding import Holding
from feed_assets.leases.on_blackboard import BlackboardLeases
from feed_assets.polling.held import Failure, HeldFiles, Marks
from feed_assets.polling.places import list_files, open_place, polling_of
from feed_assets.polling.port import ChangedError, PartnersFile, Place, PlaceError
from feed_assets.polling.taken import BlackboardIndex, Taken, TakenIndex, lease_of, state_of
from feed_assets.sources.file_names import check_name
from feed_assets.sources.layout import LandingId, name_digest
from feed_assets.sources.plan import sweep_staging
from feed_assets.sources.scratch import SCRATCH_BYTES, TOGETHER, scratch_directory
from feed_assets.sources.source_errors import LandingError, OvertakenError, PassingError
from feed_assets.sources.spec import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from feed_assets.sources.ledger import Landing

LEASE = timedelta(minutes=2)
"""How long a killed poll keeps its files back; a poll at work renews its leases."""

_SHOWN = ("source", "seen", "taken", "replaced", "same", "left", "refused", "ignored")

Land = Callable[[Source, Sequence[Path], Mapping[str, int]], "Iterator[Landing | Exception]"]
"""Lands files of a source, as `land_files` does with these generations as `seen`."""


@dataclass(slots=True)
class Polled:
    """The result of a poll, by names of files.

    `seen` counts the files of the lookback. `taken` landed for the first time, `replaced` with another content. `same`
    have a new time or tag, and the content that landed before. `left` wait for a later poll and `failed` for people,
    each with the reason. People have been told of those `refused` before. Polls leave those `ignored` alone.
    `landings` are the landings of the files taken, replaced and the same.
    """

    source: str
    seen: int = 0
    taken: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    landings: list[Landing] = field(default_factory=list)

    @property
    def failed(self) -> dict[str, str]:
        """The reason of each file that failed."""
        return {name: each.reason for name, each in self.failures.items()}

    @property
    def summary(self) -> dict[str, Any]:
        """All but the landings, as JSON; and how many records landed now, and went to quarantine."""
        new = [each for each in self.landings if not each.already_landed]
        return {
            **{name: getattr(self, name) for name in _SHOWN},
            "failed": self.failed,
            "records": sum(each.landed for each in new),
            "quarantined": sum(sum(each.quarantined.values()) for each in new),
        }

    @property
    def problems(self) -> list[str]:
        """A line for each file that failed."""
        return [text if text.startswith(name) else f"{name}: {text}" for name, text in self.failed.items()]


def open_index(blackboard: Blackboard, table: str = "") -> TakenIndex:
    """The index of this blackboard, or in this table of DynamoDB."""
    index = BlackboardIndex(blackboard)
    if not table:
        return index
    from feed_assets.polling.dynamodb import DynamoDBIndex  # noqa: PLC0415 - loads boto3

    return DynamoDBIndex(index, table)


def landing_by(spark: Callable[[], SparkSession], blackboard: Blackboard, now: Callable[[], datetime]) -> Land:
    """Land files on this blackboard with this Spark, which starts with the first of them."""

    def land(source: Source, files: Sequence[Path], seen: Mapping[str, int]) -> Iterator[Landing | Exception]:
        from feed_assets.sources.landing import land_files  # noqa: PLC0415 - loads Spark's Python side

        return land_files(spark(), blackboard, source, files, now=now(), seen=seen)

    return land


@dataclass(frozen=True, slots=True)
class Poller:
    """Polls sources.

    `now` is the time of the installation, which may be fixed: the lookback ends there. `clock` is the real time.
    `begin` gets each step.
    """

    blackboard: Blackboard
    index: TakenIndex
    land: Land
    now: Callable[[], datetime]
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    wait: Callable[[float], None] = time.sleep
    begin: Callable[[str], None] = lambda _: None

    def poll(self, source: Source, place: Place | None = None) -> Polled:
        """Take the new files of a source. A file that fails keeps no other file back.

        A file that cannot land as it is has `failed` once; later polls do not try it, until it or the source's
        description changes, or a person releases it (see `held`). A file that the partner's place does not give is
        tried by each poll, and fails once for each reason. Without new files, a poll costs the partner's listing, and a
        look at the index. Raises PlaceError if the place
        cannot be listed, and the errors of the index, the blackboard and `land`.
        """
        if place is None:
            with closing(open_place(source)) as opened:
                return self.poll(source, opened)
        polled = Polled(source.key)
        known, due, marks = self._look(source, place, polled)
        if due and self._sweep(source):
            known, due, marks = self._look(source, place, polled)
        if overtaken := self._take(source, place, known, due, polled):
            before = polled.failures
            known, due, marks = self._look(source, place, polled)
            polled.failures = before | polled.failures
            again = self._take(source, place, known, [each for each in due if each.name in overtaken], polled)
            polled.left |= dict.fromkeys(again, "other polls are landing it")
        self._tell_once(source, marks, polled)
        return polled

    def _look(
        self, source: Source, place: Place, polled: Polled
    ) -> tuple[Mapping[str, Taken], Sequence[PartnersFile], Marks]:
        """The landings of files that were taken; the files to take; and the marks of files that are left alone.

        The files to take are those whose newest landing is not of the listed state.
        """
        poll, today = polling_of(source), self.now().date()
        self.begin(f"listing {poll.place}")
        # Before the listing: what lands from now on may be newer.
        known = self.index.taken(source.key, today - timedelta(days=poll.lookback_days))
        files, problems = list_files(place, poll, today)
        polled.seen = len(files) + len(problems)
        polled.failures = {name: Failure(str(problem), final=False) for name, problem in problems.items()}
        due = [each for each in files if each.name not in known or state_of(each) not in known[each.name].states]
        if not due and not problems:
            return known, due, Marks(source)
        marks = HeldFiles(self.blackboard, source).marks(today - timedelta(days=poll.lookback_days))
        polled.ignored = [name for name in (*problems, *(each.name for each in due)) if marks.is_ignored(name)]
        polled.refused = [each.name for each in due if marks.refuses(each) and each.name not in polled.ignored]
        polled.failures = {name: each for name, each in polled.failures.items() if name not in polled.ignored}
        alone = {*polled.ignored, *polled.refused}
        return known, [each for each in due if each.name not in alone], marks

    def _tell_once(self, source: Source, marks: Marks, polled: Polled) -> None:
        """Mark the failures that people are told of now, and leave out those that they were told of before."""
        told = [name for name, each in polled.failures.items() if marks.has(name, each)]
        polled.refused += told
        polled.failures = {name: each for name, each in polled.failures.items() if name not in told}
        landed = [*polled.taken, *polled.replaced, *polled.same]
        lasting = {name: each for name, each in polled.failures.items() if each.told_once}
        if lasting or any(marks.of(name) for name in landed):
            HeldFiles(self.blackboard, source).note(marks, lasting, landed, now=self.clock())

    def _take(
        self, source: Source, place: Place, known: Mapping[str, Taken], due: Sequence[PartnersFile], polled: Polled
    ) -> Sequence[str]:
        """Take these files. Returns the names of those that were overtaken."""
        due = self._settled(due, polling_of(source).settle_seconds, polled)
        if not due:
            return ()
        with Holding(BlackboardLeases(self.blackboard), LEASE, self.clock) as leases:
            work = _Work(self, source, place, known, polled, leases)
            while due:
                due = work.some(due)
        return work.overtaken

    def _settled(self, due: Sequence[PartnersFile], seconds: int, polled: Polled) -> Sequence[PartnersFile]:
        """Leave files that have just changed for a later poll. If one has no time, or a future one, wait `seconds`."""
        now = self.clock()
        first = now - timedelta(seconds=seconds)
        for file in due:
            if seconds and file.modified is not None and first < file.modified <= now:
                polled.left[file.name] = f"it changed at {file.modified:%Y-%m-%d %H:%M:%S}, and may still be written"
        if any(file.modified is None or file.modified > now for file in due):
            self.begin(f"waiting {seconds} s, as files may still be written")
            self.wait(seconds)
        return [file for file in due if file.name not in polled.left]

    def _sweep(self, source: Source) -> bool:
        """Complete landings that were killed days ago. Returns whether there were any.

        Such a landing is now the newest of its name. It may be of an older state than the listed one, so look again.
        """
        completed = sweep_staging(self.blackboard, source.key, now=self.clock()).completed
        for landing in completed:
            file = PartnersFile(landing.file, None, "completed", None, self.now().date())
            self.index.record(source.key, file, landing.id, now=self.clock())
        return bool(completed)


@dataclass(frozen=True, slots=True)
class _Work:
    """The files that one poll takes."""

    poller: Poller
    source: Source
    place: Place
    known: Mapping[str, Taken]
    polled: Polled
    leases: Holding
    overtaken: list[str] = field(default_factory=list)

    def some(self, files: Sequence[PartnersFile]) -> Sequence[PartnersFile]:
        """Take the next files, as many as land together; returns the others."""
        claimed: list[PartnersFile] = []
        fetched: list[tuple[PartnersFile, Path]] = []
        size = 0
        try:
            with scratch_directory("feed-assets-poll-") as scratch:
                for file in files:
                    if not self._claimed(file):
                        continue
                    claimed.append(file)
                    if (path := self._fetched(file, scratch / str(len(claimed)))) is not None:
                        fetched.append((file, path))
                        size += path.stat().st_size
                    if len(fetched) == TOGETHER or size > SCRATCH_BYTES:
                        break
                seen = {name: each.landing.generation for name, each in self.known.items()}
                outcomes = self.poller.land(self.source, [path for _, path in fetched], seen) if fetched else ()
                for (taken, _), outcome in zip(fetched, outcomes, strict=True):
                    self._note(taken, outcome, scratch)
        finally:
            for each in claimed:
                self.leases.release(lease_of(self.source.key, each))
        return files[files.index(file) + 1 :]

    def _claimed(self, file: PartnersFile) -> bool:
        """Take the lease of the file for this poll. If that fails, note why and return False."""
        try:
            check_name(file.name, self.source)
        except LandingError as error:
            self.polled.failures[file.name] = Failure(str(error), file)
            return False
        lease, seen = lease_of(self.source.key, file), self.known.get(file.name)
        try:
            if not self.leases.take(lease):
                self.polled.left[file.name] = (
                    f"another poll is taking it. If that poll was killed, a poll takes the file in {LEASE.seconds} s"
                )
                return False
        except InvalidKeyError as error:  # its name is too long for a key
            self.polled.failures[file.name] = Failure(str(error), file)
            return False
        # Another poll may have taken this state after the look of this one, and given the lease back.
        newest, before = self.poller.index.newest(self.source.key, file), seen.landing.generation if seen else 0
        if newest is None or state_of(file) not in newest.states or newest.landing.generation <= before:
            return True
        self.leases.release(lease)
        self.polled.left[file.name] = "another poll has just taken it"
        return False

    def _fetched(self, file: PartnersFile, folder: Path) -> Path | None:
        """Download the file; its path ends with its name at the place. If that fails, note why and return None."""
        self.poller.begin(f"downloading {file.name}")
        path = folder / file.name
        try:
            path.parent.mkdir(parents=True)
            _require_space(file, folder)
            self.place.download(file, path)
        except ChangedError as error:
            self.polled.left[file.name] = str(error)
        except PlaceError as error:
            self.polled.failures[file.name] = Failure(str(error), file, final=False)
        except OSError as error:
            self.polled.failures[file.name] = Failure(str(error), file, final=False, told_once=False)
        else:
            return path
        with suppress(OSError):  # nothing came, or the disk does not take its name
            path.unlink()
        return None

    def _note(self, file: PartnersFile, outcome: Landing | Exception, scratch: Path) -> None:
        """Note a landing in the index, and its outcome in `polled`."""
        if isinstance(outcome, OvertakenError):
            # The poll that landed it may have been killed before it noted that. Let the next look see it.
            by = LandingId(name_digest(self.source.key, file.name), outcome.generation)
            unknown = replace(file, size=None, tag="overtaken")
            self.poller.index.record(self.source.key, unknown, by, now=self.poller.clock())
            self.overtaken.append(file.name)
            return
        if isinstance(outcome, Exception):
            reason = re.sub(rf"{re.escape(str(scratch))}/\d+/", "", str(outcome))
            final = isinstance(outcome, LandingError) and not isinstance(outcome, PassingError)
            self.polled.failures[file.name] = Failure(reason, file, final=final, told_once=final)
            return
        self.polled.landings.append(outcome)
        try:
            self.poller.index.record(self.source.key, file, outcome.id, now=self.poller.clock())
        except InvalidKeyError as error:  # longer than that of the claim
            self.polled.failures[file.name] = Failure(f"it has landed, and cannot be noted: {error}", file)
            return
        if outcome.already_landed:
            self.polled.same.append(file.name)
        else:
            (self.polled.replaced if outcome.generation > 1 else self.polled.taken).append(file.name)


def _require_space(file: PartnersFile, folder: Path) -> None:
    """Raise OSError if the folder's disk cannot have the file."""
    # Over SFTP, the memory of a download grows with the size that the server shows, before anything comes.
    if (file.size or 0) > (free := disk_usage(folder).free):
        raise OSError(f"it has {file.size:,} bytes, and the disk of {gettempdir()} has {free:,} free")
