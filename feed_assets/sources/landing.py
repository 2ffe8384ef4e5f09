"""Putting a partner's files into raw hourly partitions, all of a file or nothing.

Here: the steps, and their order. A landing copies files to staging, lets Spark parse them there, and writes for each a
plan of the copies to make, which it then carries out (see `plan`). Not here: staging and Spark's job (see `staging`),
formats (see `records`), and the place of each record (see `placing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import SparkSession

from feed_assets.blackboard.location import local_directory, readable_uris
from feed_assets.blackboard.port import Blackboard, NotFoundError
from feed_assets.engine.session import SESSION_SETTINGS, new_session
from feed_assets.engine.spark_schemas import NANOS_AS_LONG
from feed_assets.sources.absence import files_gone
from feed_assets.sources.expressions import check_expressions, named_columns, nearest
from feed_assets.sources.layout import LandingId, content_digest, sent_key, staging_prefix
from feed_assets.sources.ledger import Landing, find, newest_landing
from feed_assets.sources.partner_file import PartnerFile, inspect
from feed_assets.sources.plan import Plan, clear, complete, read_plan, tidy, write_plan
from feed_assets.sources.records import LINE_SETTINGS
from feed_assets.sources.scratch import SCRATCH_BYTES, TOGETHER, scratch_directory
from feed_assets.sources.source_errors import LandingError, OvertakenError, PassingError
from feed_assets.sources.spec import Source
from feed_assets.sources.staging import Due, stage

LANDING_SETTINGS = {
    **SESSION_SETTINGS,
    **LINE_SETTINGS,
    # Adaptive execution would leave out empty stages, and with them their counts.
    "spark.sql.adaptive.enabled": "false",
    # One file an hour.
    "spark.sql.files.maxRecordsPerFile": "0",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    NANOS_AS_LONG: "true",
}

Delivery = Path | Landing
"""A partner's file; or an earlier landing, whose file was kept, to land it again."""


def land(
    spark: SparkSession,
    blackboard: Blackboard,
    source: Source,
    file: Delivery,
    *,
    now: datetime,
    again: bool = False,
    any_hours: bool = False,
) -> Landing:
    """Put the records of one file into the source's raw hourly partitions, as `land_files` does; raise its error."""
    (landing,) = land_files(spark, blackboard, source, [file], now=now, again=again, any_hours=any_hours)
    if isinstance(landing, Exception):
        raise landing
    return landing


def land_files(
    spark: SparkSession,
    blackboard: Blackboard,
    source: Source,
    files: Sequence[Delivery],
    *,
    now: datetime,
    again: bool = False,
    any_hours: bool = False,
    seen: Mapping[str, int] | None = None,
    begin: Callable[[str, Sequence[Delivery]], None] = lambda *_: None,
) -> Iterator[Landing | Exception]:
    """Put the records of each file into the source's raw hourly partitions by event time.

    Yields for each file its landing, or its error. After a LandingError nothing of the file has landed; after any other
    error, land the file again. Up to `TOGETHER` files with the same columns share a Spark job. `begin` gets each step
    and its files.

    Records without a usable time go to quarantine; records that do not pass the source's filter are only counted. A
    usable time is from 1970 to a day after `now`, the landing time in the ledger. The file is kept as it was sent,
    under its own name.

    Content that landed for the source before adds nothing, whatever the name and compression of the file. If an earlier
    landing of it was killed and has a plan, that plan is completed, by the description that it was made with; the
    result names that description. With `again`, the content lands anew if the earlier landing `is_outdated` or its raw
    files are gone. The new landing replaces the earlier ones at once: readers see either. Days in which only earlier
    landings had records get an empty file, so that these days change too.

    In a polled source, a file replaces the last landing of its name if that had another content; the same content adds
    nothing. `seen` has the generation of the last landing of each name when the files were read. A file does not land
    if its name has a newer landing by now: the error is an OvertakenError. So older bytes never replace newer ones.
    Content that landed before the source was polled adds nothing.

    A file with records in more hours than the source takes does not land, as its times are likely wrong. With
    `any_hours`, it lands.

    A LandingError says that the file cannot be read, lacks a column that the source needs, or was not kept. Raises
    SpecError if Spark does not take an expression of the source; then nothing has landed.
    """
    source.require_usable()
    session = _session(spark)
    check_expressions(session, source)
    landings, remaining = _Landings(session, blackboard, source, now, again, any_hours, seen, begin), iter(files)
    while True:
        with scratch_directory("feed-assets-land-") as scratch:
            outcomes = landings.some(remaining, scratch)
        if not outcomes:
            return
        yield from outcomes


