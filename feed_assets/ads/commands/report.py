"""`feed-assets report`: how effective the ads were.

Here: the command. Not here: its figures, page and pictures (`ads.report`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from textwrap import shorten
from typing import Any

import click

import feed_assets as fa
from feed_assets.ads.partners import partners_directory

KEPT = ("day", "ad", "impressions", "clicks", "CTR")
"""Columns that also a narrow terminal shows."""


@click.command()
@click.option(
    "--date", "day", type=fa.cli.DayParameter(), metavar="DATE", help="The ads of one day instead of all days."
)
@click.option(
    "--from", "first", type=fa.cli.DayParameter(), metavar="DATE", help="The first day. Default: the first with data."
)
@click.option("--to", "last", type=fa.cli.DayParameter(), metavar="DATE", help="The last day, included.")
@click.option(
    "--output",
    "-o",
    type=fa.cli.OutputPath(".html", ".png"),
    help="Also write a page (.html) or a plot (.png).",
)
@fa.cli.json_option
def report(day: date | None, first: date | None, last: date | None, output: Path | None, *, as_json: bool) -> None:
    """Show impressions, clicks and click-through rate with its 95 % interval, by day, or with --date by ad.

    Rates are in percent; with --json they are shares from 0 to 1.
    """
    from feed_assets.ads.report import effectiveness_report as figures  # noqa: PLC0415 - loads DuckDB

    _check(day, first, last)
    settings = fa.Settings.from_environment(sources_directory=partners_directory())
    now = settings.clock.now()
    feed = fa.Feed(settings.blackboard.blackboard, figures.LOCATION)
    if day is None:
        days = figures.day_figures(feed, now=now, first=str(first or ""), last=str(last) if last else None)
        rows, shown_days = [asdict(each) for each in days], [each.day for each in days]
        if not days:
            advice = _left_out(settings) or "run `feed-assets backfill`."
            nothing = f"{feed.uri} has no valid update {_period(first, last)}: {advice}"
            raise fa.file_feed.NoValidUpdateError(f"{nothing} {output} is not written." if output else nothing)
    else:
        try:
            update = fa.require_latest(feed, str(day), now=now)
        except fa.file_feed.NoValidUpdateError as error:
            raise fa.file_feed.NoValidUpdateError(f"{error} {_left_out(settings)}".strip()) from None
        rows, shown_days = figures.top_ads(update), [str(day)]
    if as_json:
        fa.cli.print_json(rows)
    else:
        _print(rows)
    if missing := figures.days_without_figures(shown_days):
        names = shorten(", ".join(missing), 200, placeholder=" ...")
        fa.cli.say(f"Without figures, as nothing valid is published: {names}.")
    if output is not None and not rows:
        fa.cli.say(f"{output} is not written, as the valid update has no ads.")
    elif output is not None:
        content = (
            _page(feed, shown_days, now)
            if output.suffix == ".html"
            else figures.days_picture(days)
            if day is None
            else figures.ads_picture(rows, str(day))
        )
        fa.cli.write_output(output, content)
        fa.cli.say(f"Written: {output}")


def _check(day: date | None, first: date | None, last: date | None) -> None:
    if day is not None and (first or last):
        raise click.BadParameter("give either one day or --from and --to.", param_hint="--date")
    if first and last and last < first:
        raise click.BadParameter(f"{last} is before {first}.", param_hint="--to")


def _period(first: date | None, last: date | None) -> str:
    parts = [f"from {first}" if first else "", f"to {last}" if last else ""]
    return " ".join(part for part in parts if part) or "yet"


def _left_out(settings: fa.Settings) -> str:
    """A message: which assets this installation cannot have; empty if it has all."""
    from feed_assets.ads.assets.fed_kinds import left_out  # noqa: PLC0415 - loads Spark's Python side
    from feed_assets.ads.schemas import KINDS  # noqa: PLC0415 - as above

    return left_out(fa.load_sources(settings.sources_directory, KINDS))


def _page(feed: fa.Feed, days: Sequence[str], now: datetime) -> bytes:
    from feed_assets.ads.report.report_page import page  # noqa: PLC0415 - loads Jinja

    return page(feed, days, now=now).encode()


def _print(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table with rates in percent, and an interval in one column."""
    shown = [_shown(row) for row in rows]
    header = list(shown[0]) if shown else []
    cells = [[row[name] for name in header] for row in shown]
    fa.cli.print_table(header, cells, empty="The valid update has no ads.", keep=KEPT)


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
