"""`python -m feed_assets.warm_runs MODULE`: the pool of workers for the Dagster home of DAGSTER_HOME."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from pathlib import Path

import click
import yaml

from feed_assets.warm_runs.pool import IDLE, Pool
from feed_assets.warm_runs.requests import bound

LAUNCHER = {"module": "feed_assets.warm_runs.launcher", "class": "WorkerRunLauncher"}
COLD = "Each run starts a process and a Spark of its own"


@click.command()
@click.argument("module")
@click.option("--idle", type=float, default=IDLE, show_default=True, help="Seconds until idle workers give back.")
def main(module: str, idle: float) -> None:
    """Keep workers for the runs of MODULE, until SIGTERM.

    Ends at once if dagster.yaml names another run launcher, or if the home takes no socket.
    """
    home = Path(os.environ["DAGSTER_HOME"])
    if _launcher(home) != LAUNCHER["class"]:
        named = f"`run_launcher: {{{', '.join(f'{name}: {value}' for name, value in LAUNCHER.items())}}}`"
        click.echo(f"{COLD}. To keep processes warm, put {named} into {home / 'dagster.yaml'}.", err=True)
        return
    with ExitStack() as stack:
        try:
            server = stack.enter_context(bound(home))
        except OSError as error:
            click.echo(f"{COLD}: workers cannot listen in {home} ({error.strerror or error}).", err=True)
            return
        Pool(module, idle).serve(server)


def _launcher(home: Path) -> str | None:
    """The class of the run launcher that `dagster.yaml` names; None if it names none, or cannot be read."""
    with suppress(OSError, ValueError, yaml.YAMLError, AttributeError, KeyError, TypeError):
        return str(yaml.safe_load((home / "dagster.yaml").read_text(encoding="utf-8"))["run_launcher"]["class"])
    return None  # Dagster reports a file that cannot be read


if __name__ == "__main__":
    main()
