"""`feed-assets deps start | attempts | pause | resume | flows`: starts that people force, and flows that they stop.

Here: the commands. Not here: attempts and pauses (`starts`), and the run of a forced start (the sensor `starts`).
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from feed_assets.cli.feed_place import login_name
from feed_assets.cli.installation import Installation, load_installation
from feed_assets.cli.known_datasets import known, looked_up
from feed_assets.cli.output import json_option, print_json, print_table, print_text, say

if TYPE_CHECKING:
    from feed_assets.sensors.flows import Flows
    from feed_assets.starts.attempt import Attempt
    from feed_assets.starts.attempts import Attempts
    from feed_assets.starts.pauses import Pause, Pauses
    from feed_assets.state.store import Store

BY = click.option("--by", metavar="NAME", help="Who says so. Default: your user name.")


@click.command()
@click.argument("flow")
@click.argument("partition")
@click.option("--reason", metavar="TEXT", required=True, help="Why, for those who read it later.")
@BY
@json_option
def start(flow: str, partition: str, reason: str, by: str | None, *, as_json: bool) -> None:
    """Start PARTITION of FLOW, whatever the gate says: the next tick of the sensor `starts` asks Dagster for its run.

    It is refused while another attempt lives. It publishes anew, also if its inputs have a result.
    """
    installation = load_installation()
    flows, _ = known(installation)
    feed = _feed(flows, flow, partition)
    if not flows.feeds.has(feed, partition):
        raise click.ClickException(f"{flow} {partition} has not ended, so it cannot start.")
    made = _attempts(installation).ask(feed, partition, by=by or login_name(), reason=reason)
    if as_json:
        print_json(_plain(made))
        return
    print_text(f"{made.title} is requested ({made.forced}: {reason}). The next tick of the sensor `starts` runs it.")


@click.command()
@click.argument("flow")
@click.argument("partition")
@json_option
def attempts(flow: str, partition: str, *, as_json: bool) -> None:
    """List the attempts at PARTITION of FLOW, oldest first: why each was requested, its run, and how it ended."""
    from feed_assets.dependencies.state_copy import StateCopy  # noqa: PLC0415 - loads SQLAlchemy

    installation = load_installation()
    flows, states = looked_up(installation)
    found = _attempts(installation).of(_feed(flows, flow, partition), partition)
    if (again := StateCopy(states, installation.blackboard).restored()) is not None:
        say(
            f"Attempts before {again:%Y-%m-%d %H:%M} are not known: then `feed-assets state rebuild` made the state "
            "database again, from a copy that has none."
        )
    if as_json:
        print_json([_plain(each) for each in found])
        return
    print_table(
        ["attempt", "state", "try", "requested", "ended", "forced by", "run", "why"],
        [
            (
                each.number,
                str(each.state),
                f"{each.tries} of {each.most}",
                _time(each.requested),
                _time(each.ended),
                each.forced or None,
                each.run[:8] or None,
                each.reason or None,
            )
            for each in found
        ],
        empty=f"Nobody has requested {flow} {partition}.",
    )


@click.command()
@click.argument("flow")
@click.option("--reason", metavar="TEXT", required=True, help="Why, for those who read it later.")
@BY
@json_option
def pause(flow: str, reason: str, by: str | None, *, as_json: bool) -> None:
    """Pause FLOW: it starts nothing by itself until `feed-assets deps resume`. Runs under way go on.

    Nothing is lost: what may start is computed from what is there. `trigger(catch_up=...)` says what starts then.
    """
    installation = load_installation()
    made = _pauses(installation).pause(_feed(known(installation)[0], flow), by=by or login_name(), reason=reason)
    _say(made, f"{flow} is {made.sentence}.", as_json=as_json)


@click.command()
@click.argument("flow")
@BY
@json_option
def resume(flow: str, by: str | None, *, as_json: bool) -> None:
    """End the pause of FLOW."""
    installation = load_installation()
    ended = _pauses(installation).resume(_feed(known(installation)[0], flow), by=by or login_name())
    if ended is None:
        raise click.ClickException(f"{flow} is not paused. `feed-assets deps flows` lists the flows that are.")
    _say(ended, f"{flow} goes on. It was {ended.sentence}.", as_json=as_json)


@click.command("flows")
@json_option
def list_flows(*, as_json: bool) -> None:
    """List the flows, what their triggers say, what of them is under way, and which are paused.

    The column `trigger` has the options of trigger() that differ from their defaults; --json has all of them.
    """
    installation = load_installation()
    flows, pauses = looked_up(installation)[0], _pauses(installation).all()
    alive = [each.flow for each in _attempts(installation).alive()]
    rows = [
        (
            flows.feeds.feeds[feed].name,
            feed,
            alive.count(feed),
            pauses[feed].sentence if feed in pauses and pauses[feed].lasts else None,
        )
        for feed in flows.triggers
    ]
    if as_json:
        keys = ("flow", "feed", "under_way", "paused")
        print_json(
            [{**dict(zip(keys, row, strict=True)), "trigger": flows.triggers[row[1]].to_plain()} for row in rows]
        )
        return
    print_table(
        ["flow", "feed", "trigger", "under way", "paused"],
        [(*row[:2], flows.triggers[row[1]].text or None, *row[2:]) for row in rows],
        empty="No asset of this project has a trigger: add trigger() to its metadata.",
    )


COMMANDS = (start, attempts, pause, resume, list_flows)


def _feed(flows: Flows, name: str, partition: str | None = None) -> str:
    """The feed of a flow. Raises UnknownFlowError, also for a partition that it does not have."""
    from feed_assets.operations.gate_answers import flow_named, require_partition  # noqa: PLC0415 - loads Dagster

    feed = flow_named(flows, name)
    if partition is not None:
        require_partition(flows, feed, partition)
    return feed


def _store(installation: Installation) -> Store:
    from feed_assets.state.store import Store  # noqa: PLC0415 - loads SQLAlchemy

    return Store(installation.settings.state)


def _attempts(installation: Installation) -> Attempts:
    from feed_assets.starts.attempts import Attempts  # noqa: PLC0415 - loads SQLAlchemy

    return Attempts(_store(installation), installation.blackboard.uri(""), installation.settings.clock.now)


def _pauses(installation: Installation) -> Pauses:
    from feed_assets.starts.pauses import Pauses  # noqa: PLC0415 - loads SQLAlchemy

    return Pauses(_store(installation), installation.blackboard.uri(""), installation.settings.clock.now)


def _say(pause: Pause, sentence: str, *, as_json: bool) -> None:
    if as_json:
        until = pause.until.isoformat() if pause.until else None
        print_json({"flow": pause.flow, "since": pause.since, "until": until, "by": pause.by, "reason": pause.reason})
        return
    print_text(sentence)


def _plain(attempt: Attempt) -> dict[str, object]:
    return {
        "flow": attempt.flow,
        "partition": attempt.slot,
        "attempt": attempt.number,
        "state": str(attempt.state),
        "tries": attempt.tries,
        "most": attempt.most,
        "requested": attempt.requested,
        "started": attempt.started,
        "ended": attempt.ended,
        "forced_by": attempt.forced or None,
        "run": attempt.run or None,
        "reason": attempt.reason,
    }


def _time(at: datetime | None) -> str | None:
    return f"{at:%Y-%m-%d %H:%M:%S}" if at else None
