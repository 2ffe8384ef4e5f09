"""`feed-assets deps ...`: what is complete and good, and what may therefore start.

Here: the commands. Not here: the answers (`operations.gate_answers`, `dependencies`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from feed_assets.cli.installation import Installation, load_installation
from feed_assets.cli.output import json_option, print_json, print_table, print_text, say

if TYPE_CHECKING:
    from feed_assets.dependencies.gate import Verdict
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
