"""The map of all commands: those of every project, and those that a project brings itself. No command is loaded here.

A project brings commands of its own by a module `commands` beside its definitions (`shop/commands.py` for the module
`shop.definitions`) with a mapping `COMMANDS`: name -> (module and name of a click command, such as
`"shop.revenue:revenue"`, and its line of help). It must load nothing large: it is read for `feed-assets --help`, too.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

import click

from feed_assets.project.loading import EXAMPLE, ProjectError, look_here_first

OF_EXAMPLE: Final = "feed_assets.ads.commands"


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command that is not loaded yet: `module:name` of a click command, and its line of help."""

    place: str
    help: str

    def load(self) -> click.Command:
        """The command. Raises ProjectError if there is none."""
        module, _, name = self.place.partition(":")
        command = getattr(importlib.import_module(module), name, None)
        if not isinstance(command, click.Command):
            raise ProjectError(f"{self.place} is no command: name a click command, such as shop.revenue:revenue.")
        return command


def _ours(module: str, line: str, name: str = "") -> LazyCommand:
    return LazyCommand(f"feed_assets.cli.{module}:{name or module}", line)


OF_EVERY_PROJECT: Final[Mapping[str, LazyCommand]] = {
    "init": _ours("init", "Write a project of your own, to start from."),
    "dev": _ours("dev", "The Dagster UI with everything in it, sensors running."),
    "land": _ours("land", "Put a partner's logs into the raw partitions, by event time."),
    "receive": _ours("receive", "Take events that partners push over HTTP, and land them."),
    "poll": _ours("poll", "Fetch new files from the places of partners, and land them."),
    "backfill": _ours("backfill", "Compute many days with one Spark."),
    "deps": _ours("deps", "What is complete and good, and what may therefore start."),
    "state": _ours("state_command", "Check and restore what is known of slots, from its copy on storage.", "state"),
    "serve": _ours("serve", "A page on what is complete and what waits, and its API."),
    "workflow": _ours("workflow_command", "Work that never ends: masters, workers, tasks.", "workflow"),
    "deliver": _ours("deliver_command", "Updates to a stream of Kinesis, and on to a key-value store.", "deliver"),
    "explain": _ours("explain", "Why a day is as it is: updates, runs, growth, checks, lineage."),
    "late": _ours("late", "What came late: days by source, growth, decision, last re-run."),
    "running": _ours("running", "Which steps run now, and how far they are."),
    "health": _ours("health", "Whether runs will overlap, and which deadlines will be missed."),
    "feeds": _ours("feeds", "Every feed below a base: partitions, latest update, state."),
    "sources": _ours("sources_command", "The partners' sources; also to check, and to try on a file.", "sources"),
    "quarantine": _ours("quarantine_command", "The records set aside, by reason, with examples.", "quarantine"),
    "warehouse": _ours("warehouse_command", "Load feeds into tables of a database; which days they have.", "warehouse"),
    "catalog": _ours("catalog_command", "Describe feeds and raw data in the Data Catalog of AWS Glue.", "catalog"),
    "doctor": _ours("doctor", "Check Java, Spark, storage, Dagster and more, and say what to do."),
    "prepare": _ours("prepare", "Make Spark start faster, and fetch what it needs for S3."),
    "feed": _ours("feed_command", "Look at a File Feed and operate it: any feed, on a disk or in S3.", "feed"),
}
"""In the order in which a new user needs them."""


def commands_of(module: str) -> Mapping[str, LazyCommand]:
    """The commands that the project of this module brings itself. Raises ProjectError if its list cannot be read.

    A name of a command of every project is that command's.
    """
    place = OF_EXAMPLE if module == EXAMPLE else f"{module.rpartition('.')[0]}.commands".lstrip(".")
    look_here_first(module)
    try:
        if find_spec(place) is None:
            return {}
        found = getattr(importlib.import_module(place), "COMMANDS", {})
        own = {str(name): LazyCommand(target, line) for name, (target, line) in dict(found).items()}
    except ModuleNotFoundError:  # the project's package is not there, which loading it tells
        return {}
    except Exception as error:
        message = f"The commands of {place} cannot be read: {type(error).__name__}: {error}"
        raise ProjectError(message) from error
    return {name: command for name, command in own.items() if name not in OF_EVERY_PROJECT}
