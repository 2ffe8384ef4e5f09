"""`feed-assets deps ...`: what is complete and good, and what may therefore start.

Here: the commands. Not here: the answers (`operations.gate_answers`, `dependencies`), and serving them (`serve`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from feed_assets.cli.clock import DayParameter, OptionalDay, check_order
from feed_assets.cli.installation import Installation, load_installation
from feed_assets.cli.output import json_option, print_json, print_table, print_text, say

if TYPE_CHECKING:
    from feed_assets.dependencies.gate import Verdict
    from feed_assets.dependencies.service import Dependencies
    from feed_assets.sensors.flows import Flows

SHOWN_DAYS = 7
NOTHING = "No asset of this project has a trigger: add trigger() to its metadata."
COMPLETE_WHEN = {
    "assumed": "buffer is over",
    "published": "update in force",
    "covered": "positions covered",
    "counted": "records counted",
}
MARKS = {True: "yes", False: "no", None: "-"}


@click.group()
def deps() -> None:
    """What is complete and good, and what may therefore start."""


@deps.command()
@click.argument("flow")
@click.argument("partition")
@json_option
def explain(flow: str, partition: str, *, as_json: bool) -> None:
    """Why PARTITION of FLOW runs, or does not run yet: each condition in order, and each input.

    FLOW is an asset with a trigger, or the location of its feed.
    """
    from feed_assets.operations.gate_answers import explain_flow  # noqa: PLC0415 - loads Dagster

    installation = load_installation()
    flows, states = _known(installation)
    now = installation.settings.clock.now()
    verdict = explain_flow(installation.blackboard, flows, states, installation.sources, flow, partition, now=now)
    if as_json:
        print_json(_plain(verdict))
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
        ["input", "complete", "revision", "quality", "waits for"],
        [
            (str(each.slot), MARKS[each.complete], each.revision, str(each.quality), each.why or None)
            for each in verdict.case.inputs
        ],
        empty="It reads nothing that has slots.",
    )


@deps.command()
@json_option
def datasets(*, as_json: bool) -> None:
    """List the datasets that flows with a trigger make and read, and when their slots count as complete."""
    from feed_assets.dependencies.http_answers import dataset_says  # noqa: PLC0415 - loads msgspec

    flows, states = _known(load_installation())
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
@click.argument("dataset")
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
    from feed_assets.dependencies.slot_listing import listed_slots  # noqa: PLC0415 - loads msgspec

    installation = load_installation()
    _, states = _known(installation)
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
                ", ".join(each.flags) or None,
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
@click.option("--dataset", help="Only the events of this dataset.")
@json_option
def events(after: int | None, limit: int, dataset: str | None, *, as_json: bool) -> None:
    """Show what has changed: slots that were completed or reopened, and why.

    The events after the last one shown are those after its number.
    """
    from feed_assets.dependencies.slot_listing import listed_events  # noqa: PLC0415 - loads msgspec

    _, states = _known(load_installation())
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
        return str(details.get("slot") or details["dataset"])
    words = [details["dataset"], details["member"], details["grain"], details["first"]]
    if details["count"] > 1:
        words.append(f"to {details['last']}")
    return " ".join(map(str, words))


def _print_plain(found: object) -> None:
    from msgspec import to_builtins  # noqa: PLC0415 - loaded with the service only

    print_json(to_builtins(found))


def _known(installation: Installation) -> tuple[Flows, Dependencies]:
    from feed_assets.sensors.flows import Flows  # noqa: PLC0415 - loads Dagster
    from feed_assets.state.store import Store  # noqa: PLC0415 - loads SQLAlchemy

    settings = installation.settings
    flows = Flows.of(installation.feeds, installation.sources, settings.first_day)
    return flows, flows.states(Store(settings.state), installation.blackboard)


def _plain(verdict: Verdict) -> dict[str, object]:
    case = verdict.case
    return {
        "flow": case.flow,
        "slot": str(case.slot),
        "in_force": case.in_force,
        "may_start": verdict.held is None and bool(case.behind),
        "sentence": verdict.sentence,
        "stages": [{"stage": str(each.stage), "holds": each.holds, "why": each.why} for each in verdict.stages],
        "inputs": [
            {
                "slot": str(each.slot),
                "complete": each.complete,
                "revision": each.revision,
                "quality": str(each.quality),
                "optional": each.optional,
                "why": each.why,
            }
            for each in case.inputs
        ],
    }
