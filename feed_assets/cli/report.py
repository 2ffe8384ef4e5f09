"""`feed-assets report`: how effective the ads were.

Here: the command. Not here: the figures (`feed_assets.report`) and the pictures (`feed_assets.plots`).
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from feed_assets.cli.installation import left_out, load_settings
from feed_assets.cli.output import json_option, print_json, print_table, say
from feed_assets.file_feed import Feed, NoValidUpdateError, require_latest

LOCATION = "ad-effectiveness/v1.0"


@click.command()
@click.option(
    "--date", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="The ads of one day instead of all days."
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write a plot (.png), or the whole report as a page (.html).",
)
@json_option
def report(date: datetime | None, output: Path | None, *, as_json: bool) -> None:
    """Impressions, clicks and click-through rate with its 95 % interval: a row a day, or with --date a row an ad."""
    from feed_assets import report as figures  # noqa: PLC0415 - loads DuckDB and matplotlib
    from feed_assets.resources import BlackboardResource  # noqa: PLC0415 - loads Dagster

    if output is not None and output.suffix not in {".png", ".html"}:
        message = f"{output} is neither a .png nor a .html file."
        raise click.BadParameter(message, param_hint="--output")
    settings = load_settings()
    now = settings.clock.now()
    feed = Feed(BlackboardResource.at(settings.base).blackboard, LOCATION)
    if date is None:
        days = figures.day_figures(feed, now=now)
        rows = [asdict(day) for day in days]
        picture = figures.days_picture(days)
        shown_days = [day.day for day in days]
        nothing = f"{feed.uri} has no valid update yet: {left_out() or 'run `feed-assets backfill`.'}"
    else:
        try:
            update = require_latest(feed, f"{date:%Y-%m-%d}", now=now)
        except NoValidUpdateError as error:
            raise NoValidUpdateError(f"{error} {left_out()}".strip()) from None
        rows = figures.top_ads(update)
        picture = figures.ads_picture(rows, f"{date:%Y-%m-%d}")
        shown_days = [f"{date:%Y-%m-%d}"]
        nothing = f"{update.uri} is valid and has no ads."
    if as_json:
        print_json(rows)
    else:
        header = list(rows[0]) if rows else []
        print_table(
            [name.replace("_", " ") for name in header],
            [[_shown(row[name]) for name in header] for row in rows],
            empty=nothing,
        )
    if output is not None and not rows:
        say(f"{output} is not written: {nothing}" if as_json else f"{output} is not written.")
    elif output is not None:
        if output.suffix == ".png":
            output.write_bytes(picture)
        else:
            output.write_text(figures.page(feed, shown_days, now=now), encoding="utf-8")
        say(f"Written: {output}")


def _shown(value: object) -> object:
    return f"{value:.4f}" if isinstance(value, float) else value
