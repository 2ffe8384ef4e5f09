"""`feed-assets dev`: the Dagster UI with everything in it.

Here: which base and which Dagster home it opens. Not here: the UI and its daemon, which are Dagster's.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from feed_assets.cli.installation import BASE, dagster_home, demo_base, load_settings
from feed_assets.cli.output import say

MODULE = "feed_assets.definitions"
UNWARNED = ("-W", "ignore:Function `dev_command` is superseded")
"""Dagster recommends another tool for projects of another layout at each start."""


@click.command()
@click.option("--port", "-p", type=click.IntRange(1, 65535), default=3000, show_default=True, help="Port of the UI.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of the UI.")
@click.option("--demo", is_flag=True, help="Open what `feed-assets demo` made, whatever data of your own there is.")
def dev(port: int, host: str, *, demo: bool) -> None:
    """Open the Dagster UI with all assets, checks and sensors, until Ctrl-C.

    Works on FEED_ASSETS_BASE (default: ./data). Where that is not set and ./data is not there yet, it opens the data
    of the demo.
    """
    told = demo_base()
    own = Path(os.environ.get(BASE) or "data")
    if demo and not told.is_dir():
        message = f"There is no demo in {told}: run `feed-assets demo` first."
        raise click.ClickException(message)
    if demo or (not os.environ.get(BASE) and not own.exists() and told.is_dir()):
        os.environ[BASE] = str(told)
    settings = load_settings()
    home = dagster_home(settings.base)
    fixed = f", where it is {settings.as_of:%Y-%m-%d %H:%M:%S}" if settings.as_of else ""
    say(f"Data: {settings.base}{fixed}. Dagster's runs: {home}.")
    say(f"The UI is at http://{host}:{port} in a few seconds; Ctrl-C ends it.")
    # Warnings only: its start and each turn of the daemon are of no interest; what the sensors decide is in the UI.
    arguments = ["dev", "-m", MODULE, "--host", host, "--port", str(port), "--log-level", "warning"]
    os.execv(sys.executable, [sys.executable, *UNWARNED, "-m", "dagster", *arguments])  # noqa: S606 - this very Python
