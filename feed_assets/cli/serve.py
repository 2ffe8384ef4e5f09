"""`feed-assets serve`: pages and an API of data dependencies, workflows, runs and sources, and the tokens for programs.

Here: the commands. Not here: the answers (`dependencies.http.operations`), and the page (`web`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import click

from feed_assets.cli.clock import Deadline, now
from feed_assets.cli.installation import Installation, find_dagster_home, load_installation
from feed_assets.cli.listening import check_certificate, listen
from feed_assets.cli.output import complain, json_option, print_json, print_table, say
from feed_assets.cli.tokens import check_new_token, expiry, minute, revoke_token

if TYPE_CHECKING:
    import dagster as dg

    from feed_assets.serving.tables import Token

PORT = 8090
VARIABLES = "FEED_ASSETS_SERVE"


@click.group(invoke_without_command=True, context_settings={"auto_envvar_prefix": VARIABLES})
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", "-p", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Port; 0 is a free one."
)
@click.option("--tls-certificate", type=click.Path(exists=True, dir_okay=False), help="Certificate chain, in PEM.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="The certificate's key, in PEM.")
@json_option
@click.pass_context
def serve(
    ctx: click.Context,
    /,
    host: str,
    port: int,
    tls_certificate: str | None,
    tls_key: str | None,
    *,
    as_json: bool,
) -> None:
    """Serve pages on what is complete and waits, workflows, runs and sources, and their API, until SIGTERM or Ctrl-C.

    The pages are at /, /workflows, /runs and /sources, the API is documented at /docs. Without tokens, only this
    machine may ask. With --json, a line on stdout names the address as soon as it answers. Each option is a variable,
    too, such as FEED_ASSETS_SERVE_PORT.
    """
    if ctx.invoked_subcommand is not None:
        return
    from feed_assets.cli.request_command import request_says  # noqa: PLC0415 - as below
    from feed_assets.cli.source_status import standing_of  # noqa: PLC0415 - loads Dagster
    from feed_assets.dependencies.state_copy import StateCopy  # noqa: PLC0415 - as above
    from feed_assets.operations.flow_answers import ProjectFlows  # noqa: PLC0415 - loads Dagster
    from feed_assets.sensors.ended_runs import deadlines  # noqa: PLC0415 - as above
    from feed_assets.sensors.flows import Flows  # noqa: PLC0415 - as above
    from feed_assets.state.store import Store  # noqa: PLC0415 - loads SQLAlchemy
    from feed_assets.web.running import run  # noqa: PLC0415 - loads the server
    from feed_assets.web.watched_workflows import WatchedWorkflows  # noqa: PLC0415 - loads the HTTP client
    from feed_assets.workflow.settings import WorkflowSettings  # noqa: PLC0415 - as above

    installation = load_installation()
    settings = installation.settings
    tls = check_certificate(tls_certificate, tls_key)
    _check_host(installation, host, encrypted=tls is not None)

    def load() -> Flows:
        return Flows.of(installation.feeds, installation.sources, settings.first_day, installation.project.datasets)

    flows, store = load(), Store(settings.state)
    workflows = WatchedWorkflows.of(
        installation.workflows, settings.base, WorkflowSettings.read(os.environ).workflow_token
    )
    if not flows.datasets and not workflows.flows:
        complain(
            "No asset of this project has a trigger, so the page on data dependencies is empty: add trigger() to its "
            "metadata."
        )
    states = flows.states(store, installation.blackboard)
    listening = listen("The service", host, port)
    shown = f"[{host}]" if ":" in host else host
    url = f"http{'s' if tls else ''}://{shown}:{listening.getsockname()[1]}"

    def ready() -> None:
        others = ["runs", "sources", *(["workflows"] if workflows.flows else [])]
        more = ", ".join(f"{each} at {url}/{each}" for each in others)
        say(f"The page is at {url}/; {more}; its API at {url}/docs. Ctrl-C ends it.")
        if as_json:
            print_json({"url": url, "host": host, "port": listening.getsockname()[1]})

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    clock = settings.clock.now
    with _instance(settings.base) as instance:
        answers = ProjectFlows(load, states, installation.blackboard, installation.sources, clock, instance)
        base, copy = installation.blackboard.uri(""), StateCopy(states, installation.blackboard)
        run(
            store, base, states, answers, listening, now=clock, ready=ready, tls=tls, copy=copy, workflows=workflows,
            deadlines=deadlines(installation.feeds),
            sources=partial(standing_of, installation, store, instance, installation.sources),
            requests=partial(request_says, installation),
        )  # fmt: skip
    say("Stopped.")


@contextmanager
def _instance(base: str) -> Iterator[dg.DagsterInstance | None]:
    """Dagster's instance, which knows the runs; None if there is none yet."""
    home = find_dagster_home(base)
    if home is None:
        say("There is no Dagster home yet, so no runs are shown.")
        yield None
        return
    from feed_assets.operations.day_runs import instance_at  # noqa: PLC0415 - loads Dagster

    with instance_at(home, {}) as instance:
        yield instance


