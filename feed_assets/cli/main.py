"""The group of all commands. It loads each command when it is called.

Here: the map that `feed-assets --help` shows. Not here: any command.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from feed_assets.cli.exit_codes import explained_errors, message_of
from feed_assets.cli.output import complain, quiet_option
from feed_assets.errors import FAILED
from feed_assets.operations.env_file import ENV_FILE, set_variables_of_env_file
from feed_assets.project.loading import MODULE

COLLECTIONS = 100_000, 20, 20
"""When Python collects garbage. By default it does so after 700 new objects. Dagster and Spark make a million that
stay, so a fifth of the time of loading them was spent on looking for garbage among them."""


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command that is not loaded yet: the module of this room that defines it, and its line of help."""

    module: str
    help: str


COMMANDS: Mapping[str, LazyCommand] = {
    "init": LazyCommand("init", "Write a project of your own, to start from."),
    "demo": LazyCommand("demo_command", "The main job on real logs, shown step by step."),
    "dev": LazyCommand("dev", "The Dagster UI with everything in it, sensors running."),
    "land": LazyCommand("land", "Put a partner's logs into the raw partitions, by event time."),
    "receive": LazyCommand("receive", "Take events that partners push over HTTP, and land them."),
    "poll": LazyCommand("poll", "Fetch new files from the places of partners, and land them."),
    "backfill": LazyCommand("backfill", "Compute many days with one Spark."),
    "report": LazyCommand("report", "How effective the ads were, as a table and a plot."),
    "explain": LazyCommand("explain", "Why a day is as it is: updates, runs, growth, checks, lineage."),
    "late": LazyCommand("late", "What came late: days by source, growth, decision, last re-run."),
    "feeds": LazyCommand("feeds", "Every feed below a base: partitions, latest update, state."),
    "sources": LazyCommand("sources_command", "The partners' sources; also to check, and to try on a file."),
    "quarantine": LazyCommand("quarantine_command", "The records set aside, by reason, with examples."),
    "warehouse": LazyCommand("warehouse_command", "Load feeds into tables of a database; which days they have."),
    "catalog": LazyCommand("catalog_command", "Describe feeds and raw data in the Data Catalog of AWS Glue."),
    "doctor": LazyCommand("doctor", "Check Java, Spark, storage, Dagster and more, and say what to do."),
    "prepare": LazyCommand("prepare", "Make Spark start faster, and fetch what it needs for S3."),
    "feed": LazyCommand("feed_command", "Look at a File Feed and operate it: any feed, on a disk or in S3."),
}


class CommandMap(click.Group):
    """A group that loads a command only when it is called, and prints its errors on stderr."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All commands, in the order in which a new user needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - see above
        """Load the command. None if its name is unknown."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(importlib.import_module(f"feed_assets.cli.{entry.module}"), cmd_name)
        if not isinstance(command, click.Command):
            raise TypeError(f"feed_assets.cli.{entry.module}.{cmd_name} is no command.")
        quiet_option(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - see above
        """Write the list of commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])

    def main(self, *arguments: Any, **options: Any) -> Any:  # click's signature
        """Run the program. Only reading `.env`, and what it prints itself, such as its help, can fail here."""
        try:
            if replaced := set_variables_of_env_file():
                complain(f"{ENV_FILE} replaces {', '.join(replaced)} of the environment, as it does for Dagster.")
            return super().main(*arguments, **options)
        except OSError as error:
            complain(f"Error: {message_of(error)}")
            sys.exit(FAILED)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        gc.set_threshold(*COLLECTIONS)
        atexit.register(_leave_garbage)
        with explained_errors(ctx, debug=ctx.params["debug"]):
            return super().invoke(ctx)


def _leave_garbage() -> None:
    """Let Python end without looking for garbage once more, which takes half a second after Dagster was loaded.

    With DuckDB it does look: that library would complain to the user about its own objects that are left.
    """
    if "duckdb" not in sys.modules:
        gc.freeze()


@click.group(
    cls=CommandMap,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 failed, 2 a bad argument, 3 no valid update, 130 interrupted.",
)
@click.version_option(package_name="feed_assets")
@click.option(
    "--module",
    "-m",
    envvar=MODULE,
    metavar="MODULE",
    help="The module with the pipelines, as for `dagster dev -m`. Default: the module that ./pyproject.toml names for "
    "Dagster; else the worked example.",
)
@click.option("--debug", is_flag=True, help="Show the stack trace of an error.")
def main(*, module: str | None, debug: bool) -> None:
    """Pipelines that hand data to each other over a bucket, published as File Feeds."""
    del module, debug  # commands read them from the context
