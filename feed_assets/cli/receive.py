"""`feed-assets receive`: the server for partners who push events, and the tokens of these partners.

Here: the commands, and where the receiver finds its journal, Spark and sources. Not here: the receiver (`receiving`).
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from feed_assets.cli.clock import Deadline, now
from feed_assets.cli.installation import Installation, load_installation, ready_to_compute
from feed_assets.cli.journal_place import BLACKBOARD, VARIABLES, default_journal
from feed_assets.cli.listening import check_certificate, listen
from feed_assets.cli.output import complain, json_option, print_json, print_table, say
from feed_assets.cli.request_command import request
from feed_assets.cli.source_names import source_named
from feed_assets.cli.tokens import check_new_token, expiry, minute, revoke_token
from feed_assets.receiving.limits import Limits
from feed_assets.state.store import Store

if TYPE_CHECKING:
    from feed_assets.journal.segments import Segments
    from feed_assets.receiving.landing_segments import Place
    from feed_assets.resources.settings import Settings
    from feed_assets.serving.signatures import Verifier
    from feed_assets.serving.tables import Token
    from feed_assets.sources.spec import Source

_Command = Callable[..., None]


def _limits(command: _Command) -> _Command:
    """Add an option for each limit."""
    for each in reversed(fields(Limits)):
        name, default, most = f"--{each.name.replace('_', '-')}", each.default, each.metadata["most"]
        kind = click.IntRange if isinstance(default, int) else click.FloatRange
        range_ = kind(0, most, min_open=each.name != "rate")
        command = click.option(name, type=range_, default=default, show_default=True, help=each.metadata["meaning"])(
            command
        )
    return command


@click.group(invoke_without_command=True, context_settings={"auto_envvar_prefix": VARIABLES})
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", "-p", type=click.IntRange(1, 65535), default=8080, show_default=True, help="Port to listen on.")
@click.option("--tls-certificate", type=click.Path(exists=True, dir_okay=False), help="Certificate chain, in PEM.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="The certificate's key, in PEM.")
@click.option("--no-tokens", is_flag=True, help="Take events of everybody on this machine; only on loopback.")
@click.option(
    "--journal",
    metavar="DIRECTORY|blackboard",
    help="Where events are until they have landed. Default: `.receiving` in a local base, else in this directory.",
)
@click.option(
    "--name", default=socket.gethostname, help="Name of the journal on the blackboard. Default: the machine's."
)
@_limits
@click.pass_context
def receive(
    ctx: click.Context,
    /,
    host: str,
    port: int,
    tls_certificate: str | None,
    tls_key: str | None,
    journal: str | None,
    name: str,
    *,
    no_tokens: bool,
    **limits: Any,
) -> None:
    """Serve POST /v1/events/SOURCE until SIGTERM or Ctrl-C, and land the events.

    Events are durable when their answer comes. The API is documented at /docs. Each option is a variable, too, such as
    FEED_ASSETS_RECEIVE_PORT.
    """
    if ctx.invoked_subcommand is not None:
        return
    from feed_assets.receiving.running import run  # noqa: PLC0415 - loads the server

    installation = load_installation()
    settings = installation.settings
    verifiers = _verifiers(installation.sources)
    _check(installation, host, tls_certificate, tls_key, needs_token=not (no_tokens or verifiers), no_tokens=no_tokens)
    ready_to_compute(settings)
    directory = _directory(journal, settings.base)
    listening = listen("The receiver", host, port)
    url = f"http{'s' if tls_certificate else ''}://{host}:{port}"
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    run(
        installation.sources,
        Store(settings.state),
        _journal(settings, directory, name),
        partial(_place, settings, installation.sources, directory, name),
        Limits(**limits),
        listening,
        now=settings.clock.now,
        with_tokens=not no_tokens,
        ready=partial(say, f"The receiver listens on {url}. Its API is at {url}/docs. Ctrl-C ends it."),
        tls=(tls_certificate, tls_key) if tls_certificate and tls_key else None,
        verifiers=verifiers,
    )
    say("Stopped. What has not landed lands after the next start.")


def _verifiers(sources: Sequence[Source]) -> dict[str, Verifier]:
    """The checks of signatures, by the key of a source. Raises ClickException, without any secret."""
    found = {}
    for source in sources:
        if source.push is not None:
            try:
                found[source.key] = source.push.verifier(os.environ)
            except ValueError as error:
                place = source.place(("push", "secrets"))
                raise click.ClickException(f"{place}: {error}, and start the receiver again.") from None
    return found


def _check(
    installation: Installation,
    host: str,
    certificate: str | None,
    key: str | None,
    *,
    needs_token: bool,
    no_tokens: bool,
) -> None:
    """Raise ClickException if nobody could push, or everybody could."""
    from feed_assets.receiving.door import can_be_pushed  # noqa: PLC0415 - loads the formats of bodies
    from feed_assets.serving.addresses import is_loopback  # noqa: PLC0415 - loaded with the server only

    settings = installation.settings
    check_certificate(certificate, key)
    if not any(can_be_pushed(source) for source in installation.sources):
        message = f"No source in {settings.sources_directory} takes events: describe one with `format: {{type: jsonl,"
        raise click.ClickException(f"{message} ...}}`.")
    if no_tokens and not is_loopback(host):
        raise click.ClickException(f"--no-tokens would let everybody who reaches {host} write; add tokens instead.")
    valid = any(each.is_valid(settings.clock.now()) for each in _stored(settings))
    if needs_token and not valid:
        raise click.ClickException(
            "There is no valid token: `feed-assets receive tokens add --partner NAME --source SOURCE` makes one. "
            "To try it out on this machine only, use --no-tokens. A service that signs needs the field `push` in its "
            "source."
        )
    if not is_loopback(host) and not certificate:
        complain(f"Warning: tokens and events cross the network to {host} unencrypted: use TLS, or a proxy that does.")


def _directory(journal: str | None, base: str) -> Path | None:
    """The directory of the journal; None if it is on the blackboard. Raises BadParameter or SettingsError."""
    from feed_assets.operations.doctor import require_writable  # noqa: PLC0415 - loads Dagster

    if journal == BLACKBOARD:
        return None
    if journal and "://" in journal:
        advice = f"name a directory, or `{BLACKBOARD}` to keep events in the base"
        raise click.BadParameter(f"{journal} is no directory: {advice}.", param_hint="--journal")
    # Whoever names a directory may name a link to it; in a base, others may have put a link there.
    directory = Path(journal).resolve() if journal else default_journal(base)
    require_writable(directory, "--journal")
    return directory


def _journal(settings: Settings, directory: Path | None, name: str) -> Segments:
    from feed_assets.journal.on_blackboard import BlackboardSegments  # noqa: PLC0415 - loaded with the server only
    from feed_assets.journal.on_disk import DiskSegments  # noqa: PLC0415 - as above
    from feed_assets.receiving.entries import PREFIX  # noqa: PLC0415 - as above

    if directory is not None:
        return DiskSegments(directory)
    return BlackboardSegments(settings.blackboard.blackboard, f"{PREFIX}{name}/")


def _place(settings: Settings, sources: tuple[Source, ...], directory: Path | None, name: str) -> Place:
    """Where the lander works. Called in the lander's process; Spark starts with the first segment."""
    from feed_assets.receiving.landing_segments import Place  # noqa: PLC0415 - as above

    board, journal = settings.blackboard.blackboard, _journal(settings, directory, name)
    return Place(board, journal, sources, partial(_spark, settings), settings.clock.now)


