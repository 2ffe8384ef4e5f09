"""`feed-assets quarantine`: the records that could not be used, and landing them again once they are corrected.

Here: the commands. Not here: finding and counting the records (`feed_assets.operations.quarantined`), and how each
correction lands once (`receiving.resubmission`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from feed_assets.cli.clock import DayParameter, OptionalDay
from feed_assets.cli.feed_place import similar_names, with_what_is_near
from feed_assets.cli.feeds import NOT_FEEDS
from feed_assets.cli.installation import Installation, load_installation, ready_to_compute
from feed_assets.cli.output import complain, json_option, print_json, print_table, say
from feed_assets.errors import FAILED
from feed_assets.file_feed.discovery import feed_locations
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.wording import counted

if TYPE_CHECKING:
    from feed_assets.operations.quarantined import BadRecord, Quarantines, SetAside
    from feed_assets.receiving.resubmission import Correction, Place, Resubmitted
    from feed_assets.sources.ledger import Landing
    from feed_assets.sources.spec import Source

_Command = TypeVar("_Command", bound=Callable[..., None])


class _Quarantine(click.Group):
    """A group whose first command needs no name: `quarantine DATE` is `quarantine show DATE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the name there, except where a shell completes the name."""
        completing = ctx.resilient_parsing and not args
        if not completing and (not args or args[0] not in {*self.commands, "--help", "-h"}):
            args.insert(0, "show")
        return super().parse_args(ctx, args)


@click.group(cls=_Quarantine)
def quarantine() -> None:
    """Show the records in quarantine, and land them again once they are corrected.

    `feed-assets quarantine [DATE]` is short for `feed-assets quarantine show [DATE]`.
    """


def _choosing(command: _Command) -> _Command:
    """Give a command the argument and the options that choose records."""
    command = click.option("--request", "request_id", metavar="ID", help="Only records of this pushed request.")(
        command
    )
    named = "A feed, such as clean-ads, or `landing` for records that did not land."
    command = click.option("--feed", metavar="NAME", help=named)(command)
    return click.argument("day", cls=OptionalDay, metavar="[DATE]", required=False, type=DayParameter())(command)


@quarantine.command("show")
@_choosing
@json_option
@click.pass_context
def show(ctx: click.Context, day: date | None, feed: str | None, request_id: str | None, *, as_json: bool) -> None:
    """Show the records in quarantine, of DATE or of all days: the count for each reason, with an example.

    With `--request`, show each record of a request that a partner pushed.

    Records that landing put there have no usable time and so no day: only the command without DATE shows them.
    Exit code 1 if some files cannot be read; the others are still shown.
    """
    installation, faults = load_installation(), list[FeedError]()
    quarantines = quarantines_of(installation, faults)
    found: Sequence[SetAside | BadRecord]
    if request_id is not None:
        found = list(_records(installation, quarantines, day, feed, request_id))
    else:
        found = list(quarantines.by_reason(partition=str(day) if day else None, where=feed))
    if feed is not None and not found and not faults:
        _require_feed(installation, feed)
    if as_json:
        print_json([asdict(each) for each in found])
    else:
        board, base = installation.blackboard, installation.settings.base
        nothing = "" if found else _nothing(feed, str(day) if day else None, request_id, base)
        _show(found, empty=nothing if found or request_id else with_what_is_near(nothing, board))
        if found and not request_id and (corrected := _corrected(installation)):
            say(f"{counted(corrected, 'record')} were resubmitted: `feed-assets quarantine export` leaves them out.")
    _end(ctx, faults)


@quarantine.command("export")
@_choosing
@click.pass_context
def export(ctx: click.Context, day: date | None, feed: str | None, request_id: str | None) -> None:
    """Print the records in quarantine as JSON lines, to correct them: `feed-assets quarantine export > bad.jsonl`.

    Correct the field `record` of each line, and leave out lines that stay as they are. Then
    `feed-assets quarantine resubmit bad.jsonl` lands the records. Records that were resubmitted are not printed again.
    """
    import msgspec  # noqa: PLC0415 - only this command encodes records

    installation, faults = load_installation(), list[FeedError]()
    for each in _records(installation, quarantines_of(installation, faults), day, feed, request_id):
        if each.resubmitted:
            continue
        fields = {name: value for name, value in asdict(each).items() if name not in {"resubmitted", "record"}}
        # As the partner sent it: another encoder would round long numbers.
        fields["record"] = msgspec.Raw(each.record.encode()) if _is_object(each.record) else each.record
        click.echo(msgspec.json.encode(fields).decode())
    _end(ctx, faults)


@quarantine.command("resubmit")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
@click.pass_context
def resubmit(ctx: click.Context, file: Path, *, as_json: bool) -> None:
    """Land the corrected records of FILE, which `feed-assets quarantine export` printed: each record once.

    The same file again lands nothing. Sources are those of pushed events (`type: jsonl`). Exit code 1 if a record is
    still refused; the others land.
    """
    from feed_assets.receiving.resubmission import CorrectionError, read_corrections  # noqa: PLC0415 - loads the door

    try:
        corrections = read_corrections(file.read_bytes())
    except CorrectionError as error:
        raise click.BadParameter(f"{file}:{error}", param_hint="FILE") from None
    installation = load_installation()
    sources = {name: _taking_events(installation, name) for name in corrections}
    ready_to_compute(installation.settings)
    faults = list[FeedError]()
    there = _places(quarantines_of(installation, faults))
    done: dict[str, Resubmitted] = {}
    for name, source in sources.items():
        done[source.key] = _resubmitted(installation, source, corrections[name], there.get(source.key, set()))
    refused = [refusal for key, each in done.items() for refusal in _refusals(installation, key, each)]
    landings = [landing for each in done.values() for landing in each.landings]
    landed = sum(each.landed for each in landings)
    bad = sum(sum(each.quarantined.values()) for each in landings)
    before = sum(len(each.before) for each in done.values())
    if as_json:
        print_json({"landed": landed, "in_quarantine_again": bad, "resubmitted_before": before, "refused": refused})
    else:
        rows = [(each["source"], each["file"], each["line"], each["reason"]) for each in refused]
        print_table(["source", "file", "line", "still refused because"], rows, empty="")
    say(f"Landed {counted(landed, 'corrected record')}.")
    if days := sorted({hour[:10] for landing in landings for hour in landing.partitions}):
        which = f"of {days[0]}" if len(days) == 1 else f"of {len(days)} days from {days[0]} to {days[-1]}"
        say(f"They are {which}: `feed-assets explain {days[0]}` says when a day is processed.")
    if bad:
        say(f"{counted(bad, 'corrected record')} went to quarantine again; `feed-assets quarantine export` has them.")
    if before:
        say(f"{counted(before, 'record')} had been resubmitted before; nothing was added for them.")
    if refused or faults:
        for fault in faults:
            complain(f"Error: {fault}")
        ctx.exit(FAILED)


def quarantines_of(installation: Installation, faults: list[FeedError]) -> Quarantines:
    """The records in quarantine; what cannot be read is added to `faults`."""
    from feed_assets.operations.quarantined import Quarantines  # noqa: PLC0415 - loads DuckDB

    keys = {node.location: node.raw_sources for node in installation.feeds.feeds.values()}
    now, sources = installation.settings.clock.now(), installation.sources
    return Quarantines(installation.blackboard, now=now, unreadable=faults.append, keys=keys, sources=sources)


def _records(
    installation: Installation, quarantines: Quarantines, day: date | None, feed: str | None, request_id: str | None
) -> Iterator[BadRecord]:
    """The records one by one; with an id, those of this request."""
    from feed_assets.receiving.receipts import find_request  # noqa: PLC0415 - loads msgspec

    partition = str(day) if day else None
    if request_id is None:
        yield from quarantines.records(partition=partition, where=feed)
        return
    found = find_request(installation.blackboard, request_id)
    if found is None:
        raise click.ClickException(
            f"No record of a request {request_id!r} has landed below {installation.settings.base}. "
            f"`feed-assets receive request {request_id}` looks into the receiver's journal, too."
        )
    yield from quarantines.of_request(found, partition=partition, where=feed)


def _end(ctx: click.Context, faults: Sequence[FeedError]) -> None:
    for fault in faults:
        complain(f"Error: {fault}")
    if faults:
        ctx.exit(FAILED)


def _require_feed(installation: Installation, feed: str) -> None:
    """Raise click.BadParameter if no feed, and no place of landing's quarantine, has this name."""
    board = installation.blackboard
    feeds = {*installation.feeds.feeds, *feed_locations(board, leave_out=NOT_FEEDS)}
    names = [*sorted(feeds), "landing", *(f"landing/{source.key}" for source in installation.sources)]
    if not any(f"{name}/".startswith(f"{feed.strip('/')}/") for name in names):
        where = installation.settings.base
        raise click.BadParameter(
            f"there is no feed {feed!r} below {where}. {similar_names(feed, names)}", param_hint="--feed"
        )


def _nothing(feed: str | None, partition: str | None, request_id: str | None, base: str) -> str:
    request = f"request {request_id}" if request_id else None
    requested = "".join(f" of {each}" for each in (feed, partition, request) if each)
    return f"Nothing{requested} is in quarantine below {base}."


def _show(found: Sequence[SetAside | BadRecord], *, empty: str) -> None:
    from feed_assets.operations.quarantined import BadRecord  # noqa: PLC0415 - loads DuckDB

    one_by_one = [each for each in found if isinstance(each, BadRecord)]
    if one_by_one:
        rows: list[tuple[object, ...]] = [
            (each.index, each.reason, each.source, each.where, each.partition, _state(each), each.record)
            for each in one_by_one
        ]
        print_table(["index", "reason", "source", "where", "day", "state", "record"], rows, empty="")
        return
    rows = [
        (one.where, one.partition, one.state or None, one.source, one.reason, one.records, _example(one))
        for one in found
        if not isinstance(one, BadRecord)
    ]
    print_table(["where", "day", "state", "source", "reason", "records", "example"], rows, empty=empty)


def _state(each: BadRecord) -> str | None:
    return "resubmitted" if each.resubmitted else each.state or None


def _example(each: SetAside) -> str:
    where = f"{each.file}:{each.line}"
    if each.request_id is not None:
        where = " ".join(filter(None, (each.partner, f"{each.request_id}[{each.index}]")))
    return f"{where} {each.example}"


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _taking_events(installation: Installation, name: str) -> Source:
    """The source of corrected records. Raises BadParameter."""
    from feed_assets.cli.source_names import source_named  # noqa: PLC0415 - small, and rarely needed
    from feed_assets.receiving.door import can_be_pushed  # noqa: PLC0415 - loads the formats of bodies

    return source_named(
        installation,
        name,
        only=can_be_pushed,
        described=" that takes events (`type: jsonl`); records of files are corrected in the file, which lands again",
        parameter="FILE",
    )


def _places(quarantines: Quarantines) -> Mapping[str, set[Place]]:
    """The places of the records in quarantine by the key of their source."""
    from feed_assets.receiving.resubmission import Place  # noqa: PLC0415 - loads the door

    found: dict[str, set[Place]] = {}
    for each in quarantines.records():
        if each.line is not None:
            found.setdefault(each.source, set()).add(Place(each.file, each.line))
    return found


def _corrected(installation: Installation) -> int:
    """How many records in quarantine were corrected and resubmitted."""
    from feed_assets.receiving.resubmission import batches  # noqa: PLC0415 - loads the door

    keys = (source.key for source in installation.sources)
    return sum(len(batch.places) for key in keys for _, batch in batches(installation.blackboard, key))


def _resubmitted(
    installation: Installation, source: Source, corrections: Sequence[Correction], there: set[Place]
) -> Resubmitted:
    from feed_assets.cli.land import as_landed, warnings  # noqa: PLC0415 - only if records land
    from feed_assets.receiving.resubmission import resubmit as land_once  # noqa: PLC0415 - loads the door
    from feed_assets.sources.landing import land  # noqa: PLC0415 - loads Spark's Python side

    settings = installation.settings
    now = settings.clock.now()

    def landed(file: Path) -> Landing:
        return land(settings.spark.spark_session, installation.blackboard, source, file, now=now)

    done = land_once(installation.blackboard, source, corrections, there, landed)
    for line in warnings(
        [as_landed(each.file, each, source, settings, now) for each in done.landings], source, settings
    ):
        complain(line)
    return done


def _refusals(installation: Installation, source: str, done: Resubmitted) -> list[Mapping[str, object]]:
    """The records that are still refused: by the door, or by landing, which put them into quarantine again."""
    found: list[Mapping[str, object]] = [
        {"source": source, "file": each.place.file, "line": each.place.line, "reason": reason}
        for each, reason in done.refused
    ]
    quarantines = quarantines_of(installation, [])
    for landing in done.landings:
        still = quarantines.records(where=f"landing/{source}", of=[landing.file])
        found += [{"source": source, "file": each.file, "line": each.line, "reason": each.reason} for each in still]
    return found
