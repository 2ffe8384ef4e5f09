"""`feed-assets dev`: the Dagster UI with everything in it.

Here: which base and which Dagster home it opens. Not here: the UI and its daemon, which are Dagster's.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from feed_assets.cli.installation import BASE, HOME, chosen_module, dagster_home, demo_base
from feed_assets.cli.listening import cannot_listen
from feed_assets.cli.output import say
from feed_assets.errors import INTERRUPTED
from feed_assets.processes.group import run_until_interrupted
from feed_assets.project.loading import EXAMPLE, load_project

LOCK = "dev.lock"
UNWARNED = ("-W", "ignore:Function `dev_command` is superseded")
"""Hide a notice that Dagster prints at each start; it is for projects of another layout."""


@click.command()
@click.option("--port", "-p", type=click.IntRange(1, 65535), default=3000, show_default=True, help="Port of the UI.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of the UI.")
@click.option("--demo", is_flag=True, help="Open the data of `feed-assets demo`, even if there is data of your own.")
@click.pass_context
def dev(ctx: click.Context, port: int, host: str, *, demo: bool) -> None:
    """Open the Dagster UI with all assets, checks and sensors, until Ctrl-C.

    The data is in FEED_ASSETS_BASE (default: ./data). If that does not exist, the worked example opens the demo's.
    """
    module = EXAMPLE if demo else chosen_module()
    demo_data = demo_base()
    own = Path(os.environ.get(BASE) or "data")
    if demo and not demo_data.is_dir():
        raise click.ClickException(f"There is no demo in {demo_data}: run `feed-assets demo` first.")
    if demo or (module == EXAMPLE and not os.environ.get(BASE) and not own.exists() and demo_data.is_dir()):
        os.environ[BASE] = str(demo_data)
    from feed_assets.operations.day_runs import instance_at  # noqa: PLC0415 - loads Dagster

    settings = load_project(module)[0].settings
    home = dagster_home(settings.base)
    fixed = f", where it is {settings.as_of:%Y-%m-%d %H:%M:%S}" if settings.as_of else ""
    _require_free(host, port)
    with instance_at(home, {}):
        pass  # Dagster's tables are there now: of processes that begin at once, two may both make them, and break them
    with _only_one(home):
        say(f"Data: {settings.base}{fixed}. Dagster's runs: {home}.")
        say(f"The UI is at http://{host}:{port} in a few seconds; Ctrl-C ends it.")
        say("After a change of code or of a source, use Reload in the UI, under Deployment. Sensors need it.")
        # Warnings only: the UI shows what the sensors decide.
        arguments = ["dev", "-m", module, "--host", host, "--port", str(port), "--log-level", "warning"]
        workers = [sys.executable, "-m", "feed_assets.warm_runs", module]
        code = run_until_interrupted([sys.executable, *UNWARNED, "-m", "dagster", *arguments], workers, say=say)
    if code is None:
        say("Stopped.")
        ctx.exit(INTERRUPTED)
    if code:
        raise click.ClickException(f"Dagster ended with exit code {code}. Its own message is above.")


def _require_free(host: str, port: int) -> None:
    """Raise ClickException if nothing can listen there: Dagster would go on running sensors without its UI."""
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        raise cannot_listen("The UI", host, port, error) from None


@contextmanager
def _only_one(home: Path) -> Iterator[None]:
    """Raise ClickException if another `dev` has this Dagster home: two daemons would tick there, and warn for ever."""
    with (home / LOCK).open("w") as lock:
        os.fchmod(lock.fileno(), 0o600)  # whoever can open it can lock it
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise click.ClickException(
                f"Another `feed-assets dev` uses {home}: end it, or set {HOME} to another directory."
            ) from None
        except OSError:
            pass  # a file system without locks
        yield
