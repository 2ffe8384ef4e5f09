"""What commands on tokens have in common, whatever service the tokens are for. Not here: what they allow."""

from __future__ import annotations

from datetime import datetime

import click

from feed_assets.cli.clock import now
from feed_assets.cli.installation import load_installation
from feed_assets.cli.output import say


def check_new_token(owner: str, expires: datetime | None, *, parameter: str) -> None:
    """Raise BadParameter unless a token may have this owner, and end then. `parameter` is the option of the owner."""
    if not owner.strip() or not owner.isprintable():
        raise click.BadParameter(f"{owner!r} is no name of a {parameter.strip('-')}.", param_hint=parameter)
    if expires is not None and expires <= now():
        raise click.BadParameter(f"{expires:%Y-%m-%d %H:%M:%S} is over: give a later time.", param_hint="--expires")


def revoke_token(token_id: str, *, command: str) -> None:
    """Revoke the token of this id. Raises ClickException if there is none; `command` lists them."""
    from feed_assets.serving.tables import remove_token  # noqa: PLC0415 - loads the database
    from feed_assets.state.store import Store  # noqa: PLC0415 - as above

    with Store(load_installation().settings.state).writing() as transaction:
        removed = token_id.isascii() and remove_token(transaction, token_id, now=now())
    if not removed:
        raise click.ClickException(f"There is no token {token_id!r}: `{command}` shows all ids.")
    say("Revoked 1 token.")


def minute(moment: datetime) -> str:
    """A time for a table of tokens."""
    return f"{moment:%Y-%m-%d %H:%M}"


def expiry(moment: datetime | None) -> str:
    """When a token ends, for a table."""
    if moment is None:
        return "never"
    return minute(moment) if now() < moment else f"{minute(moment)}, expired"
