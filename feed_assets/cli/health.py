"""`feed-assets health`: whether runs will overlap, and which deadlines will be missed.

Here: the command. Not here: the answers (`run_history.health`), and filling the history (`sensors.run_history`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from feed_assets.cli.installation import load_installation
from feed_assets.cli.output import complain, json_option, print_json, print_text, say, write_output
from feed_assets.errors import FAILED


@click.command()
@click.argument("names", metavar="[SERIES]...", nargs=-1)
@click.option(
    "--pictures",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Also write plots there (.png): the share of the interval by day, and the forecast of a deadline.",
)
@json_option
@click.pass_context
def health(ctx: click.Context, names: Sequence[str], pictures: Path | None, *, as_json: bool) -> None:
    """Show how long runs take, whether they will overlap, and which deadlines will be missed: warnings first.

    A series is the runs of a schedule, of a trigger, or of an asset, such as `asset clean_clicks`. The sensor
    run_history keeps 60 days of them. Exit code 1 if there is a warning.
    """
    import msgspec  # noqa: PLC0415 - loaded for answers only

    from feed_assets.run_history.answers import says_of  # noqa: PLC0415 - as above
    from feed_assets.run_history.health import health as all_series  # noqa: PLC0415 - loads SQLAlchemy
    from feed_assets.sensors.ended_runs import deadlines  # noqa: PLC0415 - loads Dagster
    from feed_assets.state.store import Store  # noqa: PLC0415 - loads SQLAlchemy

    installation = load_installation()
    store, base = Store(installation.settings.state), installation.blackboard.uri("")
    known = all_series(store, base, deadlines(installation.feeds), datetime.now(UTC).date())
    if unknown := [name for name in names if name not in {each.series for each in known}]:
        there = ", ".join(each.series for each in known) or "none yet"
        raise click.UsageError(f"There is no series {', '.join(unknown)}. There are: {there}.")
    found = [each for each in known if not names or each.series in names]
    if as_json:
        print_json(msgspec.to_builtins([says_of(each) for each in found]))
    else:
        for each in found:
            for sentence in each.sentences:
                print_text(f"{'WARNING  ' * bool(each.warnings)}{sentence}", indent="    ")
    if not found:
        say("No run is known yet: the sensor run_history fills the history while `feed-assets dev` or Dagster runs.")
    if pictures is not None:
        from feed_assets.feed_events.health import pictures_of  # noqa: PLC0415 - loads Dagster

        for each in found:
            for kind, picture in pictures_of(each).items():
                file = pictures / f"{each.series.replace(' ', '-').replace('/', '-')}-{kind}.png"
                write_output(file, picture)
                say(f"Written: {file}")
    if warned := [each for each in found if each.warnings]:
        complain(f"With warnings: {', '.join(each.series for each in warned)}.")
        ctx.exit(FAILED)
