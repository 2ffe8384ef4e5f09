"""`feed-assets deps report`, `expect`, `waive`, `unwaive`, `reopen` and `backfill`: facts and commands about slots.

Here: the commands. Not here: the items of their files (`dependencies.http.given`), and what facts mean.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from feed_assets.cli.feed_place import login_name
from feed_assets.cli.installation import Installation, load_installation
from feed_assets.cli.known_datasets import DatasetName, dataset_named, keep_copy, known, looked_up
from feed_assets.cli.output import complain, json_option, print_json, print_table, print_text, say
from feed_assets.datasets.instants import moment_of
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.errors import FAILED
from feed_assets.file_feed.wording import counted, sentence

if TYPE_CHECKING:
    from feed_assets.datasets.dataset import Dataset
    from feed_assets.datasets.slots import Slot
    from feed_assets.dependencies.facts import Ends, Number, Outcome, Part
    from feed_assets.dependencies.http.given import GivenFacts
    from feed_assets.dependencies.quality.marks import Backfill
    from feed_assets.dependencies.service import Dependencies
    from feed_assets.sensors.flows import Flows

AT_ONCE = 1_000
"""How many lines of a file are taken in one transaction."""
_Command = TypeVar("_Command", bound=Callable[..., Any])
_Fact = TypeVar("_Fact")


class _SlotRecords(click.ParamType[tuple[str, int]]):
    """A slot and its number of records: `2026-11-27T15=1200`."""

    name = "slot=n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Read both."""
        slot, _, number = str(value).rpartition("=")
        if not slot or not number.removeprefix("-").isdecimal():
            self.fail(f"{value!r} is no slot with its records: write 2026-11-27T15=1200.", param, ctx)
        return slot, int(number)


