"""`feed-assets dev`: the Dagster UI with everything in it.

Here: which base and which Dagster home it opens. Not here: the UI and its daemon, which are Dagster's.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import click

from feed_assets.cli.code_location import EXAMPLE, chosen_module, load_project
from feed_assets.cli.errors import INTERRUPTED
from feed_assets.cli.installation import BASE, dagster_home, demo_base
from feed_assets.cli.output import say
from feed_assets.cli.process_group import run_until_interrupted

UNWARNED = ("-W", "ignore:Function `dev_command` is superseded")
"""Dagster recommends another tool for projects of another layout at each start."""


@click.command()
@click.option("--port", "-p", type=click.IntRange(1, 65535), default=3000, show_default=True, help="Port of the UI.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of the UI.")
@click.option("--demo", is_flag=True, help="Open what `feed-assets demo` made, whatever data of your own there is.")
@click.pass_context
def dev(ctx: click.Context, port: int, host: str, *, demo: bool) -> None:
    """Open the Dagster UI with all assets, checks and sensors, until Ctrl-C.

    Works on FEED_ASSETS_BASE (default: ./data). Where that is not set and ./data is not there yet, it opens the data
    of the demo, unless the pipelines are those of a project of your own.
    """
    module = EXAMPLE if demo else chosen_module()
    demo_data = demo_base()
    own = Path(os.environ.get(BASE) or "data")
    if demo and not demo_data.is_dir():
        message = f"There is no demo in {demo_data}: run `feed-assets demo` first."
        raise click.ClickException(message)
    if demo or (module == EXAMPLE and not os.environ.get(BASE) and not own.exists() and demo_data.is_dir()):
        os.environ[BASE] = str(demo_data)
    settings = load_project(module)[0].settings
    home = dagster_home(settings.base)
    fixed = f", where it is {settings.as_of:%Y-%m-%d %H:%M:%S}" if settings.as_of else ""
    _require_free(host, port)
    say(f"Data: {settings.base}{fixed}. Dagster's runs: {home}.")
    say(f"The UI is at http://{host}:{port} in a few seconds; Ctrl-C ends it.")
    # Warnings only: its start and each turn of the daemon are of no interest; what the sensors decide is in the UI.
    arguments = ["dev", "-m", module, "--host", host, "--port", str(port), "--log-level", "warning"]
    code = run_until_interrupted([sys.executable, *UNWARNED, "-m", "dagster", *arguments])
    if code is None:
        say("Stopped.")
        ctx.exit(INTERRUPTED)
    if code:
        message = f"Dagster ended with exit code {code}; what it says about that is above."
        raise click.ClickException(message)


def _require_free(host: str, port: int) -> None:
    """Stop where the UI could not listen. Without its page, Dagster would go on running sensors unseen."""
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        message = (
            f"The UI cannot listen on {host}:{port} ({os.strerror(error.errno or 0)}): name another port with --port."
        )
        raise click.ClickException(message) from None
