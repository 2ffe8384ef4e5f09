"""The current time for commands. No other module of the command line reads the clock.

Here: the time, and times and spans as arguments. Not here: what commands do with them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

import click

from feed_assets.datasets.days import is_day
from feed_assets.file_feed.errors import BadNameError
from feed_assets.file_feed.names import TIMES, begun, fixed_time, parse_time

AS_OF = "FEED_ASSETS_AS_OF"
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def now(environment: Mapping[str, str] = os.environ) -> datetime:
    """The time, aware, in UTC: the machine's, unless `FEED_ASSETS_AS_OF` fixes another."""
    try:
        return fixed_time(environment.get(AS_OF), setting=AS_OF) or datetime.now(UTC)
    except ValueError as error:
        raise click.ClickException(str(error)) from None


class UpdateName(click.ParamType[str]):
    """The name of an update, `YYYYMMDD.HHMMSS`."""

    name = "update"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the name."""
        try:
            begun(value)
        except BadNameError as error:
            self.fail(str(error), param, ctx)
        return value


class Span(click.ParamType[timedelta]):
    """A span of time: a number and s, m, h, d or w."""

    name = "span"

    def convert(self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Read the span."""
        if isinstance(value, timedelta):
            return value
        match = re.fullmatch(r"([0-9]+)([smhdw])", value, re.ASCII)
        fault = f"{value!r} is no span of time: give a number with s, m, h, d or w, such as 30d."
        if match is None:
            self.fail(fault, param, ctx)
        try:
            return timedelta(**{_UNITS[match[2]]: int(match[1])})
        except OverflowError:
            self.fail(fault, param, ctx)


class DayParameter(click.ParamType[date]):
    """The type of an argument or option: a day of the calendar, `2019-11-24`. The command gets a `date`."""

    name = "date"

    def convert(self, value: str | date, param: click.Parameter | None, ctx: click.Context | None) -> date:
        """Read the day."""
        if isinstance(value, date):
            return value
        if not is_day(value):
            self.fail(f"{value!r} is no day: give one such as 2019-11-24.", param, ctx)
        return date.fromisoformat(value)


class OptionalDay(click.Argument):
    """The argument `[DATE]`. Errors name it without the brackets."""

    def get_error_hint(self, ctx: click.Context | None) -> str:  # noqa: ARG002 - click's signature
        """Its name in errors."""
        return "'DATE'"


class Moment(click.ParamType[datetime]):
    """A time: in ISO 8601, in UTC if it names no zone, or the name of an update."""

    name = "time"

    def convert(self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Read the time."""
        if isinstance(value, datetime):
            return value
        try:
            return parse_time(value)
        except ValueError:
            self.fail(f"{value!r} is no time: give {TIMES}.", param, ctx)


class Deadline(Moment):
    """A time to come: a time as for `Moment`, or a span from now on."""

    def convert(self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Read the time."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            pass
        try:
            return now() + Span().convert(str(value), param, ctx)
        except (click.BadParameter, OverflowError):
            self.fail(f"{value!r} is no time: give {TIMES}, or a span such as 7d.", param, ctx)


def check_order(first: date | None, last: date | None) -> None:
    """Raise BadParameter if --to is before --from."""
    if first and last and last < first:
        raise click.BadParameter(f"{last} is before {first}.", param_hint="--to")
