"""`feed-assets deps ...`: what is complete and good, and what may therefore start.

Here: looking, and marks. Not here: facts (`deps_reports`), answers (`operations.gate_answers`, `dependencies`), and
serving them (`serve`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from feed_assets.cli import deps_answers, deps_starts
from feed_assets.cli.clock import DayParameter, OptionalDay, check_order
from feed_assets.cli.deps_reports import COMMANDS
from feed_assets.cli.feed_place import login_name
from feed_assets.cli.installation import load_installation
from feed_assets.cli.known_datasets import NOTHING, DatasetName, dataset_named, keep_copy, known, looked_up
from feed_assets.cli.output import json_option, print_json, print_table, print_text, say
from feed_assets.datasets.instants import moment_of
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.dependencies.quality.marks import Author

if TYPE_CHECKING:
    from feed_assets.dependencies.gate.decision import InputState, Verdict
    from feed_assets.dependencies.quality.marks import Mark, Signature
    from feed_assets.dependencies.quality.states import MarkPath
    from feed_assets.dependencies.service import Dependencies

SHOWN_DAYS = 7
COMPLETE_WHEN = {
    "assumed": "buffer is over",
    "published": "update in force",
    "covered": "positions covered",
    "counted": "records counted",
    "mixed": "by member",
}
MARKS = {True: "yes", False: "no", None: "-"}


@click.group()
def deps() -> None:
    """What is complete and good, and what may therefore start."""


for each in (*COMMANDS, *deps_answers.COMMANDS, *deps_starts.COMMANDS):
    deps.add_command(each)


@deps.command()
@click.argument("flow")
@click.argument("partition")
@json_option
def explain(flow: str, partition: str, *, as_json: bool) -> None:
    """Why PARTITION of FLOW runs, or does not run yet: each condition in order, and each input.

    FLOW is an asset with a trigger, or the location of its feed.
    """
    from feed_assets.dependencies.outputs import output_of  # noqa: PLC0415 - loaded with the service only
    from feed_assets.operations.gate_answers import explain_flow  # noqa: PLC0415 - loads Dagster

    installation = load_installation()
    flows, states = looked_up(installation)
    now = installation.settings.clock.now()
    verdict = explain_flow(installation.blackboard, flows, states, installation.sources, flow, partition, now=now)
    if as_json:
        print_json(_plain(verdict, states))
        return
    say(f"Looked below {installation.settings.base}.")
    print_text(f"{verdict.case.flow} {partition} {verdict.sentence}", indent="    ")
    click.echo()
    print_table(
        ["stage", "holds", "why"],
        [(str(each.stage), MARKS[each.holds], each.why) for each in verdict.stages],
        empty="",
    )
    click.echo()
    print_table(
        ["input", "complete", "revision", "quality", "why"],
        [
            (_named(each), MARKS[each.complete], each.revision, str(each.quality), each.why or None)
            for each in verdict.case.inputs
        ],
        empty="It reads nothing that has slots.",
    )
    if (output := output_of(states, verdict.case.slot)) is not None:
        click.echo()
        print_text(f"In force: {output.sentence}.")
        for each in output.unusual:
            print_text(f"- unusual {each}.", indent="  ")
    result = states.quality.why_bad(verdict.case.slot) if verdict.case.in_force else []
    for heading, paths in (
        ("Bad inputs, and how that came:", dict.fromkeys(path for each in verdict.case.inputs for path in each.marks)),
        (f"The update in force, {verdict.case.in_force}, is bad:", result),
    ):
        if paths:
            click.echo()
            print_text(heading)
        for path in paths:
            print_text(f"- {path}.", indent="  ")


def _named(given: InputState) -> str:
    """An input for people: its slot, and whether it may be missing."""
    return f"{given.slot} (optional)" if given.optional or not given.counts else str(given.slot)


@deps.command()
@json_option
def datasets(*, as_json: bool) -> None:
    """List the datasets that flows with a trigger make and read, and when their slots count as complete."""
    from feed_assets.dependencies.http.answers import dataset_says  # noqa: PLC0415 - loads msgspec

    flows, states = known(load_installation())
    found = [
        dataset_says(
            declared,
            flow=flows.feeds.feeds[name].name if flows.triggered(name) else None,
            reads=flows.reads(name) if flows.triggered(name) else (),
        )
        for name, declared in sorted(states.datasets.items())
    ]
    if as_json:
        _print_plain(found)
        return
    print_table(
        ["dataset", "slots", "members", "complete when", "made by"],
        [(each.name, each.base, len(each.members), COMPLETE_WHEN[each.basis], each.flow) for each in found],
        empty=NOTHING,
        keep=("dataset",),
    )


@deps.command()
@click.argument("dataset", type=DatasetName())
@click.argument("first", cls=OptionalDay, metavar="[FIRST]", required=False, type=DayParameter())
@click.argument("last", cls=OptionalDay, metavar="[LAST]", required=False, type=DayParameter())
@click.option("--grain", help="5min, 10min, hour, day, week, month or quarter. Default: the finest of the dataset.")
@click.option("--member", help="A member, or the beginning of their paths. Default: each member.")
@json_option
def slots(
    dataset: str, first: date | None, last: date | None, grain: str | None, member: str | None, *, as_json: bool
) -> None:
    """Show which slots of DATASET are complete from day FIRST to LAST, and what the others wait for.

    Without LAST it shows FIRST alone; without both, the last 7 days.
    """
    from feed_assets.datasets.grains import Grain  # noqa: PLC0415 - loaded with the service only
    from feed_assets.dependencies.http.listing import listed_slots  # noqa: PLC0415 - loads msgspec

    installation = load_installation()
    _, states = looked_up(installation)
    today = installation.settings.clock.now().date()
    begin = first or today - timedelta(days=SHOWN_DAYS - 1)
    end = last or first or today
    check_order(begin, end)
    states.refresh()
    found = listed_slots(states, dataset, begin, end, grain=Grain.named(grain) if grain else None, member=member)
    if as_json:
        _print_plain(found)
        return
    one = len({each.member for each in found}) <= 1
    print_table(
        [*(() if one else ("member",)), "slot", "complete", "revision", "records", "expected", "flags", "waits for"],
        [
            (
                *(() if one else (each.member,)),
                each.start,
                MARKS[each.complete],
                each.revision,
                each.accounted if each.accounted or each.expected is not None else None,
                each.expected,
                ", ".join(f"waived: {'; '.join(each.waived)}" if flag == "waived" else flag for flag in each.flags)
                or None,
                each.why or None,
            )
            for each in found
        ],
        empty=f"{dataset} has no slots from {begin} to {end}.",
        keep=("slot", "complete"),
    )


@deps.command()
@click.option("--after", type=click.IntRange(0), help="Show the events after this number. Default: the newest.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="The most events.")
@click.option("--dataset", type=DatasetName(), metavar="DATASET", help="Only the events of this dataset.")
@json_option
def events(after: int | None, limit: int, dataset: str | None, *, as_json: bool) -> None:
    """Show what has changed: slots that were completed or reopened, and why.

    The events after the last one shown are those after its number.
    """
    from feed_assets.dependencies.http.listing import listed_events  # noqa: PLC0415 - loads msgspec

    _, states = looked_up(load_installation())
    found = listed_events(states, after, limit=limit, dataset=dataset)
    if as_json:
        _print_plain(found)
        return
    print_table(
        ["number", "time", "event", "slots", "revision", "why"],
        [
            (
                str(each.sequence),
                datetime.fromisoformat(each.at),
                each.kind,
                _range(each.details),
                each.details.get("revision"),
                each.details.get("reason") or ", ".join(each.details.get("flags", ())) or None,
            )
            for each in found
        ],
        empty="There are no such events." if states.datasets else NOTHING,
        keep=("number", "event"),
    )


def _range(details: Mapping[str, Any]) -> str:
    """The slots of an event, for people."""
    if "first" not in details:
        about = [details.get(name) for name in ("flow", "slot")]
        return " ".join(str(each) for each in about if each) or str(details.get("dataset", ""))
    words = [details["dataset"], details["member"], details["grain"], details["first"]]
    if details["count"] > 1:
        words.append(f"to {details['last']}")
    return " ".join(map(str, words))


def _print_plain(found: object) -> None:
    from msgspec import to_builtins  # noqa: PLC0415 - loaded with the service only

    print_json(to_builtins(found))


def _plain(verdict: Verdict, states: Dependencies) -> dict[str, object]:
    from feed_assets.dependencies.outputs import output_of  # noqa: PLC0415 - loaded with the service only

    case, output = verdict.case, output_of(states, verdict.case.slot)
    return {
        "flow": case.flow,
        "slot": str(case.slot),
        "in_force": case.in_force,
        "may_start": verdict.held is None and bool(case.behind),
        "sentence": verdict.sentence,
        "asks": verdict.asks,
        "digest": case.digest,
        "gives_up": verdict.gives_up,
        "stages": [{"stage": str(each.stage), "holds": each.holds, "why": each.why} for each in verdict.stages],
        "inputs": [
            {
                "slot": str(each.slot),
                "complete": each.complete,
                "revision": each.revision,
                "quality": str(each.quality),
                "optional": each.optional,
                "why": each.why,
                "marks": [_plain_path(path) for path in each.marks],
            }
            for each in case.inputs
        ],
        "marks": [_plain_path(path) for path in states.quality.why_bad(case.slot)] if case.in_force else [],
        "output": output.plain if output else None,
    }


def _plain_path(path: MarkPath) -> dict[str, object]:
    return {
        **_plain_mark(path.mark),
        "path": [{"slot": str(slot), "revision": revision} for slot, revision in path.path],
        "outdated": [{"slot": str(slot), "revision": revision} for slot, revision in path.outdated],
    }


@deps.command()
@click.argument("dataset", type=DatasetName())
@click.argument("slot")
@click.option("--reason", metavar="TEXT", required=True, help="Why it is bad, for those who read it later.")
@click.option("--member", metavar="MEMBER", default=NO_MEMBER, help="Only this member, such as a source.")
@click.option("--by", metavar="NAME", help="Who says so. Default: your user name.")
@click.option("--evidence", metavar="TEXT", default="", help="Numbers, or an address with more.")
@json_option
def mark(dataset: str, slot: str, reason: str, member: str, by: str | None, evidence: str, *, as_json: bool) -> None:
    """Mark the present revision of SLOT of DATASET as bad, with all that was computed from it.

    DATASET is `raw/KIND`, the location of a feed, or its asset. SLOT is a day such as 2026-11-27, an hour such as
    2026-11-27T15, a week 2026-W48 or a month 2026-11. Flows that take bad data go on; others wait. A newer revision of
    the slot has no mark, and results that are computed from that have none.
    """
    installation = load_installation()
    flows, states = known(installation)
    marked = dataset_named(flows, states, dataset).slot(slot, member)
    author, now = Author.person(by or login_name()), installation.settings.clock.now()
    made = states.quality.mark(marked, reason=reason, author=author, evidence=evidence, now=now)
    keep_copy(installation, states)
    if as_json:
        print_json(_plain_mark(made))
        return
    print_text(f"{made.on} is bad: {made.reason} ({made.author}). `feed-assets deps unmark {made.id}` takes that back.")


@deps.command()
@click.argument("mark_id", metavar="MARK")
@click.option("--reason", metavar="TEXT", required=True, help="Why it is not bad, for those who read it later.")
@click.option("--by", metavar="NAME", help="Who says so. Default: your user name.")
@json_option
def unmark(mark_id: str, reason: str, by: str | None, *, as_json: bool) -> None:
    """Take MARK back, and from all that was computed from its slot. Other marks stay; `deps marks` lists them."""
    installation = load_installation()
    _, states = looked_up(installation)
    author, now = Author.person(by or login_name()), installation.settings.clock.now()
    gone = states.quality.unmark(mark_id, reason=reason, author=author, now=now)
    keep_copy(installation, states)
    if as_json:
        print_json(_plain_mark(gone))
        return
    print_text(f"The mark {gone.id} on {gone.on} is removed: {reason} ({author}).")


@deps.command()
@click.argument("dataset", required=False, type=DatasetName())
@json_option
def marks(dataset: str | None, *, as_json: bool) -> None:
    """List the marks that hold, oldest first; of DATASET only those that are set on it."""
    flows, states = looked_up(load_installation())
    name = dataset_named(flows, states, dataset).name if dataset else None
    found = [each for each in states.quality.marks() if name in {None, each.on.slot.dataset}]
    if as_json:
        print_json([_plain_mark(each) for each in found])
        return
    print_table(
        ["mark", "slot", "revision", "present", "reason", "by", "at"],
        [
            (
                each.id,
                str(each.on.slot),
                each.on.revision,
                states.answer(each.on.slot).revision,
                each.reason,
                str(each.author),
                _time(each.signature.at),
            )
            for each in found
        ],
        empty="No mark holds.",
        keep=("mark", "slot", "reason"),
    )


def _plain_mark(mark: Mark) -> dict[str, object]:
    plain = {
        "id": mark.id,
        "slot": str(mark.on.slot),
        "revision": mark.on.revision,
        "evidence": mark.evidence,
        **_plain_signature(mark.signature),
    }
    return plain | ({"removed": _plain_signature(mark.removal)} if mark.removal else {})


def _plain_signature(signature: Signature) -> dict[str, object]:
    return {"by": str(signature.author), "at": moment_of(signature.at), "reason": signature.reason}


def _time(at: int) -> str:
    return f"{moment_of(at):%Y-%m-%d %H:%M}"
