"""`feed-assets workflow ...`: running a workflow, and bringing its configuration into force.

Here: the group, the master's and the worker's process, `apply`. Not here: commands about tasks (`workflow_tasks`).
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click

from feed_assets.cli.clock import now
from feed_assets.cli.installation import load_installation, ready_to_compute
from feed_assets.cli.listening import check_certificate, listen
from feed_assets.cli.output import complain, json_option, print_json, print_table, print_text, say
from feed_assets.cli.workflow_client import chosen_workflow, client_of, place_of, workflow_option
from feed_assets.cli.workflow_tasks import TASK_COMMANDS

if TYPE_CHECKING:
    from feed_assets.workflow.flow import Stage

VARIABLES: Final = "FEED_ASSETS_WORKFLOW"


@click.group(context_settings={"auto_envvar_prefix": VARIABLES})
def workflow() -> None:
    """Work that never ends: tasks that flow through stages, each committed exactly once."""


for each in TASK_COMMANDS:
    workflow.add_command(each)


@workflow.command()
@workflow_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", "-p", type=click.IntRange(0, 65535), default=0, show_default=True, help="Port; 0 is a free one."
)
@click.option("--address", help="URL at which clients reach it. Default: made of host and port.")
@click.option("--tls-certificate", type=click.Path(exists=True, dir_okay=False), help="Certificate chain, in PEM.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="The certificate's key, in PEM.")
@json_option
def serve(
    name: str | None,
    host: str,
    port: int,
    address: str | None,
    tls_certificate: str | None,
    tls_key: str | None,
    *,
    as_json: bool,
) -> None:
    """Run the task master of a workflow, until SIGTERM or Ctrl-C.

    Start it twice, on two machines, for one that takes over: the second waits until the first is gone. Workers find
    whichever it is on the storage. Without tokens, only this machine may ask.
    """
    from feed_assets.serving.addresses import is_loopback  # noqa: PLC0415 - loads the server
    from feed_assets.serving.tokens import KnownTokens  # noqa: PLC0415 - loads the database
    from feed_assets.state.store import Store  # noqa: PLC0415 - as above
    from feed_assets.workflow.fitness import check_store  # noqa: PLC0415 - only if it is used
    from feed_assets.workflow.places import open_board  # noqa: PLC0415 - as above
    from feed_assets.workflow.running import run_master  # noqa: PLC0415 - loads the server

    installation = load_installation()
    flow = chosen_workflow(installation, name)
    tls = check_certificate(tls_certificate, tls_key)
    tokens = KnownTokens(Store(installation.settings.state))
    tokens.refresh()
    if not is_loopback(host):
        if not tokens.have_grants:
            raise click.ClickException(
                f"There is no token, so nobody could ask at {host}: `feed-assets serve tokens add --name NAME --grant "
                f"work:{flow.name}` makes one for workers, control:{flow.name} one for people."
            )
        if tls is None:
            complain(f"Warning: tokens cross the network to {host} unencrypted: use TLS, or a proxy that does.")
    listening = listen("The master", host, port)
    shown = f"[{host}]" if ":" in host else host
    url = address or f"http{'s' if tls else ''}://{shown}:{listening.getsockname()[1]}"

    def ready(epoch: int) -> None:
        say(f"This is the master of {flow.name}, epoch {epoch}, at {url}. Ctrl-C ends it.")
        if as_json:
            print_json({"workflow": flow.name, "url": url, "epoch": epoch})

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    check_store(open_board(installation.settings.base))
    place = place_of(installation, flow, create=True)
    run_master(place, listening, url, tokens=tokens, now=now, ready=ready, said=say, tls=tls)
    say("Stopped.")


@workflow.command()
@click.argument("types", nargs=-1)
@workflow_option
@click.option("--until-idle", is_flag=True, help="End when nothing is there to do.")
@json_option
def work(types: tuple[str, ...], name: str | None, *, until_idle: bool, as_json: bool) -> None:
    """Do the work of the stages TYPES, in this order of preference; by default of all stages.

    Start as many workers as there is work for; each may be killed at any time. Ctrl-C ends it after the task at hand; a
    second Ctrl-C at once.
    """
    installation = load_installation()
    flow = chosen_workflow(installation, name)
    stages = [_stage(flow.stages, each) for each in types] or list(flow.stages.values())
    ready_to_compute(installation.settings)
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())

    def interrupt(*_: object) -> None:
        if over.is_set():
            raise KeyboardInterrupt
        say("Ending after the task at hand; Ctrl-C again ends at once.")
        over.set()

    signal.signal(signal.SIGINT, interrupt)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")

    def done(stage: Stage, unit: int, outcome: str) -> None:
        if as_json:
            print_json({"stage": stage.name, "unit": unit, "outcome": outcome})
        else:
            print_text(f"{stage.name} of unit {unit}: {outcome}")

    client = client_of(installation, flow)
    flows = installation.project_workflows
    assert flows is not None  # noqa: S101 - a workflow was chosen from it
    worker = flows.worker(installation.settings, installation.definitions, flow, stages, client, done)
    count = worker.run(over.is_set, until_idle=until_idle)
    if until_idle and worker.reason:
        say(f"Nothing is left for this worker: {worker.reason}.")
    say(f"Stopped after {count} {'task' if count == 1 else 'tasks'}.")


@workflow.command("apply")
@workflow_option
@click.option("--dry-run", is_flag=True, help="Show the difference only.")
@json_option
def bring_into_force(name: str | None, *, dry_run: bool, as_json: bool) -> None:
    """Bring the configuration of the project's stages into force, and show what that changes.

    From then on, no work is committed that was done with another configuration: it is done again.
    """
    from feed_assets.workflow.applying import apply, differences  # noqa: PLC0415 - only if it is used

    installation = load_installation()
    flow = chosen_workflow(installation, name)
    client = client_of(installation, flow)
    found, gone = differences(client, flow)
    if not dry_run:
        apply(client, found)
    if as_json:
        changes = [{"stage": each.stage.name, "changes": each.changes} for each in found]
        print_json({"changes": changes, "not_in_project": gone, "applied": not dry_run})
        return
    rows = [(each.stage.name, *change) for each in found for change in each.changes]
    print_table(["stage", "what", "before", "now"], rows, empty="Nothing has changed.", keep=["stage", "what"])
    for each in gone:
        say(f"{each} is no stage of the project any more; its tasks wait until a worker that has it does them.")
    if dry_run and found:
        say("Nothing was changed, as --dry-run says.")


def _stage(stages: Mapping[str, Stage], name: str) -> Stage:
    if name not in stages:
        raise click.BadParameter(f"{name} is no stage: those are {', '.join(stages)}.", param_hint="TYPES")
    return stages[name]
