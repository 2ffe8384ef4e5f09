"""What a user is told when a command fails, and with which exit code.

Here: the one place where errors become messages on stderr. Not here: the errors; their messages say what, where and
what to do. Anything that is not expected here is a fault in the program and keeps its stack trace.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import click

FAILED = 1
BAD_ARGUMENT = 2
NO_VALID_UPDATE = 3
INTERRUPTED = 130

# By name, as importing them would load Dagster and pydantic where neither is needed. The most special class counts.
EXPECTED: Mapping[str, int] = {
    "feed_assets.file_feed.errors.NoValidUpdateError": NO_VALID_UPDATE,
    "feed_assets.file_feed.errors.BadNameError": BAD_ARGUMENT,
    "feed_assets.file_feed.errors.MixedFeedError": BAD_ARGUMENT,
    "feed_assets.file_feed.errors.FeedError": FAILED,
    "feed_assets.blackboard.location.UnknownLocationError": BAD_ARGUMENT,
    "feed_assets.blackboard.port.BlackboardError": FAILED,
    "feed_assets.resources.settings.SettingsError": FAILED,
    "feed_assets.resources.java.JavaError": FAILED,
    "feed_assets.sources.errors.SourceError": FAILED,
}


@contextmanager
def told(ctx: click.Context, *, debug: bool = False) -> Iterator[None]:
    """Turn what is raised inside into a message and an exit code; with `debug` the stack trace comes first."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("Interrupted. What was being published stays invisible; nothing is half-published.", err=True)
        ctx.exit(INTERRUPTED)
    except BrokenPipeError:
        raise  # the reader of a pipe has seen enough: click ends quietly
    except Exception as error:
        code = exit_code(error)
        if code is None:
            raise
        if debug:
            click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
        click.echo(f"Error: {error}", err=True)
        ctx.exit(code)


def exit_code(error: Exception) -> int | None:
    """The exit code of an error that can be expected, None of any other."""
    names = (f"{each.__module__}.{each.__qualname__}" for each in type(error).__mro__)
    expected = next((EXPECTED[name] for name in names if name in EXPECTED), None)
    if expected is None and isinstance(error, OSError):
        return FAILED  # its message names the file and what is wrong with it
    return expected
