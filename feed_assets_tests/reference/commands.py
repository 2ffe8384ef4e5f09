"""The page of the commands: what click knows about each of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from feed_assets.ads.commands import COMMANDS as OF_EXAMPLE
from feed_assets.cli.commands import OF_EVERY_PROJECT, LazyCommand
from feed_assets.cli.main import main
from feed_assets.cli.output import quiet_option

HEAD = """\
# Commands

`feed-assets COMMAND --help` prints the same. `-h` is short for `--help`. Every command takes `--quiet` (`-q`), which
prints data and errors only. [Read a feed from other programs](../reading.md#output-and-exit-codes) describes the output
and the exit codes.
"""
SAID_ABOVE = {"--help", "--quiet", "--version"}


def page() -> str:
    """The whole page."""
    lines = [HEAD, "## Options before the command\n", *_options(click.Context(main), main)]
    for name, entry in OF_EVERY_PROJECT.items():
        lines += _command(f"feed-assets {name}", entry, "##")
    lines += ["## Commands of the worked example\n"]
    for name, (place, line) in OF_EXAMPLE.items():
        lines += _command(f"feed-assets {name}", LazyCommand(place, line), "###")
    return "\n".join(lines)


def _command(name: str, entry: LazyCommand, level: str) -> Iterator[str]:
    command = entry.load()
    quiet_option(command)
    yield from _section(name, command, level)


def _section(name: str, command: click.Command, level: str) -> Iterator[str]:
    context = click.Context(command, info_name=name, **command.context_settings)
    yield f"{level} `{name}`\n"
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    yield f"```\n{usage}\n```\n"
    for each in inspect.cleandoc(command.help or "").split("\n\n"):
        yield f"{_escaped(each)}\n"
    yield from _options(context, command)
    if isinstance(command, click.Group):
        for each in sorted(command.commands):
            yield from _section(f"{name} {each}", command.commands[each], f"{level}#")


def _options(context: click.Context, command: click.Command) -> Iterator[str]:
    found = [each.get_help_record(context) for each in command.params if SAID_ABOVE.isdisjoint(each.opts)]
    rows = [each for each in found if each and each[1]]
    if rows:
        yield "| Option | Meaning |\n|---|---|"
        for option, meaning in rows:
            yield f"| {_code(option)} | {_escaped(meaning).replace('|', chr(92) + '|')} |"
        yield ""


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _escaped(text: str) -> str:
    """Text of a help page as one paragraph of Markdown."""
    text = re.sub(r"\s+", " ", text).strip()
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(each if each.startswith("`") else each.replace("<", "&lt;").replace("*", "\\*") for each in parts)
