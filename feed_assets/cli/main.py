"""The group of all commands. It loads each command when it is called.

Here: what `feed-assets --help` shows, and running a command. Not here: the map of commands (`commands`).
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from feed_assets.cli.commands import OF_EVERY_PROJECT, LazyCommand, commands_of
from feed_assets.cli.exit_codes import explained_errors, message_of
from feed_assets.cli.output import complain, open_output, quiet_option
from feed_assets.errors import FAILED
from feed_assets.operations.env_file import ENV_FILE, set_variables_of_env_file
from feed_assets.project.loading import EXAMPLE, MODULE, ProjectError, chosen_module

COLLECTIONS = 100_000, 20, 20
"""When Python collects garbage. By default it does so after 700 new objects. Dagster and Spark make a million that
stay, so a fifth of the time of loading them was spent on looking for garbage among them."""


class CommandMap(click.Group):
    """A group that loads a command only when it is called, and prints its errors on stderr."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands: those of every project in the order in which a new user needs them, then the project's own."""
        return list(self._all(ctx))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load the command. None if its name is unknown."""
        entry = OF_EVERY_PROJECT.get(cmd_name) or self._own(ctx).get(cmd_name)
        if entry is None:
            return None
        command = entry.load()
        quiet_option(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in OF_EVERY_PROJECT.items()])
        if own := self._own(ctx):
            with formatter.section(f"Commands of {_module(ctx)}"):
                formatter.write_dl([(name, entry.help) for name, entry in own.items()])

    def _all(self, ctx: click.Context) -> Mapping[str, LazyCommand]:
        return {**OF_EVERY_PROJECT, **self._own(ctx)}

    def _own(self, ctx: click.Context) -> Mapping[str, LazyCommand]:
        try:
            return commands_of(_module(ctx))
        except ProjectError as error:
            complain(f"Warning: {error}")
            return {}

    def main(self, *arguments: Any, **options: Any) -> Any:  # click's signature
        """Run the program. Only reading `.env`, and what it prints itself, such as its help, can fail here."""
        try:
            open_output()
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


def _module(ctx: click.Context) -> str:
    """The module of the project; the worked example if none can be chosen, which the command tells."""
    try:
        # For `--help`, click has not read the variable yet.
        return chosen_module(ctx.find_root().params.get("module") or os.environ.get(MODULE))
    except ProjectError:
        return EXAMPLE


def _leave_garbage() -> None:
    """Let Python end without looking for garbage once more, which takes half a second after Dagster was loaded.

    With DuckDB it does look: that library would complain to the user about its own objects that are left.
    """
    if "duckdb" not in sys.modules:
        gc.freeze()


@click.group(
    cls=CommandMap,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 failed, 2 a bad argument or unknown name, 3 no valid update, 130 interrupted.",
)
@click.version_option(package_name="feed_assets")
@click.option(
    "--module",
    "-m",
    envvar=MODULE,
    is_eager=True,  # `--help` lists the commands of this module
    metavar="MODULE",
    help="The module with the pipelines, as for `dagster dev -m`. Default: the module that ./pyproject.toml names for "
    "Dagster; else the worked example.",
)
@click.option("--debug", is_flag=True, help="Show the stack trace of an error.")
def main(*, module: str | None, debug: bool) -> None:
    """Pipelines that hand data to each other over a bucket, published as File Feeds."""
    del module, debug  # commands read them from the context
