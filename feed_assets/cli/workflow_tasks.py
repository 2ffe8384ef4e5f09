"""`feed-assets workflow ls | show | explain | insert | pause | ...`: looking at tasks, and orders of people.

Here: the commands that ask the master. Not here: running it, and `apply` (`workflow_command`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from feed_assets.cli.feed_place import login_name
from feed_assets.cli.installation import load_installation
from feed_assets.cli.output import json_option, print_fields, print_json, print_table, print_text, say
from feed_assets.cli.workflow_client import chosen_workflow, client_of, place_of, workflow_option
from feed_assets.file_feed.wording import counted

if TYPE_CHECKING:
    from feed_assets.workflow.client import Client

BY = click.option("--by", metavar="NAME", help="Who says so. Default: your user name.")
REASON = click.option("--reason", metavar="TEXT", required=True, help="Why, for those who read it later.")
PATIENCE: Final = 15.0
"""Seconds that a person waits for a master at most."""


@click.command("ls")
@workflow_option
@click.option("--group", metavar="GROUP", help="List the tasks of this group.")
@click.option("--status", type=click.Choice(["waiting", "leased", "dead"]), help="List the tasks in this state.")
@json_option
def list_tasks(name: str | None, group: str | None, status: str | None, *, as_json: bool) -> None:
    """List the groups and how many tasks they have; with --group or --status the tasks, up to 1,000."""
    client = _client(name)
    if group is None and status is None:
        _list_groups(client, as_json=as_json)
        return
    wanted = {key: value for key, value in (("group", group), ("status", status)) if value}
    found = client.read("tasks", **wanted)
    if as_json:
        print_json(found["tasks"])
        return
    rows = [
        (each["unit"], each["group"], each["status"], each.get("attempt", 0), _age(each["since"]), each["payload"])
        for each in found["tasks"]
    ]
    shown = [(*row[:-1], _short(row[-1])) for row in rows]
    header = ["unit", "group", "state", "attempt", "since", "payload"]
    print_table(header, shown, empty="There are none.", keep=["unit"])
    if found["after"] is not None:
        say("There are more than 1,000: name a group and a state.")


def _list_groups(client: Client, *, as_json: bool) -> None:
    stats = client.read("stats")
    if as_json:
        print_json(stats)
        return
    rows = [
        (
            each["name"],
            each["waiting"],
            each["leased"],
            each["dead"],
            _age(each["oldest"]) if each["oldest"] is not None else None,
            _state(each),
        )
        for each in stats["groups"]
    ]
    header = ["group", "waiting", "leased", "dead", "oldest", "state"]
    print_table(header, rows, empty="There are no stages yet: `feed-assets workflow apply` makes them.", keep=["group"])
    sessions = counted(stats["sessions"], "session")
    say(f"Epoch {stats['epoch']}, position {stats['position']:,}, {sessions} of workers and commands.")


def _state(group: dict[str, Any]) -> str:
    named = {
        "is_interdicted": "interdicted", "is_paused": "paused", "is_full": "full", "is_spent": "retries used up for now"
    }  # fmt: skip
    found = [text for key, text in named.items() if group.get(key)]
    if group["gathering"]:
        found.append(f"{group['gathering']:,} wait for their bundle")
    return ", ".join(found)


@click.command()
@click.argument("unit", type=click.IntRange(1))
@workflow_option
@json_option
def show(unit: int, name: str | None, *, as_json: bool) -> None:
    """Show a task by its unit: its state, its payload, why it failed."""
    task = _client(name).read("unit", unit=unit)["task"]
    if as_json:
        print_json(task)
        return
    print_fields([(each, _text(each, value)) for each, value in task.items()])


@click.command()
@click.argument("unit", type=click.IntRange(1))
@workflow_option
@json_option
def explain(unit: int, name: str | None, *, as_json: bool) -> None:
    """Tell the story of a unit from the journal: each id that it had, who leased it, and what became of it.

    It reads the storage, and needs no master. The journal goes back to the last snapshots.
    """
    from feed_assets.workflow.stories import story_of  # noqa: PLC0415 - only this command needs it

    installation = load_installation()
    flow = chosen_workflow(installation, name)
    found = story_of(place_of(installation, flow), unit)
    if as_json:
        print_json([each.as_json() for each in found])
        return
    rows = [(each.position, _clock(each.at), each.what, each.id or None, each.who[:8] or None) for each in found]
    empty = (
        f"The journal that is kept says nothing of unit {unit}: it was done before the last snapshots, or never was. "
        "Or this is a later id of another unit."
    )
    print_table(["position", "time", "what", "id", "session"], rows, empty=empty, keep=["what"])


@click.command()
@click.argument("stage")
@click.argument("given", nargs=-1, metavar="[FILE|NAME=VALUE]...")
@workflow_option
@click.option("--key", default="", help="At most one task of a stage with this key waits; it has no files.")
@click.option("--priority", type=click.IntRange(0, 9), default=0, show_default=True, help="9 comes first.")
@click.option("--delay", type=click.FloatRange(0, 600), default=0.0, help="Seconds until it may start.")
@json_option
def insert(
    stage: str, given: tuple[str, ...], name: str | None, key: str, priority: int, delay: float, *, as_json: bool
) -> None:
    """Insert a task for STAGE: files of this machine, which are copied below the base, and its payload by NAME=VALUE.

    A VALUE is JSON if it can be, else a text: `feed-assets workflow insert split orders.csv day=2024-05-20`.
    """
    from feed_assets.workflow.calls import Insert  # noqa: PLC0415 - only if it is used
    from feed_assets.workflow.scratch import new_input  # noqa: PLC0415 - as above
    from feed_assets.workflow.tasks import NewTask, problem_of  # noqa: PLC0415 - as above

    installation = load_installation()
    flow = chosen_workflow(installation, name)
    if stage not in flow.stages:
        raise click.BadParameter(f"{stage} is no stage: those are {', '.join(flow.stages)}.", param_hint="STAGE")
    files = [Path(each) for each in given if "=" not in each]
    for each in files:
        if not each.is_file():
            raise click.BadParameter(f"{each} is no file; a value of the payload is NAME=VALUE.", param_hint="FILE")
    payload = dict(_value(each) for each in given if "=" in each)
    keys = [new_input(flow.name, each.name) for each in files]
    task = NewTask(stage, payload, key=key, files=tuple(keys), priority=priority, delay=delay)
    if problem := problem_of(task):
        raise click.ClickException(f"The task cannot be inserted: {problem}.")
    client = client_of(installation, flow, patience=PATIENCE)
    _check_stage(client, stage)  # no file is copied if there is no master, or none that takes it
    for key_of_file, each in zip(keys, files, strict=True):
        installation.blackboard.upload(key_of_file, each)
    answer = client.call(Insert, tasks=(task,)).answer
    if as_json:
        print_json({"unit": answer.ids[0], "was_there": bool(answer.there)})
    elif answer.there:
        print_text(f"A task of {stage} with the key {key} waits already.")
    else:
        print_text(f"Inserted as unit {answer.ids[0]}.")


def _check_stage(client: Client, stage: str) -> None:
    """Raise ClickException if the stage is not in force yet."""
    if stage not in {each["name"] for each in client.read("stats")["groups"]}:
        raise click.ClickException(f"{stage} has no configuration in force: `feed-assets workflow apply` brings it.")


def _value(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    if not name:
        raise click.BadParameter(f"{text[:50]} has no name: a value of the payload is NAME=VALUE.", param_hint="NAME")
    try:
        return name, json.loads(value, parse_constant=_no_number)
    except ValueError:
        return name, value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")  # but Python's parser takes it


def _ordering(order: str, argument: str, text: str, said: str) -> click.Command:
    """A command that gives an order about a group or a unit."""

    def command(target: str, reason: str, by: str | None, name: str | None, *, as_json: bool) -> None:
        from feed_assets.workflow.calls import Command  # noqa: PLC0415 - only if it is used

        _client(name).call(Command, order=order, target=target, by=by or login_name(), reason=reason)
        if as_json:
            print_json({"order": order, "target": target})
        else:
            print_text(said.format(target))

    command.__doc__ = text
    decorated: Callable[..., Any] = click.argument("target", metavar=argument)(command)
    for option in (REASON, BY, workflow_option, json_option):
        decorated = option(decorated)
    return click.command(order)(decorated)


@click.command()
@workflow_option
@json_option
def check(name: str | None, *, as_json: bool) -> None:
    """Replay the journal on the storage, and compare it with the snapshots: nothing is changed, no master is needed.

    Exits with 1 if an entry is damaged or missing, or a snapshot is not what the journal says.
    """
    from feed_assets.workflow.stories import check_journal  # noqa: PLC0415 - only this command needs it

    installation = load_installation()
    found = check_journal(place_of(installation, chosen_workflow(installation, name)))
    if as_json:
        print_json(found.as_json())
    else:
        print_text(found.sentence)


@click.command()
@workflow_option
@click.option(
    "--older-than",
    type=click.FloatRange(1),
    default=24.0,
    show_default=True,
    metavar="HOURS",
    help="Leave younger files.",
)
@click.option("--dry-run", is_flag=True, help="Show the files only.")
@json_option
def sweep(name: str | None, older_than: float, *, dry_run: bool, as_json: bool) -> None:
    """Delete files below scratch/ that no task needs, such as those of workers that were killed.

    The master does that each hour. No master is needed.
    """
    from feed_assets.workflow.sweep import sweep as swept  # noqa: PLC0415 - only this command needs it

    installation = load_installation()
    place = place_of(installation, chosen_workflow(installation, name))
    found = swept(place, now=datetime.now(UTC), orphan_after=timedelta(hours=older_than), dry_run=dry_run)
    if as_json:
        files = [{"key": each.key, "bytes": each.size, "modified": each.modified.isoformat()} for each in found]
        print_json({"files": files, "deleted": not dry_run})
        return
    rows = [(each.key, each.size, f"{each.modified:%Y-%m-%d %H:%M}") for each in found]
    print_table(["file", "bytes", "written"], rows, empty="Each file has an owner, or is younger.", keep=["file"])
    if found:
        what = counted(len(found), "file")
        say(f"{what} without an owner. Nothing was deleted, as --dry-run says." if dry_run else f"Deleted {what}.")


def _client(name: str | None) -> Client:
    installation = load_installation()
    return client_of(installation, chosen_workflow(installation, name), patience=PATIENCE)


def _age(since: float) -> str:
    seconds = max(0, int(datetime.now(UTC).timestamp() - since))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"


def _short(payload: Any) -> str:
    return json.dumps(payload)[:80]


def _text(name: str, value: Any) -> Any:
    if name == "since":
        return _clock(value)
    if isinstance(value, list):
        return "; ".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict) else value


TASK_COMMANDS: Final = (
    list_tasks,
    show,
    explain,
    insert,
    check,
    sweep,
    _ordering(
        "pause", "GROUP|all", "Lease no tasks of GROUP any more; what is under way is committed.", "{} is paused."
    ),
    _ordering("resume", "GROUP|all", "End the pause of GROUP.", "{} goes on."),
    _ordering(
        "interdict",
        "GROUP|all",
        "Lease no tasks of GROUP, and let nothing of it be committed, until `lift`. It outlives restarts.",
        "{} is interdicted.",
    ),
    _ordering("lift", "GROUP|all", "End the interdiction of GROUP.", "{} is free."),
    _ordering("retry", "UNIT", "Try a dead task again, from its first attempt.", "Unit {} waits again."),
    _ordering("drop", "UNIT", "Give a task up for good. Its bundle gets it as an empty one.", "Unit {} is given up."),
)
