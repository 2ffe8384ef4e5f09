"""`feed-assets deps ...`: what is complete and good, and what may therefore start.

Here: the commands. Not here: the answers (`operations.gate_answers`, `dependencies`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from feed_assets.cli.feed_place import login_name
from feed_assets.cli.installation import Installation, load_installation
from feed_assets.cli.output import json_option, print_json, print_table, print_text, say
from feed_assets.datasets.instants import moment_of
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.dependencies.marks import Author

if TYPE_CHECKING:
    from feed_assets.datasets.dataset import Dataset
    from feed_assets.dependencies.gate import Verdict
    from feed_assets.dependencies.marks import Mark, Signature
    from feed_assets.dependencies.quality_states import MarkPath
    from feed_assets.dependencies.service import Dependencies
    from feed_assets.sensors.flows import Flows

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
            (str(each.slot), MARKS[each.complete], each.revision, str(each.quality), each.why or None)
            for each in verdict.case.inputs
        ],
        empty="It reads nothing that has slots.",
    )
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


def _known(installation: Installation) -> tuple[Flows, Dependencies]:
    from feed_assets.sensors.flows import Flows  # noqa: PLC0415 - loads Dagster
    from feed_assets.state.store import Store  # noqa: PLC0415 - loads SQLAlchemy

    settings = installation.settings
    flows = Flows.of(installation.feeds, installation.sources, settings.first_day)
    return flows, flows.states(Store(settings.state), installation.blackboard)


def _plain(verdict: Verdict, states: Dependencies) -> dict[str, object]:
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
                "marks": [_plain_path(path) for path in each.marks],
            }
            for each in case.inputs
        ],
        "marks": [_plain_path(path) for path in states.quality.why_bad(case.slot)] if case.in_force else [],
    }


def _plain_path(path: MarkPath) -> dict[str, object]:
    return {
        **_plain_mark(path.mark),
        "path": [{"slot": str(slot), "revision": revision} for slot, revision in path.path],
        "outdated": [{"slot": str(slot), "revision": revision} for slot, revision in path.outdated],
    }


@deps.command()
@click.argument("dataset")
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
    flows, states = _known(installation)
    marked = _dataset(flows, states, dataset).slot(slot, member)
    author, now = Author.person(by or login_name()), installation.settings.clock.now()
    made = states.quality.mark(marked, reason=reason, author=author, evidence=evidence, now=now)
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
    _, states = _known(installation)
    author, now = Author.person(by or login_name()), installation.settings.clock.now()
    gone = states.quality.unmark(mark_id, reason=reason, author=author, now=now)
    if as_json:
        print_json(_plain_mark(gone))
        return
    print_text(f"The mark {gone.id} on {gone.on} is removed: {reason} ({author}).")


@deps.command()
@click.argument("dataset", required=False)
@json_option
def marks(dataset: str | None, *, as_json: bool) -> None:
    """List the marks that hold, oldest first; of DATASET only those that are set on it."""
    flows, states = _known(load_installation())
    name = _dataset(flows, states, dataset).name if dataset else None
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


def _dataset(flows: Flows, states: Dependencies, name: str) -> Dataset:
    """A dataset by its name, or by that of its asset."""
    if not states.datasets:
        raise click.ClickException("No asset of this project has a trigger: add trigger() to its metadata.")
    return states.dataset(next((place for place, node in flows.feeds.feeds.items() if node.name == name), name))


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
