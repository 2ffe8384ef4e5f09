"""`feed-assets deps questions` and `deps answer`: what flows ask persons, and their answers.

Here: the commands. Not here: when a flow asks, and the record (`dependencies.gate`).
"""

from __future__ import annotations

import click

from feed_assets.cli.feed_place import login_name
from feed_assets.cli.installation import load_installation
from feed_assets.cli.known_datasets import known, looked_up
from feed_assets.cli.output import json_option, print_json, print_table, print_text
from feed_assets.datasets.slots import start_text

REPLIES = ("rerun", "keep")
"""The names of `dependencies.gate.decision.Reply`, which takes long to load."""


@click.command()
@json_option
def questions(*, as_json: bool) -> None:
    """List the slots that ask whether they run again: their inputs were reopened after they ran.

    Flows with trigger(on_rerun="ask") ask. `feed-assets deps answer` answers.
    """
    from feed_assets.dependencies.gate.questions import Questions  # noqa: PLC0415 - loads the database

    _, states = looked_up(load_installation())
    states.refresh()
    found = Questions(states).open()
    if as_json:
        print_json([each.to_plain() | {"asked": each.asked} for each in found])
        return
    print_table(
        ["flow", "slot", "asked", "update", "why"],
        [
            (each.flow, start_text(each.slot.grain, each.slot.start), each.asked, each.update, each.why)
            for each in found
        ],
        empty="Nothing is asked.",
        keep=("flow", "slot"),
    )


@click.command()
@click.argument("flow")
@click.argument("partition", metavar="SLOT")
@click.argument("reply", type=click.Choice(REPLIES))
@click.option("--by", metavar="NAME", help="Who says so. Default: your user name.")
@click.option("--reason", metavar="TEXT", default="", help="Why, for those who read it later.")
@click.option(
    "--digest", metavar="DIGEST", help="The inputs that you have seen, as `deps questions --json` names them."
)
@json_option
def answer(
    flow: str, partition: str, reply: str, by: str | None, reason: str, digest: str | None, *, as_json: bool
) -> None:
    """Answer whether SLOT of FLOW runs again with its inputs as they are now: rerun, or keep its result.

    If an input is reopened once more, the flow asks again. An answer may be changed until the flow runs.
    """
    from feed_assets.dependencies.gate.decision import Reply  # noqa: PLC0415 - loaded with the service only
    from feed_assets.dependencies.gate.questions import Questions  # noqa: PLC0415 - loads the database
    from feed_assets.operations.gate_answers import explain_flow  # noqa: PLC0415 - loads Dagster

    installation = load_installation()
    flows, states = known(installation)
    states.refresh()
    now, sources = installation.settings.clock.now(), installation.sources
    verdict = explain_flow(installation.blackboard, flows, states, sources, flow, partition, now=now)
    name = by or login_name()
    new = Questions(states).answer(verdict, Reply(reply), by=name, reason=reason, digest=digest, now=now)
    if as_json:
        print_json({"flow": verdict.case.flow, "slot": str(verdict.case.slot), "reply": reply, "by": name, "new": new})
        return
    then = "runs again" if reply == Reply.RERUN else f"keeps update {verdict.case.in_force}"
    print_text(f"{verdict.case.flow} {partition} {then}, {'as answered' if new else 'as answered before'} by {name}.")


COMMANDS = (questions, answer)
