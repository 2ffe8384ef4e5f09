"""`feed-assets land`: put a partner's logs into the raw partitions.

Here: the command and its messages. Not here: landing itself (`sources.landing`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from feed_assets.cli.clock import AS_OF
from feed_assets.cli.exit_codes import message_of
from feed_assets.cli.installation import load_installation, ready_to_compute
from feed_assets.cli.output import complain, file_size, json_option, print_json, print_table, progress, say
from feed_assets.cli.source_names import source_named
from feed_assets.errors import FAILED, exit_code
from feed_assets.file_feed.wording import counted

if TYPE_CHECKING:
    from feed_assets.blackboard.port import Blackboard
    from feed_assets.resources.settings import Settings
    from feed_assets.sources.ledger import Landing
    from feed_assets.sources.plan import Sweep
    from feed_assets.sources.spec import Source

NAMED = 5
"""Messages list up to this many days one by one."""

_UNCHANGED = (
    "What these files had landed did not change. A file in another format, such as that of pushed events, lands anew "
    "only while {source} describes that format."
)


@dataclass(frozen=True, slots=True)
class Landed:
    """A file that the command landed, or whose interrupted landing it completed."""

    file: str
    landing: Landing
    outdated: bool
    """Whether it is still landed by an earlier description of its source."""
    unwatched: Mapping[str, int]
    """Day -> records that landed now, for days that no sensor looks at."""


@click.command()
@click.argument("source")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--again",
    is_flag=True,
    help="Replace what landed by an earlier description of SOURCE, or lost its raw files. "
    "Without FILE: replace all of it, from the copies in raw/.sent/.",
)
@click.option(
    "--any-hours", is_flag=True, help="Land files whose records have more hours than `most_hours` of SOURCE allows."
)
@json_option
@click.pass_context
def land(
    ctx: click.Context, source: str, files: tuple[Path, ...], *, again: bool, any_hours: bool, as_json: bool
) -> None:
    """Put the records of each FILE into the hourly raw partitions of SOURCE, by event time, in any order.

    SOURCE is a source's name, or <kind>/<name>. A file that landed before adds nothing. A file that cannot be landed
    adds nothing either; the other files land, and the exit code is 1. The exit code is also 1 if a file has landed
    by another description of SOURCE: `--again` replaces its records. Locks of office programs, such as `~$a.csv`, are
    passed over.

    Each record that is read has landed, was left out by the filter of SOURCE, or is in quarantine.
    """
    from feed_assets.operations.java_compiler import compile_for_delivery  # noqa: PLC0415 - loads Dagster and Spark
    from feed_assets.sources.expressions import check_expressions  # noqa: PLC0415 - as above
    from feed_assets.sources.landing import land_files  # noqa: PLC0415 - as above
    from feed_assets.sources.plan import sweep_staging  # noqa: PLC0415 - as above

    if not files and not again:
        raise click.UsageError("Missing argument 'FILE...'. Without a file there is only `--again`.")
    installation = load_installation()
    settings, board = installation.settings, installation.blackboard
    ready_to_compute(settings)
    wanted = source_named(installation, source)
    now = settings.clock.now()
    data, failures = _by_name(files, wanted)
    if files and not data:
        _end(ctx, failures, as_json=as_json)
    compile_for_delivery(data)
    spark = settings.spark.spark_session
    check_expressions(spark, wanted)
    sweep = sweep_staging(board, wanted.key, now=now)
    for line in _swept(sweep):
        say(line)

    def landed(name: str, landing: Landing) -> Landed:
        return as_landed(name, landing, wanted, settings, now)

    deliveries: Sequence[Path | Landing] = data or _to_replace(board, wanted, now)
    completed = [landed(landing.file, landing) for landing in sweep.completed]
    done: list[Landed] = []
    carry_out = partial(land_files, spark, board, wanted, deliveries, now=now, again=again, any_hours=any_hours)
    for name, landing, failure in _carried_out(carry_out, deliveries):
        if landing is None:
            failures.append(_failure(name, failure))
        else:
            done.append(landed(name, landing))
    nothing = f"Nothing to replace: all of {wanted.key} landed by its present description, and no raw file is gone."
    _print(done, "Nothing landed." if files or failures else nothing, as_json=as_json)
    for line in remarks(done, wanted, settings):
        say(line)
    hint = [_UNCHANGED.format(source=wanted.key)] * bool(failures and not files)
    for line in (*warnings([*completed, *done], wanted, settings), *_lost(done, wanted, board), *failures, *hint):
        complain(line)
    if failures or any(each.outdated for each in (*completed, *done)):
        ctx.exit(FAILED)


def _end(ctx: click.Context, failures: Sequence[str], *, as_json: bool) -> NoReturn:
    """End where no file is left to land."""
    _print([], "Nothing landed.", as_json=as_json)
    for line in failures:
        complain(line)
    ctx.exit(FAILED if failures else 0)


def _to_replace(board: Blackboard, source: Source, now: datetime) -> list[Landing]:
    """The landings by an earlier description, and those whose raw files are gone."""
    from feed_assets.sources.absence import files_gone  # noqa: PLC0415 - loads the blackboard
    from feed_assets.sources.landing import is_outdated  # noqa: PLC0415 - loads Spark's Python side
    from feed_assets.sources.ledger import current_landings  # noqa: PLC0415 - as above

    earlier = list(current_landings(board, source.key))
    gone = files_gone(board, source.key, earlier)
    return [each for each in earlier if each.id in gone or is_outdated(each, source, now)]


def _by_name(files: Sequence[Path], source: Source) -> tuple[list[Path], list[str]]:
    """The files whose names fit the source, and a message for each that does not: it needs no Spark."""
    from feed_assets.sources.file_names import is_passed_over  # noqa: PLC0415 - loads pydantic
    from feed_assets.sources.partner_file import check_path  # noqa: PLC0415 - as above
    from feed_assets.sources.source_errors import LandingError  # noqa: PLC0415 - as above

    fitting, failures = [], []
    for file in files:
        if is_passed_over(file.name):
            say(f"{file} is passed over: it is the lock of an office program.")
            continue
        try:
            check_path(file, source)
        except LandingError as error:
            failures.append(_failure(str(file), str(error)))
        else:
            fitting.append(file)
    return fitting, failures


def _failure(name: str, text: str) -> str:
    return f"Error: {'' if text.startswith(name) else f'{name}: '}{text}"


def _carried_out(
    carry_out: Callable[..., Iterator[Landing | Exception]], deliveries: Sequence[Path | Landing]
) -> Iterator[tuple[str, Landing | None, str]]:
    """Land the files. Yield each name with its landing, or with the message of its failure."""
    numbers = count(1)

    def begin(step: str, files: Sequence[Path | Landing]) -> None:
        several, name, size = len(files) > 1, _name(files[0]), _size(files[0])
        line = f"{step} {counted(len(files), 'file') if several else Path(name).name + size}"
        bar.under_way(line)
        if sys.stderr.isatty():
            return
        if several:
            say(line)
        elif step == "reading":
            say(f"landing {next(numbers)} of {len(deliveries)}: {name}{size}")

    with progress("landing", len(deliveries)) as bar:
        for file, outcome in zip(deliveries, carry_out(begin=begin), strict=True):
            if not isinstance(outcome, Exception):
                yield _name(file), outcome, ""
            elif exit_code(outcome) is None:
                raise outcome
            else:
                yield _name(file), None, message_of(outcome)
            bar()


def _name(file: Path | Landing) -> str:
    return str(file) if isinstance(file, Path) else file.file


def _size(file: Path | Landing) -> str:
    return file_size(file) if isinstance(file, Path) else ""


def as_landed(name: str, landing: Landing, source: Source, settings: Settings, now: datetime) -> Landed:
    """A landing with what people should know of it, for `remarks` and `warnings`."""
    days = [] if landing.already_landed else _unwatched(landing, source, settings, now)
    outdated = landing.description != source.landing_digest
    return Landed(name, landing, outdated, {day: landing.records_of(day) for day in days})


def _unwatched(landing: Landing, source: Source, settings: Settings, now: datetime) -> list[str]:
    """The changed days that no sensor looks at: days before the lookback or before the first partition."""
    first = max(now.date() - timedelta(days=source.lookback_days), settings.first_day)
    return sorted({hour[:10] for hour in (*landing.partitions, *landing.withdrawn) if hour[:10] < str(first)})


def _json(each: Landed) -> Mapping[str, object]:
    from feed_assets.sources.ledger import landing_json  # noqa: PLC0415 - loads the blackboard

    more = {"path": each.file, "other_description": each.outdated, "outside_lookback": each.unwatched}
    return {**landing_json(each.landing), **more}


def _print(done: Sequence[Landed], nothing: str, *, as_json: bool) -> None:
    if as_json:
        print_json([_json(each) for each in done])
        return
    rows = [
        (
            Path(each.file).name,
            each.landing.read,
            each.landing.landed,
            each.landing.filtered,
            sum(each.landing.quarantined.values()),
            len(each.landing.partitions),
            _note(each),
        )
        for each in done
    ]
    print_table(["file", "read", "landed", "filtered", "quarantined", "hours", "note"], rows, empty=nothing)


def _note(each: Landed) -> str:
    if each.outdated:
        return "other description"
    if each.landing.already_landed:
        return "landed before"
    return "replaced" if each.landing.generation > 1 else ""


def _earlier(each: Landed) -> str:
    """The name and the time of the earlier landing, as a part of a sentence."""
    landing = each.landing
    alias = f" as {landing.file}" if landing.file != Path(each.file).name else ""
    return alias + (f" on {landing.landed_at:%Y-%m-%d %H:%M}" if landing.landed_at else "")


def remarks(done: Sequence[Landed], source: Source, settings: Settings) -> Iterator[str]:
    """Details that the table does not show."""
    for each in done:
        landing, name = each.landing, Path(each.file).name
        if landing.already_landed:
            if not each.outdated:
                yield f"{name}: landed before{_earlier(each)}; nothing added."
            continue
        for hint in landing.hints:
            yield f"{name}: {hint}."
        if landing.quarantined:
            reasons = ", ".join(f"{reason} ({count:,})" for reason, count in landing.quarantined.items())
            yield f"{name}: in quarantine: {reasons}. `feed-assets quarantine --feed landing` shows them."
        if landing.malformed:
            yield (
                f"{name}: {counted(landing.malformed, 'malformed record')} landed, as the event time was readable. "
                "Processing the day puts malformed records into quarantine."
            )
        if landing.future_until is not None:
            time = f"From {landing.future_until:%Y-%m-%d %H:%M} on"
            if settings.as_of:
                time = f"The time is fixed at {settings.as_of:%Y-%m-%d %H:%M}. With {AS_OF}=now"
            yield f"{time}, `feed-assets land --again {source.key}` lands records that are in the future now."


def warnings(done: Sequence[Landed], source: Source, settings: Settings) -> Iterator[str]:
    """Problems to act on: files landed by another description, and changed days that no sensor looks at."""
    for each in done:
        if each.outdated:
            added = "nothing added" if each.landing.already_landed else "its interrupted landing was completed"
            yield (
                f"Error: {Path(each.file).name} landed{_earlier(each)} by another description of {source.key}; "
                f"{added}. `feed-assets land --again {source.key} FILE` replaces its records."
            )
    records: dict[str, int] = {}
    for each in done:
        for day, number in each.unwatched.items():
            records[day] = records.get(day, 0) + number
    early = [day for day in sorted(records) if day < str(settings.first_day)]
    late = [day for day in sorted(records) if day >= str(settings.first_day)]
    if late:
        yield (
            f"Warning: {_days(late, records)} {_are(late, records)} older than the lookback of "
            f"{counted(source.lookback_days, 'day')}. No sensor will process these days. Run `{_backfill(late)}`."
        )
    if early:
        yield (
            f"Warning: before the first partition, {settings.first_day}: {_days(early, records)}. "
            f"Set FEED_ASSETS_FIRST_DAY={early[0]}, then run `{_backfill(early)}`."
        )


def _lost(done: Sequence[Landed], source: Source, board: Blackboard) -> Iterator[str]:
    """Files that landed before and add nothing, although raw files of theirs are gone."""
    from feed_assets.sources.absence import files_gone, gone_files  # noqa: PLC0415 - loads the blackboard

    before = [each for each in done if each.landing.already_landed]
    gone = files_gone(board, source.key, [each.landing for each in before])
    for each in before:
        if files := gone.get(each.landing.id):
            yield f"Warning: raw files of {Path(each.file).name} {gone_files(board, source.key, files)}."


def _days(days: Sequence[str], records: Mapping[str, int]) -> str:
    total = counted(sum(records[day] for day in days), "record")
    if len(days) > NAMED:
        return f"{total} in {len(days)} days from {days[0]} to {days[-1]}"
    return f"{total} in " + ", ".join(f"{day} ({records[day]})" for day in days)


def _are(days: Sequence[str], records: Mapping[str, int]) -> str:
    return "is" if sum(records[day] for day in days) == 1 else "are"


def _backfill(days: Sequence[str]) -> str:
    return f"feed-assets backfill --from {days[0]} --to {days[-1]}"


def _swept(sweep: Sweep) -> Iterator[str]:
    """The results of cleaning up after landings that were interrupted days ago."""
    for landing in sweep.completed:
        yield f"Completed the interrupted landing of {landing.file}: {counted(landing.landed, 'record')}."
    if sweep.removed:
        yield f"Removed {counted(sweep.removed, 'file')} that interrupted landings had staged."
    for failure in sweep.failures:
        yield f"Warning: an interrupted landing cannot be completed: {failure}"
