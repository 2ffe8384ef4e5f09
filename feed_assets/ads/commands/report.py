"""`feed-assets report`: how effective the ads were.

Here: the command. Not here: its figures, page and pictures (`ads.report`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from feed_assets.cli.clock import DayParameter, check_order
from feed_assets.cli.installation import chosen_module, load_installation
from feed_assets.cli.output import OutputPath, json_option, print_json, print_table, say, write_output
from feed_assets.file_feed.errors import NoValidUpdateError
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.reading import require_latest
from feed_assets.file_feed.wording import shortened

KEPT = ("day", "ad", "impressions", "clicks", "CTR")
"""Columns that also a narrow terminal shows."""


@click.command()
@click.option("--date", "day", type=DayParameter(), metavar="DATE", help="The ads of one day instead of all days.")
@click.option(
    "--from", "first", type=DayParameter(), metavar="DATE", help="The first day. Default: the first with data."
)
@click.option("--to", "last", type=DayParameter(), metavar="DATE", help="The last day, included.")
@click.option(
    "--output",
    "-o",
    type=OutputPath(".html", ".png"),
    help="Also write a page (.html) or a plot (.png).",
)
@json_option
def report(day: date | None, first: date | None, last: date | None, output: Path | None, *, as_json: bool) -> None:
    """Show impressions, clicks and click-through rate with its 95 % interval, by day, or with --date by ad.

    Rates are in percent; with --json they are shares from 0 to 1.
    """
    from feed_assets.ads.report import effectiveness_report as figures  # noqa: PLC0415 - loads DuckDB

    _check(day, first, last)
    installation = load_installation()
    note = installation.project.note
    if figures.LOCATION not in installation.feeds.feeds and not note:
        raise click.ClickException(
            f"{chosen_module()} has no feed {figures.LOCATION}. Only the worked example has it, and this report "
            "reads it. `feed-assets explain DATE`, `feeds` and `quarantine` show the results of any project."
        )
    now = installation.settings.clock.now()
    feed = Feed(installation.blackboard, figures.LOCATION)
    if day is None:
        days = figures.day_figures(feed, now=now, first=str(first or ""), last=str(last) if last else None)
        rows = [asdict(each) for each in days]
        shown_days = [each.day for each in days]
        nothing = f"{feed.uri} has no valid update {_period(first, last)}: {note or 'run `feed-assets backfill`.'}"
        if not rows:
            raise NoValidUpdateError(f"{nothing} {output} is not written." if output else nothing)
    else:
        try:
            update = require_latest(feed, str(day), now=now)
        except NoValidUpdateError as error:
            raise NoValidUpdateError(f"{error} {note}".strip()) from None
        rows = figures.top_ads(update)
        shown_days = [str(day)]
        nothing = f"{update.uri} is valid and has no ads."
    if as_json:
        print_json(rows)
    else:
        _print(rows, nothing)
    if missing := figures.days_without_figures(shown_days):
        say(f"Without figures, as nothing valid is published: {shortened(', '.join(missing), 200)}.")
    if output is not None and not rows:
        say(f"{output} is not written: {nothing}" if as_json else f"{output} is not written.")
    elif output is not None:
        if output.suffix == ".html":
            from feed_assets.ads.report.report_page import page  # noqa: PLC0415 - loads Jinja

            write_output(output, page(feed, shown_days, now=now).encode())
        else:
            drawn = figures.days_picture(days) if day is None else figures.ads_picture(rows, str(day))
            write_output(output, drawn)
        say(f"Written: {output}")


def _check(day: date | None, first: date | None, last: date | None) -> None:
    if day is not None and (first or last):
        raise click.BadParameter("give either one day or --from and --to.", param_hint="--date")
    check_order(first, last)


def _period(first: date | None, last: date | None) -> str:
    parts = [f"from {first}" if first else "", f"to {last}" if last else ""]
    return " ".join(part for part in parts if part) or "yet"


def _print(rows: Sequence[Mapping[str, Any]], nothing: str) -> None:
    """Print a table with rates in percent, and an interval in one column."""
    shown = [_shown(row) for row in rows]
    header = list(shown[0]) if shown else []
    print_table(header, [[row[name] for name in header] for row in shown], empty=nothing, keep=KEPT)


def _shown(row: Mapping[str, Any]) -> dict[str, object]:
    from feed_assets.ads.report.effectiveness_report import interval, percent  # noqa: PLC0415 - loads DuckDB

    shown: dict[str, object] = {}
    for name, value in row.items():
        if name == "ctr":
            shown["CTR"] = percent(value)
        elif name == "ctr_low":
            shown["95 % interval"] = interval(value, row["ctr_high"])
        elif name != "ctr_high":
            title = "ad" if name == "ad_id" else name.removesuffix("_id").replace("_", " ")
            shown[title] = round(value, 1) if isinstance(value, float) else value
            if name == "cost" and value is not None:
                shown[title] = Decimal(value)  # of a day it is a text, as in JSON
    return shown