def is_outdated(landing: Landing, source: Source, now: datetime) -> bool:
    """Whether landing the file again changes the result: the description changed, or future times became usable."""
    usable_now = landing.future_until is not None and landing.future_until <= now
    return usable_now or landing.description != source.landing_digest


@dataclass(frozen=True, slots=True)
class _Landings:
    """Landings of files of one source, with the parameters of `land_files`."""

    session: SparkSession
    blackboard: Blackboard
    source: Source
    now: datetime
    again: bool
    any_hours: bool
    seen: Mapping[str, int] | None
    begin: Callable[[str, Sequence[Delivery]], None]

    def some(self, files: Iterator[Delivery], scratch: Path, step: str = "reading") -> list[Landing | Exception]:
        """Land the next files, as many as share a Spark job and fit into the scratch directory; none at the end."""
        taken: list[Delivery] = []
        outcomes: dict[int, Landing | Exception] = {}
        due: dict[int, Due] = {}
        for number, file in enumerate(islice(files, TOGETHER)):
            taken.append(file)
            self.begin(step, [file])
            try:
                found = self._look(file, scratch)
            except Exception as error:  # noqa: BLE001 - the other files land
                outcomes[number] = error
                continue
            if isinstance(found, Landing):
                outcomes[number] = found
            elif all(found.landing != each.landing for each in due.values()):
                due[number] = found
            if _bytes_in(scratch) > SCRATCH_BYTES:
                break
        outcomes |= self._land(due, taken)
        for number, file in enumerate(taken):
            # Another file of this call had the same content; or another process was faster, with another description.
            if number not in outcomes or (
                number in due and self._is_to_land_again(file, due[number], outcomes[number])
            ):
                (outcomes[number],) = self.some(iter([file]), scratch, "reading again")
        return [outcomes[number] for number in range(len(taken))]

    def _look(self, file: Delivery, scratch: Path) -> Landing | Due:
        """The landing that this content has already, or what is due."""
        folder = Path(mkdtemp(dir=scratch))
        if isinstance(file, Landing):
            sent = inspect(self._fetch(file, folder), self.source, folder, name=file.file)
        else:
            sent = inspect(file, self.source, folder)
        digests = [sent.digest(self.source.key)]
        if self.source.poll is not None:
            digests.insert(0, sent.name_digest(self.source.key))
        found = (newest_landing(self.blackboard, self.source.key, digest) for digest in digests)
        before = next(filter(None, found), None)
        if before is None and self.seen is not None and sent.name in self.seen:
            raise LandingError(
                f"{sent.name}: an earlier content of it landed before {self.source.key} was polled, and would not be "
                "replaced; describe the polled place as a source with another name"
            )
        if before is not None:
            # Tidy even before a new landing: that one records only this landing's days.
            tidy(self.blackboard, before)
            if not self._is_due(file, sent, before):
                return replace(before, already_landed=True)
        landing = LandingId(before.digest, before.generation + 1) if before else LandingId(digests[0])
        plan = read_plan(self.blackboard, staging_prefix(self.source.key, landing))
        if plan is None:
            _check_columns(self.source, self.session, sent)
        return Due(sent, landing, before, plan, self.any_hours)

    def _fetch(self, landing: Landing, folder: Path) -> Path:
        """The file that was kept of a landing, or a copy of it. Raises LandingError if it was not kept."""
        key = sent_key(landing.source, content_digest(landing.source, landing.sha256))
        (uri,) = readable_uris(self.blackboard, [key])
        try:
            kept = local_directory(uri)
            if kept is None:
                self.blackboard.download(key, folder / "kept")
                return folder / "kept"
            if kept.is_file():
                return kept
        except NotFoundError:
            pass
        raise LandingError(
            f"{landing.file} was not kept ({uri} is not there); "
            f"name the file itself: `feed-assets land --again {self.source.key} FILE`"
        )

    def _again(self, file: Delivery) -> bool:
        return self.again or isinstance(file, Landing)

    def _is_due(self, file: Delivery, sent: PartnerFile, last: Landing) -> bool:
        """Whether a file lands although its content, or its name, landed before. Raises OvertakenError."""
        if self._is_replaced(sent, last):
            if self.seen is not None and self.seen.get(sent.name, 0) != last.generation:
                raise OvertakenError(f"another content of {sent.name} landed meanwhile", last.generation)
            return isinstance(file, Path)  # the copy that was kept of an earlier content replaces nothing
        if not self._again(file):
            return False
        return is_outdated(last, self.source, self.now) or bool(files_gone(self.blackboard, self.source.key, [last]))

    def _is_replaced(self, sent: PartnerFile, landing: Landing) -> bool:
        """Whether the landing is of another content of this name."""
        return self.source.poll is not None and landing.sha256 != sent.sha256

    def _is_to_land_again(self, file: Delivery, due: Due, outcome: Landing | Exception) -> bool:
        """Whether a faster process landed instead: by another description, or another content of this name."""
        if isinstance(outcome, Exception):
            return False
        if self._is_replaced(due.sent, outcome):
            return isinstance(file, Path)
        return self._again(file) and outcome.description != self.source.landing_digest

    def _land(self, due: Mapping[int, Due], files: Sequence[Delivery]) -> Mapping[int, Landing | Exception]:
        """Stage all that has no plan in one Spark job, then carry out the plans one after the other."""
        plans: dict[int, Plan | Exception] = {
            number: each.plan for number, each in due.items() if each.plan is not None
        }
        unplanned = [number for number in due if number not in plans]
        if unplanned:
            self.begin("placing the records of", [files[number] for number in unplanned])
            staged = stage(self.session, self.blackboard, self.source, [due[each] for each in unplanned], now=self.now)
            plans |= dict(zip(unplanned, staged, strict=True))
        landed: dict[int, Landing | Exception] = {}
        for number, plan in plans.items():
            self.begin("copying the records of", [files[number]])
            try:
                landed[number] = plan if isinstance(plan, Exception) else self._carry_out(due[number], plan)
            except Exception as error:  # noqa: BLE001 - the other files land
                landed[number] = error
        return landed

    def _carry_out(self, due: Due, staged: Plan) -> Landing:
        """The landing by this plan, or by that of a faster process."""
        staging = staging_prefix(self.source.key, due.landing)
        try:
            plan = write_plan(self.blackboard, staging, staged)
            if plan.staged != staged.staged:
                clear(self.blackboard, staged.staged)
            landing = complete(self.blackboard, plan, now=self.now)
        except Exception as error:
            # Another process may have landed the same content meanwhile, and removed the staging in use here.
            found = find(self.blackboard, self.source.key, due.landing)
            if found is None and isinstance(error, NotFoundError):
                # A plan whose staged files are gone can never be completed.
                clear(self.blackboard, staging)
                raise PassingError(
                    f"What was staged for {due.sent.path} was removed meanwhile; land the file again"
                ) from error
            if found is None:
                raise
            landing = found
        tidy(self.blackboard, landing)
        return landing


def _bytes_in(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _session(spark: SparkSession) -> SparkSession:
    """A new session of the same application with the settings of landing."""
    codec = "spark.sql.parquet.compression.codec"
    return new_session(spark, {**LANDING_SETTINGS, codec: str(spark.conf.get(codec))})


def _check_columns(source: Source, session: SparkSession, sent: PartnerFile) -> None:
    """Raise LandingError if the file's header lacks a column that the source names."""
    if sent.columns is None:
        return
    present = {name.lower() for name in sent.columns}
    lacking: dict[str, str] = {}
    for location, names in named_columns(session, source).items():
        for name in names:
            if name.lower() not in present:
                lacking.setdefault(name, source.place(location))
    if lacking:
        has = f"it has {', '.join(sent.columns)}"
        near = [hint for hint in (nearest(name, sent.columns) for name in lacking) if hint.startswith("did you mean")]
        raise LandingError(
            f"{sent.path}:{sent.skip}: the header lacks {', '.join(lacking)}, which {source.key} needs; "
            f"{'; '.join([has, *near])}{'' if near else '.'} "
            f"Have the file sent again, or correct the source ({', '.join(dict.fromkeys(lacking.values()))})"
        )
