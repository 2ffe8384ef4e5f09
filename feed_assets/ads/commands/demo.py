"""`feed-assets demo`: the main job on real logs, shown step by step.

Here: printing the story, and the commands to try after it. Not here: the story itself (`feed_assets.ads.demo.story`).
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

import feed_assets as fa
from feed_assets.cli.installation import (
    BASE,
    HOME,
    OWN_HOME,
    dagster_home,
    demo_base,
    load_definitions,
    load_installation,
    own_directory,
    ready_to_compute,
    write_config,
)
from feed_assets.cli.output import print_blocks, print_text, print_title
from feed_assets.processes.fork_server import start_loading
from feed_assets.project.loading import EXAMPLE


@click.command()
@click.option(
    "--act",
    type=click.Choice(["week", "gate", "workflow", "delivery"]),
    default="week",
    show_default=True,
    help=(
        "week: a week of logs, late data and broken data. gate: a day that starts when its partner's counts allow it. "
        "workflow: workers compute hours and a day, while processes are killed and stopped. delivery: updates go to a "
        "stream and into a store; a sender is killed, data comes late, and an old client loses rows."
    ),
)
def demo(act: str) -> None:
    """Land a week of real logs, process it, and show what late and broken data do to it.

    The demo works in ./demo-data, with its own Dagster home there, and at its own time, 2019-12-01. `feed-assets dev`
    opens it afterwards. FEED_ASSETS_BASE, a directory or s3://bucket/prefix, and DAGSTER_HOME name other places. Each
    demo starts afresh, and never touches data that is not the demo's.
    """
    # The demo evaluates the sensors twice within seconds; a sensor runs only when its interval is over.
    os.environ["FEED_ASSETS_SENSOR_SECONDS"] = "1"
    start_loading(os.environ.get(BASE, ""), os.cpu_count() or 1)
    from feed_assets.ads.demo.gate_act import GateAct, write_counted_sources  # noqa: PLC0415 - loads Dagster and Spark
    from feed_assets.ads.demo.story import AS_OF, Demo, NextSteps, Teller, prepare_base  # noqa: PLC0415 - loads Dagster and Spark
    from feed_assets.ads.demo.workflow_act import HOURS_OVER, WorkflowAct  # noqa: PLC0415 - as above
    from feed_assets.engine.session import compile_quickly  # noqa: PLC0415 - as above

    chosen = os.environ.get(BASE)
    os.environ[BASE] = chosen or str(demo_base())
    # The demo has its own time and state, and resets both. Its ads are for nobody's warehouse, catalog or mailbox.
    for name in ("AS_OF", "STATE", "WAREHOUSE", "CATALOG", "SMTP", "ALERT_WEBHOOK", "POLL_TABLE"):
        os.environ.pop(f"FEED_ASSETS_{name}", None)
    for name, chosen_by in (("GATE", "gate"), ("CONTINUOUS", "workflow")):
        os.environ[f"FEED_ASSETS_{name}"] = "1" if act == chosen_by else "0"
    if act == "workflow":
        os.environ["FEED_ASSETS_HOURLY"] = "1"
    settings = fa.Settings.from_environment()
    ready_to_compute(settings)
    base = settings.base
    prepare_base(base, HOURS_OVER.isoformat() if act == "workflow" else AS_OF)
    os.environ[BASE] = base
    directory = own_directory(base)
    if act == "gate":
        os.environ["FEED_ASSETS_SOURCES"] = str(directory / "partners")
        write_counted_sources(directory / "partners")
    told = {"week": Demo, "gate": GateAct, "workflow": WorkflowAct}
    if act == "delivery":
        try:
            from feed_assets.ads.demo.delivery_act import DeliveryAct, write_destinations  # noqa: PLC0415 - needs an extra
        except ModuleNotFoundError as error:
            message = f"This act needs the package {error.name}: pip install 'feed_assets[delivery]'."
            raise click.ClickException(message) from None
        told["delivery"] = DeliveryAct
        os.environ["FEED_ASSETS_DELIVERIES"] = str(directory / "deliveries")
        write_destinations(directory / "deliveries")
    if not os.environ.get(HOME):
        write_config(directory / OWN_HOME)
    home = dagster_home(base)
    compile_quickly()
    installation = load_installation(EXAMPLE)
    # `make demo BASE=...` sets the variable for itself alone.
    exported = chosen and not os.environ.get("MAKELEVEL")
    with_base = "" if exported else f"{BASE}={shlex.quote(chosen or os.path.relpath(base))} "
    steps = NextSteps(f"{with_base}{_program()}", _ui(chosen))
    teller = Teller(print_title, _say, _table, print_blocks, fa.cli.progress)
    load = partial(load_definitions, EXAMPLE)
    told[act](installation.settings, installation.definitions, load, home, directory, teller, steps).run()


def _program() -> str:
    """The command that calls this program."""
    if shutil.which("feed-assets"):
        return "feed-assets"
    called = Path(sys.argv[0])
    if called.name == "feed-assets":
        return shlex.quote(os.path.relpath(called))
    return f"{shlex.quote(sys.executable)} -m feed_assets.cli"


def _ui(chosen: str | None) -> str:
    """The command that opens the UI on the demo's data."""
    if chosen or not Path("data").exists():
        make_dev = f"make dev BASE={shlex.quote(chosen)}" if chosen else "make dev"
        return make_dev if os.environ.get("MAKELEVEL") else f"{_program()} dev"
    return f"{_program()} dev --demo"


def _say(line: str) -> None:
    print_text(f"  {line}", indent="    ")


def _table(rows: Sequence[dict[str, Any]]) -> None:
    header = list(rows[0]) if rows else []
    fa.cli.print_table(header, [list(row.values()) for row in rows], empty="nothing")
