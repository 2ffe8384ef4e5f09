"""`feed-assets demo`: the main job on real logs, told step by step.

Here: how the story looks in a terminal and through a pipe. Not here: the story (`feed_assets.demo.story`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from feed_assets.cli.installation import dagster_home, load_installation, load_settings
from feed_assets.cli.output import print_table, progress


@click.command()
def demo() -> None:
    """Land a week of real logs, process it, and see what late and broken data do to it.

    Works below FEED_ASSETS_BASE (default: ./data) as of 2019-12-01, on the Dagster instance that `make dev` opens
    afterwards. Run again, it starts afresh; it never touches data that is not its own.
    """
    home = dagster_home()
    # Sensors look only when their interval is over, and here they are asked twice within seconds.
    os.environ["FEED_ASSETS_SENSOR_SECONDS"] = "1"
    from feed_assets.demo.story import Demo, Teller, prepare_base  # noqa: PLC0415 - loads Dagster and Spark

    base = prepare_base(load_settings().base)
    os.environ["FEED_ASSETS_BASE"] = str(base)
    os.environ.pop("FEED_ASSETS_AS_OF", None)
    installation = load_installation()
    Demo(installation.settings, installation.definitions, home, Teller(_step, _say, _table, progress)).run()


def _step(title: str) -> None:
    click.echo()
    click.secho(title, bold=True)


def _say(line: str) -> None:
    click.echo(f"  {line}")


def _table(rows: Sequence[dict[str, Any]]) -> None:
    header = list(rows[0]) if rows else []
    print_table(header, [list(row.values()) for row in rows], empty="nothing")