class _Positions(click.ParamType[tuple[int, int]]):
    """Positions from the first one to before the end: `0-1200`."""

    name = "first-end"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Read both."""
        first, _, end = str(value).partition("-")
        if not first.isdecimal() or not end.isdecimal():
            self.fail(f"{value!r} is no range of positions: write 0-1200 for the positions 0 to 1199.", param, ctx)
        return int(first), int(end)


@dataclass(frozen=True, slots=True)
class _Desk:
    """What a command works on."""

    installation: Installation
    flows: Flows
    states: Dependencies
    given: GivenFacts
    now: datetime

    @classmethod
    def open(cls, *, shows: bool = False) -> _Desk:
        """Load the project; a command that `shows` what is known warns if the database looks lost."""
        from feed_assets.dependencies.http.given import GivenFacts  # noqa: PLC0415 - loads msgspec

        installation = load_installation()
        flows, states = (looked_up if shows else known)(installation)
        given = GivenFacts(states.datasets, listed_by="`feed-assets deps datasets`")
        return cls(installation, flows, states, given, installation.settings.clock.now())

    def keep(self) -> None:
        """Copy what has changed to the blackboard."""
        keep_copy(self.installation, self.states)

    def dataset(self, name: str) -> Dataset:
        return dataset_named(self.flows, self.states, name)

    def slots(self, dataset: str, first: str, last: str | None, member: str) -> list[Slot]:
        """The slots from the first to the last one."""
        from feed_assets.dependencies.http.given import SlotGiven  # noqa: PLC0415 - as above

        return self.given.slots(SlotGiven(self.dataset(dataset).name, first, member), last or "")


def _member_option(command: _Command) -> _Command:
    text = "The member, such as a source. Default: all together."
    return click.option("--member", metavar="MEMBER", default=NO_MEMBER, help=text)(command)


def _reason_option(command: _Command) -> _Command:
    text = "Why, for those who read it later."
    return click.option("--reason", metavar="TEXT", required=True, help=text)(command)


def _by_option(command: _Command) -> _Command:
    return click.option("--by", metavar="NAME", help="Who says so. Default: your user name.")(command)


def _until_option(command: _Command) -> _Command:
    text = "The last slot, of the same kind as SLOT. Default: SLOT alone."
    return click.option("--until", metavar="SLOT", help=text)(command)


def _file_option(command: _Command) -> _Command:
    text = "A file with a JSON object on each line, as the API takes them; `-` is the standard input."
    return click.option("--file", "file", type=click.File("rb"), metavar="PATH", help=text)(command)


@click.command()
@click.argument("dataset", required=False, type=DatasetName())
@click.option("--part", metavar="ID", help="The id of the part, which no other part of the member has.")
@click.option("--object", "put", metavar="URI", help="The object that was put.")
@click.option("--records", type=_SlotRecords(), multiple=True, help="The records in a base slot: once for each slot.")
@_member_option
@click.option("--stream", metavar="NAME", default="", help="The stream of the positions, such as a topic's partition.")
@click.option("--positions", type=_Positions(), multiple=True, help="The positions of the source that the part covers.")
@click.option("--generation", metavar="NAME", default="", help="Another one begins new positions, as a new topic does.")
@click.option("--writer", metavar="NAME", default="", help="Who writes the stream; the highest --epoch may.")
@click.option("--epoch", type=click.IntRange(0), help="The epoch of the --writer.")
@click.option("--replaces", metavar="ID", multiple=True, help="The known part that this one takes the place of.")
@click.option("--equal-to", is_flag=True, help="With --replaces: the content is the same, as after a compaction.")
@_file_option
@json_option
def report(
    dataset: str | None,
    part: str | None,
    put: str | None,
    records: Sequence[tuple[str, int]],
    member: str,
    replaces: Sequence[str],
    file: IO[bytes] | None,
    *,
    equal_to: bool,
    as_json: bool,
    **stream: Any,
) -> None:
    """Say that a part of DATASET has landed: an object, and its records for each base slot.

    A part that is known by its id counts once, so a command may be repeated. With --file, each line is a part, and is
    answered on its own; DATASET is then that of lines that name none. Exit code 1 if one is refused.
    """
    from feed_assets.dependencies.facts import Outcome, Status  # noqa: PLC0415 - loaded with the service only
    from feed_assets.dependencies.http.given import PartGiven  # noqa: PLC0415 - loads msgspec

    if file is not None:
        _refuse_with_file(part=part, object=put, records=records, replaces=replaces)
        desk = _Desk.open()
        name = desk.dataset(dataset).name if dataset else None

        def read(line: bytes) -> Part:
            return desk.given.part(_item(line, name, PartGiven))

        _take_lines(desk, file, read, lambda all_: desk.states.report(all_, now=desk.now), as_json=as_json)
        return
    dataset, part, put = _required(dataset, "DATASET"), _required(part, "--part"), _required(put, "--object")
    if stream["epoch"] is not None and not stream["writer"]:
        raise click.UsageError("--epoch needs --writer: say who writes the stream.")
    if equal_to and not replaces:
        raise click.UsageError("--equal-to needs --replaces: say which part has the same content.")
    desk = _Desk.open()
    if double := [slot for slot, count in Counter(slot for slot, _ in records).items() if count > 1]:
        raise click.UsageError(f"--records names {double[0]} twice: add its records.")
    given = PartGiven(
        desk.dataset(dataset).name,
        part,
        put,
        dict(records),
        member,
        stream["stream"],
        [*stream["positions"]],
        stream["generation"],
        stream["writer"],
        stream["epoch"] or 0,
    )
    fact = desk.given.part(given)
    if replaces:
        desk.states.check_parts(given.dataset, member, replaces)
        desk.states.replace(given.dataset, member, replaces, [fact], now=desk.now, equal_to=equal_to)
        desk.keep()
        _say_outcome(Outcome(Status.ACCEPTED), f"part {part}", as_json=as_json)
        return
    (outcome,) = desk.states.report([fact], now=desk.now)
    desk.keep()
    _say_outcome(outcome, f"part {part}", as_json=as_json)


@click.command()
@click.argument("dataset", required=False, type=DatasetName())
@click.argument("slot", required=False)
@click.option("--witness", metavar="NAME", help="Who has counted, as the dataset declares it.")
@click.option("--records", type=int, metavar="N", help="How many records the slot has at the source.")
@click.option("--final/--not-final", default=True, show_default=True, help="Whether the number will not change.")
@click.option("--version", type=click.IntRange(0), default=0, help="A higher one replaces a lower one. Default: 0.")
@_member_option
@_file_option
@json_option
def expect(
    dataset: str | None,
    slot: str | None,
    witness: str | None,
    records: int | None,
    member: str,
    file: IO[bytes] | None,
    *,
    final: bool,
    version: int,
    as_json: bool,
) -> None:
    """Say how many records a base slot of DATASET has at its source.

    With --file, each line is a number, or the end positions of a member's streams (`ends`, `taken`), and is answered on
    its own; DATASET is then that of lines that name none. Exit code 1 if one is refused.
    """
    from feed_assets.dependencies.facts import Number  # noqa: PLC0415 - loaded with the service only
    from feed_assets.dependencies.http.given import EndsGiven, NumberGiven  # noqa: PLC0415 - loads msgspec

    if file is not None:
        _refuse_with_file(slot=slot, witness=witness, records=records)
        desk = _Desk.open()
        name = desk.dataset(dataset).name if dataset else None

        def read(line: bytes) -> Number | Ends:
            if b'"ends"' in line:
                return desk.given.ends(_item(line, name, EndsGiven))
            return desk.given.number(_item(line, name, NumberGiven))

        _take_lines(desk, file, read, lambda all_: desk.states.expect(all_, now=desk.now), as_json=as_json)
        return
    dataset, slot, witness = _required(dataset, "DATASET"), _required(slot, "SLOT"), _required(witness, "--witness")
    records = _required(records, "--records")
    desk = _Desk.open()
    (named,) = desk.slots(dataset, slot, None, member)
    (outcome,) = desk.states.expect([Number(witness, named, records, final, version)], now=desk.now)
    desk.keep()
    _say_outcome(outcome, f"the number of {named}", as_json=as_json)


@click.command()
@click.argument("dataset", type=DatasetName())
@click.argument("slot")
@_until_option
@_member_option
@_reason_option
@_by_option
@json_option
def waive(
    dataset: str, slot: str, until: str | None, member: str, reason: str, by: str | None, *, as_json: bool
) -> None:
    """Say that SLOT of DATASET need not be complete: it counts as complete when it has ended.

    Every later answer repeats the reason. `deps unwaive` takes it back. With --member, only that member is waived.
    """
    desk = _Desk.open()
    slots, who = desk.slots(dataset, slot, until, member), by or login_name()
    waiver = desk.states.waive(slots, reason=reason, by=who, now=desk.now)
    desk.keep()
    if as_json:
        print_json({"id": waiver, "slots": [*map(str, slots)], "reason": reason, "by": who, "at": desk.now})
        return
    print_text(f"{_range(slots)} is waived: {reason} ({who}). `feed-assets deps unwaive {waiver}` takes that back.")


@click.command()
@click.argument("waiver", metavar="WAIVER")
@_reason_option
@_by_option
@json_option
def unwaive(waiver: str, reason: str, by: str | None, *, as_json: bool) -> None:
    """Take WAIVER back: its slots are reopened if they are not complete without it.

    `deps slots` shows the ids of waivers.
    """
    desk = _Desk.open(shows=True)
    who = by or login_name()
    desk.states.unwaive(waiver, reason=reason, by=who, now=desk.now)
    desk.keep()
    if as_json:
        print_json({"id": waiver, "reason": reason, "by": who, "at": desk.now})
        return
    print_text(f"The waiver {waiver} is taken back: {reason} ({who}).")


@click.command()
@click.argument("dataset", type=DatasetName())
@click.argument("slot")
@_until_option
@_member_option
@_reason_option
@_by_option
@json_option
def reopen(
    dataset: str, slot: str, until: str | None, member: str, reason: str, by: str | None, *, as_json: bool
) -> None:
    """Begin a new revision of SLOT of DATASET, as its content was wrong: what was made of it runs again.

    A slot whose rule holds is complete again at once. To keep it incomplete until it is made again, use `deps backfill
    open`.
    """
    desk = _Desk.open()
    slots, before = desk.slots(dataset, slot, until, member), desk.states.newest()
    if not reason.strip():
        raise click.ClickException("A reopening needs a reason: say why, for those who read it later.")
    desk.states.reopen(slots, reason=f"{reason} ({by or login_name()})", now=desk.now)
    if not any(each.kind == "reopened" for each in desk.states.events(before)):
        raise click.ClickException(
            f"Nothing of {_range(slots)} is complete, so there is no revision to end. `feed-assets deps slots` shows "
            "what it waits for."
        )
    desk.keep()
    answers = [desk.states.answer(each) for each in slots]
    if as_json:
        print_json([{"slot": str(each.slot), "revision": each.revision, "complete": each.complete} for each in answers])
        return
    for each in answers:
        print_text(f"{each.slot} is {'complete' if each.complete else 'incomplete'} at revision {each.revision}.")


@click.group()
def backfill() -> None:
    """Make slots again: they stay incomplete until the backfill is closed, or another update is in force."""


@backfill.command("open")
@click.argument("dataset", type=DatasetName())
@click.argument("first")
@click.argument("last", required=False)
@_member_option
@_reason_option
@_by_option
@json_option
def open_backfill(
    dataset: str, first: str, last: str | None, member: str, reason: str, by: str | None, *, as_json: bool
) -> None:
    """Reopen the slots from FIRST to LAST of DATASET, to make them again. Flows wait for them.

    Bad slots are `backfilled` afterwards, until a check passes on them.
    """
    from feed_assets.dependencies.quality.marks import Author  # noqa: PLC0415 - loaded with the service only

    desk = _Desk.open()
    slots = desk.slots(dataset, first, last, member)
    opened = desk.states.open_backfill(slots, reason=reason, author=Author.person(by or login_name()), now=desk.now)
    desk.keep()
    if as_json:
        print_json(_plain_backfill(opened))
        return
    words = [dataset, first, *([last] if last else []), *([] if member == NO_MEMBER else ["--member", member])]
    print_text(
        f"{_range(slots)} is being backfilled: {reason}. When it is made again, say so: `feed-assets deps backfill "
        f"close {' '.join(words)} --reason TEXT`."
    )


@backfill.command("close")
@click.argument("dataset", type=DatasetName())
@click.argument("first")
@click.argument("last", required=False)
@_member_option
@_reason_option
@_by_option
@click.option("--abandoned", is_flag=True, help="Nothing was made again: the content is what it was before.")
@json_option
def close_backfill(
    dataset: str,
    first: str,
    last: str | None,
    member: str,
    reason: str,
    by: str | None,
    *,
    abandoned: bool,
    as_json: bool,
) -> None:
    """End the backfills of slots from FIRST to LAST of DATASET."""
    from feed_assets.dependencies.quality.marks import Author  # noqa: PLC0415 - loaded with the service only

    desk = _Desk.open(shows=True)
    slots = desk.slots(dataset, first, last, member)
    desk.states.refresh()
    opened = [each for each in desk.states.quality.open_backfills() if {*each.slots} <= {*slots}]
    if not opened:
        raise click.ClickException(
            f"No open backfill is within {_range(slots)}: `feed-assets deps backfill list` shows those that there are."
        )
    author = Author.person(by or login_name())
    for each in opened:
        desk.states.close_backfill(each.id, reason=reason, author=author, now=desk.now, abandoned=abandoned)
    desk.keep()
    closed = [desk.states.quality.backfill(each.id) for each in opened]
    if as_json:
        print_json([_plain_backfill(each) for each in closed])
        return
    for each in closed:
        states = dict.fromkeys(str(desk.states.quality.state(slot)) for slot in each.slots)
        print_text(f"The backfill of {_range(each.slots)} is over: {reason}. Its quality is {', '.join(states)}.")


@backfill.command("list")
@json_option
def list_backfills(*, as_json: bool) -> None:
    """List the open backfills, oldest first."""
    desk = _Desk.open(shows=True)
    desk.states.refresh()
    found = desk.states.quality.open_backfills()
    if as_json:
        print_json([_plain_backfill(each) for each in found])
        return
    print_table(
        ["slots", "reason", "by", "at"],
        [
            (_range(each.slots), each.opened.reason, str(each.opened.author), moment_of(each.opened.at))
            for each in found
        ],
        empty="No backfill is open.",
        keep=("slots", "reason"),
    )


def _plain_backfill(each: Backfill) -> dict[str, object]:
    plain: dict[str, object] = {"id": each.id, "slots": [*map(str, each.slots)]}
    for name, signature in (("opened", each.opened), ("closed", each.closed)):
        if signature is not None:
            at = moment_of(signature.at)
            plain[name] = {"by": str(signature.author), "at": at, "reason": signature.reason}
    return plain | ({"abandoned": each.abandoned} if each.closed else {})


def _range(slots: Sequence[Slot]) -> str:
    """Slots for people: the first one, and the start of the last one."""
    last = str(slots[-1]).rpartition(" ")[2]
    return str(slots[0]) if len(slots) == 1 else f"{slots[0]} to {last}"


def _required(value: Any, name: str) -> Any:
    if value is None or value == "":
        raise click.UsageError(f"{name} is missing; or give a --file with a JSON object on each line.")
    return value


def _refuse_with_file(**others: object) -> None:
    if named := [name for name, value in others.items() if value]:
        raise click.UsageError(f"With --file, {named[0]} comes from the lines: leave it out.")


def _item(line: bytes, dataset: str | None, kind: type[_Fact]) -> _Fact:
    """The item of a line; `dataset` is that of lines that name none. Raises MsgspecError, RefusedFactError."""
    import msgspec  # noqa: PLC0415 - loaded with the service only

    from feed_assets.dependencies.errors import RefusedFactError  # noqa: PLC0415 - as above

    given = msgspec.json.decode(line)
    if not isinstance(given, dict):
        raise RefusedFactError("the line is no JSON object: write one as the API takes it.")
    return msgspec.convert(({"dataset": dataset} if dataset else {}) | given, kind)


def _take_lines(
    desk: _Desk,
    file: IO[bytes],
    read: Callable[[bytes], _Fact],
    take: Callable[[Sequence[_Fact]], Sequence[Outcome]],
    *,
    as_json: bool,
) -> None:
    """Take each line, print what became of it, and exit with 1 if one was refused."""
    statuses: Counter[str] = Counter()
    for number, outcome in _outcomes(file, read, take):
        status = str(outcome.status)
        statuses[status] += 1
        if as_json:
            click.echo(json.dumps({"line": number, "status": status, "message": outcome.message}))
        elif status == "refused":
            complain(f"Line {number}: {outcome.message}")
    desk.keep()
    if not as_json:
        say(", ".join(f"{counted(count, 'line')} {status}" for status, count in sorted(statuses.items())) or "No line.")
    if statuses["refused"]:
        sys.exit(FAILED)


def _outcomes(
    file: IO[bytes], read: Callable[[bytes], _Fact], take: Callable[[Sequence[_Fact]], Sequence[Outcome]]
) -> Iterator[tuple[int, Outcome]]:
    """The number of each line that is not empty, and its outcome."""
    from msgspec import MsgspecError  # noqa: PLC0415 - loaded with the service only

    from feed_assets.datasets.errors import DatasetError  # noqa: PLC0415 - as above
    from feed_assets.dependencies.errors import DependencyError  # noqa: PLC0415 - as above
    from feed_assets.dependencies.facts import Outcome, Status  # noqa: PLC0415 - as above

    numbered = enumerate(file, 1)
    while lines := [*islice(numbered, AT_ONCE)]:
        found: dict[int, Outcome] = {}
        facts: dict[int, _Fact] = {}
        for number, line in lines:
            if not line.strip():
                continue
            try:
                facts[number] = read(line)
            except (MsgspecError, DependencyError, DatasetError, UnicodeDecodeError, RecursionError) as error:
                found[number] = Outcome(Status.REFUSED, str(error))
        if facts:
            found.update(zip(facts, take([*facts.values()]), strict=True))
        yield from sorted(found.items())


def _say_outcome(outcome: Outcome, what: str, *, as_json: bool) -> None:
    """Print what became of one fact. Raises ClickException if it was refused."""
    if as_json:
        print_json({"status": str(outcome.status), "message": outcome.message})
        if outcome.status == "refused":
            sys.exit(FAILED)
        return
    if outcome.status == "refused":
        raise click.ClickException(sentence(outcome.message))
    more = f": {outcome.message}" if outcome.message else "."
    print_text(f"{sentence(what)} is {outcome.status}{more}")


COMMANDS = (report, expect, waive, unwaive, reopen, backfill)