@cache
def _spark(settings: Settings) -> Any:
    """The Spark of the lander's process, which ends with it."""
    from feed_assets.engine.jvm import end_with_java  # noqa: PLC0415 - loads Spark

    spark = settings.spark.spark_session
    end_with_java(spark)
    return spark


receive.add_command(request)


@receive.group("tokens")
def tokens() -> None:
    """Add, list and revoke the tokens with which partners push."""


@tokens.command("add")
@click.option("--partner", required=True, help="Whose token it is.")
@click.option("--source", "names", required=True, multiple=True, help="A source that it may write; may be repeated.")
@click.option("--expires", type=Deadline(), help="A time, or a span such as 90d. Default: when it is revoked.")
def add(partner: str, names: tuple[str, ...], expires: datetime | None) -> None:
    """Print a new token. It is shown once: only a digest of it is stored.

    A partner has up to two valid tokens, so that one can replace the other.
    """
    from feed_assets.receiving.door import can_be_pushed  # noqa: PLC0415 - loads the formats of bodies
    from feed_assets.serving.tokens import TooManyTokensError, add_token  # noqa: PLC0415 - loads the database

    check_new_token(partner, expires, parameter="--partner")
    installation = load_installation()
    named = partial(
        source_named,
        installation,
        only=can_be_pushed,
        described=" that takes events (`type: jsonl`)",
        parameter="--source",
    )
    keys = dict.fromkeys(named(name).key for name in names)
    try:
        text = add_token(Store(installation.settings.state), partner, keys, now=now(), expires=expires)
    except TooManyTokensError as error:
        raise click.ClickException(f"{error} `feed-assets receive tokens revoke {error.ids[0]}` does.") from None
    say(f"{partner} writes {', '.join(keys)} with this token, which is not shown again:")
    click.echo(text)


@tokens.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """List the tokens that were not revoked, without their secrets."""
    found = _stored(load_installation().settings)
    if as_json:
        print_json(
            [
                {"id": each.id, "partner": each.owner, "sources": each.scopes}
                | {"created": each.created, "expires": each.expires}
                for each in found
            ]
        )
        return
    rows = [(each.id, each.owner, ", ".join(each.scopes), minute(each.created), expiry(each.expires)) for each in found]
    print_table(
        ["token", "partner", "sources", "created", "expires"], rows, empty="There is no token.", keep=("token",)
    )


@tokens.command("revoke")
@click.argument("token_id", metavar="TOKEN")
def revoke(token_id: str) -> None:
    """Revoke the token of this id, as `tokens list` shows it. A receiver that runs refuses it within a second."""
    revoke_token(token_id, command="feed-assets receive tokens list")


def _stored(settings: Settings) -> list[Token]:
    """The tokens of partners: those without grants, which are the other service's."""
    from feed_assets.serving.grants import grants  # noqa: PLC0415 - loaded with the server only
    from feed_assets.serving.tables import tokens as stored  # noqa: PLC0415 - loads the database

    return [each for each in stored(Store(settings.state)) if not grants(each.scopes)]
