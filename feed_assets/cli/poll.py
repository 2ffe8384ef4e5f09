"""`feed-assets poll`: fetch new files from the places of partners, and land them.

Here: the commands and their messages. Not here: polling (`polling.poller`). The schedules `poll_...` do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from feed_assets.cli.exit_codes import message_of
from feed_assets.cli.installation import Installation, load_installation, ready_to_compute
from feed_assets.cli.land import as_landed, remarks, warnings
from feed_assets.cli.output import complain, json_option, print_json, print_table, progress, say
from feed_assets.cli.source_names import source_named, sources_named
from feed_assets.errors import FAILED, exit_code
from feed_assets.file_feed.wording import counted

if TYPE_CHECKING:
    from feed_assets.polling.held import Held
    from feed_assets.polling.poller import Polled
    from feed_assets.resources.settings import Settings
    from feed_assets.sources.spec import Source

LISTS = ("taken", "replaced", "same", "left", "failed", "refused", "ignored")


class _Polls(click.Group):
    """A group whose first command needs no name: `poll SOURCE` is `poll run SOURCE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the name there, except where a shell completes the name."""
        completing = ctx.resilient_parsing and not args
        if not completing and (not args or args[0] not in {*self.commands, "--help", "-h"}):
            args.insert(0, "run")
        return super().parse_args(ctx, args)


@click.group(cls=_Polls)
def poll() -> None:
    """Fetch new files of the sources that have a field `poll`, and land them.

    `feed-assets poll [SOURCE]...` is short for `feed-assets poll run [SOURCE]...`.
    """


@poll.command("run")
@click.argument("names", metavar="[SOURCE]...", nargs=-1)
@json_option
@click.pass_context
def run_command(ctx: click.Context, names: Sequence[str], *, as_json: bool) -> None:
    """Fetch and land new files.

    Polls each SOURCE, or all sources that have a field `poll`.

    New content under a known name replaces the old content. If a file fails, the other files land; if a place cannot
    be read, the other sources are polled. The exit code is then 1. A file that cannot land as it is fails once; then
    it is refused until it is sent anew, its source is corrected, or `poll release` releases it.
    """
    installation = load_installation()
    wanted = _polled(installation, names)
    results: list[Polled] = []
    problems: list[str] = []
    with progress("polling", len(wanted)) as bar:
        for source in wanted:
            try:
                results.append(_poll(installation, source, bar.under_way))
            except Exception as error:
                if exit_code(error) is None:
                    raise
                problems.append(f"{source.key}: {message_of(error)}")
            bar()
    _print(results, as_json=as_json)
    sources = {source.key: source for source in wanted}
    for each in results:
        _tell(each, sources[each.source], installation.settings)
        problems += [f"{each.source}: {problem}" for problem in each.problems]
    for problem in problems:
        complain(f"Error: {problem}")
    if problems:
        ctx.exit(FAILED)


@poll.command("held")
@click.argument("names", metavar="[SOURCE]...", nargs=-1)
@json_option
def held_command(names: Sequence[str], *, as_json: bool) -> None:
    """List the files that polls leave alone, and why.

    They are those of each SOURCE, or of all polled sources: files that could not land, and files that `poll ignore`
    names.
    """
    from feed_assets.polling.held import HeldFiles  # noqa: PLC0415 - loads the blackboard

    installation = load_installation()
    wanted = _polled(installation, names)
    found = [(source.key, each) for source in wanted for each in HeldFiles(installation.blackboard, source).all()]
    found.sort(key=lambda pair: (pair[0], pair[1].file))
    if as_json:
        print_json([{"source": key, **asdict(each), "since": each.since.isoformat()} for key, each in found])
        return
    rows = [(key, each.file, f"{each.since:%Y-%m-%d %H:%M}", _state(each), each.reason) for key, each in found]
    print_table(
        ["source", "file", "since", "state", "reason"], rows, empty="No file is held back.", keep=("source", "file")
    )


@poll.command("ignore")
@click.argument("name", metavar="SOURCE")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--reason", default="", help="Why, for `poll held`.")
def ignore_command(name: str, files: Sequence[str], reason: str) -> None:
    """Let polls of SOURCE leave each FILE alone.

    They do so whatever its content is, until `poll release`. FILE is a path below the partner's place, as `poll` shows
    it.
    """
    from feed_assets.polling.held import HeldFiles  # noqa: PLC0415 - loads the blackboard
    from feed_assets.polling.places import polling_of  # noqa: PLC0415 - as above

    installation = load_installation()
    source = source_named(installation, name, only=_is_polled, described=" with a field `poll`")
    held = HeldFiles(installation.blackboard, source)
    known = {each.file for each in held.all()}
    for file in files:
        if file not in known and polling_of(source).name_of(Path(file)) != file:
            raise click.BadParameter(
                f"{file!r} is no file of {source.key}: its pattern is {polling_of(source).pattern}.", param_hint="FILE"
            )
    for file in files:
        held.ignore(file, reason, now=datetime.now(UTC))
    say(f"Polls of {source.key} ignore {counted(len(files), 'file')} from now on. What has landed stays.")


@poll.command("release")
@click.argument("name", metavar="SOURCE")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.pass_context
def release_command(ctx: click.Context, name: str, files: Sequence[str]) -> None:
    """Let the next poll of SOURCE try each FILE again.

    `poll held` lists them. Exit code 1 if one is not held back.
    """
    from feed_assets.polling.held import HeldFiles  # noqa: PLC0415 - loads the blackboard

    installation = load_installation()
    source = source_named(installation, name, only=_is_polled, described=" with a field `poll`")
    held = HeldFiles(installation.blackboard, source)
    released = [file for file in files if held.release(file)]
    if released:
        say(f"The next poll of {source.key} tries {counted(len(released), 'file')} again.")
    for file in files:
        if file not in released:
            complain(
                f"Error: {file} of {source.key} is not held back; `feed-assets poll held {source.key}` lists files."
            )
    if len(released) < len(files):
        ctx.exit(FAILED)


def _state(each: Held) -> str:
    if each.ignored:
        return "ignored"
    return "refused" if each.final else "tried by each poll"


@poll.command("reindex")
@click.argument("names", metavar="[SOURCE]...", nargs=-1)
def reindex(names: Sequence[str]) -> None:
    """Make the table FEED_ASSETS_POLL_TABLE anew.

    Its content comes from the blackboard, for each SOURCE or all polled sources.
    """
    from feed_assets.polling.dynamodb import DynamoDBIndex  # noqa: PLC0415 - loads boto3
    from feed_assets.polling.poller import open_index  # noqa: PLC0415 - as above
    from feed_assets.polling.settings import POLL_TABLE  # noqa: PLC0415 - as above

    installation = load_installation()
    wanted = _polled(installation, names)
    index = open_index(installation.blackboard, installation.settings.poll_table)
    if not isinstance(index, DynamoDBIndex):
        raise click.ClickException(f"{POLL_TABLE} names no table. Without it, polls look at the blackboard itself.")
    with progress("reindexing", len(wanted)) as bar:
        files = 0
        for source in wanted:
            bar.under_way(source.key)
            files += index.rebuild(source.key)
            bar()
    say(f"{index.name} has {counted(files, 'file')} of {counted(len(wanted), 'source')}.")


def _is_polled(source: Source) -> bool:
    return source.poll is not None


def _polled(installation: Installation, names: Sequence[str]) -> Sequence[Source]:
    found = sources_named(installation, names, only=_is_polled, described=" with a field `poll`")
    if not found:
        raise click.ClickException(
            f"No source in {installation.settings.sources_directory} has a field `poll`. It says where a partner's "
            "files are: `poll: {place: ..., pattern: ..., every: ...}`."
        )
    return found


def _poll(installation: Installation, source: Source, begin: Callable[[str], None]) -> Polled:
    from feed_assets.polling.poller import Poller, landing_by, open_index  # noqa: PLC0415 - loads the blackboard

    settings, board = installation.settings, installation.blackboard

    def spark() -> Any:
        ready_to_compute(settings)
        return settings.spark.spark_session

    land = landing_by(spark, board, settings.clock.now)
    return Poller(board, open_index(board, settings.poll_table), land, settings.clock.now, begin=begin).poll(source)


def _tell(polled: Polled, source: Source, settings: Settings) -> None:
    """Print details that the table does not show."""
    now = settings.clock.now()
    done = [as_landed(landing.file, landing, source, settings, now) for landing in polled.landings]
    for remark in remarks(done, source, settings):
        say(remark)
    for name, reason in polled.left.items():
        say(f"{source.key}: {name} is left: {reason}.")
    if polled.refused:
        say(
            f"{source.key}: {counted(len(polled.refused), 'file')} failed before, and did not change: "
            f"`feed-assets poll held {source.key}` says why."
        )
    for warning in warnings(done, source, settings):
        complain(warning)


def _print(results: Sequence[Polled], *, as_json: bool) -> None:
    if as_json:
        print_json([each.summary for each in results])
        return
    header = ["source", "seen", *LISTS, "records", "quarantined"]
    found = [each.summary for each in results]
    rows = [[len(each[name]) if name in LISTS else each[name] for name in header] for each in found]
    print_table(header, rows, empty="Nothing was polled.")