def _check_host(installation: Installation, host: str, *, encrypted: bool) -> None:
    """Raise ClickException if everybody could ask, or nobody."""
    from feed_assets.serving.addresses import is_loopback  # noqa: PLC0415 - small, but of the server

    if is_loopback(host):
        return
    if not any(each.is_valid(now()) for each in _stored(installation)):
        raise click.ClickException(
            f"There is no valid token, so nobody could ask at {host}: `feed-assets serve tokens add --name NAME "
            "--grant 'read:*'` makes one. Without tokens, the service answers its own machine only: leave --host out."
        )
    if not encrypted:
        complain(f"Warning: tokens cross the network to {host} unencrypted: use TLS, or a proxy that does.")


def _stored(installation: Installation) -> list[Token]:
    """The tokens of this service: those with grants."""
    from feed_assets.serving.grants import grants  # noqa: PLC0415 - small, but of the server
    from feed_assets.serving.tables import tokens as stored  # noqa: PLC0415 - loads the database
    from feed_assets.state.store import Store  # noqa: PLC0415 - as above

    return [each for each in stored(Store(installation.settings.state)) if grants(each.scopes)]


@serve.group("tokens")
def tokens() -> None:
    """Add, list and revoke the tokens with which programs and people ask the service."""


@tokens.command("add")
@click.option("--name", required=True, help="Whose token it is.")
@click.option(
    "--grant",
    "scopes",
    required=True,
    multiple=True,
    metavar="VERB:NAME",
    help="What it may do: read, report, expect, mark or start a dataset; read, work for or control a workflow. The "
    "name is one dataset or workflow, all below a name (raw/*), or *. May be repeated.",
)
@click.option("--expires", type=Deadline(), help="A time, or a span such as 90d. Default: when it is revoked.")
def add(name: str, scopes: tuple[str, ...], expires: datetime | None) -> None:
    """Print a new token. It is shown once: only a digest of it is stored.

    Somebody has up to two valid tokens, so that one can replace the other.
    """
    from feed_assets.serving.tokens import TooManyTokensError, add_token  # noqa: PLC0415 - loads the database
    from feed_assets.state.store import Store  # noqa: PLC0415 - as above

    check_new_token(name, expires, parameter="--name")
    for each in scopes:
        _check_grant(each)
    store = Store(load_installation().settings.state)
    try:
        text = add_token(store, name, dict.fromkeys(scopes), now=now(), expires=expires)
    except TooManyTokensError as error:
        raise click.ClickException(f"{error} `feed-assets serve tokens revoke {error.ids[0]}` does.") from None
    say(f"{name} may do {', '.join(scopes)} with this token, which is not shown again:")
    click.echo(text)


def _check_grant(scope: str) -> None:
    """Raise BadParameter if this is no grant."""
    from feed_assets.datasets.names import name_fault  # noqa: PLC0415 - loaded with the service only
    from feed_assets.dependencies.http.verbs import Verb  # noqa: PLC0415 - as above
    from feed_assets.serving.grants import ALL, Grant  # noqa: PLC0415 - as above
    from feed_assets.workflow.roles import CONTROL, WORK  # noqa: PLC0415 - as above

    found, verbs = Grant.of(scope), [*Verb, WORK, CONTROL]
    if found is None or found.verb not in verbs:
        raise click.BadParameter(
            f"{scope!r} is no grant: write one of {', '.join(verbs)}, a colon and a dataset or a workflow, such as "
            "'read:raw/*'.",
            param_hint="--grant",
        )
    if found.names != ALL and (fault := name_fault(found.names.removesuffix("/*"), path=True)):
        raise click.BadParameter(f"{scope!r} names no dataset: {fault}.", param_hint="--grant")


@tokens.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """List the tokens that were not revoked, without their secrets."""
    found = _stored(load_installation())
    if as_json:
        print_json(
            [
                {"id": each.id, "name": each.owner, "grants": each.scopes}
                | {"created": each.created, "expires": each.expires}
                for each in found
            ]
        )
        return
    rows = [(each.id, each.owner, ", ".join(each.scopes), minute(each.created), expiry(each.expires)) for each in found]
    print_table(["token", "name", "grants", "created", "expires"], rows, empty="There is no token.", keep=("token",))


@tokens.command("revoke")
@click.argument("token_id", metavar="TOKEN")
def revoke(token_id: str) -> None:
    """Revoke the token of this id, as `tokens list` shows it. A service that runs refuses it within a second."""
    revoke_token(token_id, command="feed-assets serve tokens list")
