"""The messages and exit codes of commands that fail.

Here: turning errors into messages on stderr. Not here: which errors are expected (`feed_assets.errors`). Any other
error is a bug in the program, and keeps its stack trace.
"""

from __future__ import annotations

import logging
import os
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import click

from feed_assets.blackboard.credentials import without_credentials
from feed_assets.cli.output import complain, printable_lines
from feed_assets.errors import INTERRUPTED, NO_SPACE, exit_code
from feed_assets.processes.signals import lost_interrupts_repeated


@contextmanager
def explained_errors(ctx: click.Context, *, debug: bool = False) -> Iterator[None]:
    """Turn an error raised inside into a message and an exit code; with `debug`, print the stack trace first."""
    try:
        with _logged_plainly(debug=debug), lost_interrupts_repeated():
            yield
    except KeyboardInterrupt:
        # Else Python ends by the signal if that met an `exec` of text, such as that of a dataclass being defined.
        exec("")  # noqa: S102 - the next one makes Python forget that
        click.echo("Interrupted. Unfinished updates stay invisible to readers.", err=True)
        ctx.exit(INTERRUPTED)
    except Exception as error:
        code = exit_code(error)
        if debug and (code is not None or isinstance(error, click.ClickException)):
            trace = "".join(traceback.format_exception(error))
            click.echo(printable_lines(without_credentials(trace)), err=True, nl=False)
        if isinstance(error, click.ClickException):
            raise _fit_to_show(error) from None
        if code is None:
            raise
        complain(f"Error: {message_of(error)}")
        ctx.exit(code)


def _fit_to_show(error: click.ClickException) -> click.ClickException:
    """The error without passwords and control characters, which an argument or a name in the data may have."""
    message = error.format_message()
    shown = printable_lines(without_credentials(message))
    if shown == message:
        return error
    return click.UsageError(shown, error.ctx) if isinstance(error, click.UsageError) else click.ClickException(shown)


class _PlainHandler(logging.Handler):
    """Shows what libraries log, without stack traces: errors that matter are raised, too."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show a message, unless it comes with a stack trace."""
        if not record.exc_info:
            complain(f"{record.levelname.capitalize()}: {record.getMessage()}")  # escapes what is not printable


@contextmanager
def _logged_plainly(*, debug: bool) -> Iterator[None]:
    """Hide the stack traces that libraries log, as Spark and the database do when they are interrupted."""
    if debug or logging.getLogger().handlers:
        yield  # the calling program has configured its own logging
        return
    handler = _PlainHandler(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


def message_of(error: Exception) -> str:
    """The message of an error, for people, without the stack trace of Java and the statement of a database."""
    cause = getattr(error, "orig", None)
    if cause is not None:
        from feed_assets.operations.day_runs import unusable_database  # noqa: PLC0415 - Dagster is loaded by now

        return unusable_database(os.environ.get("DAGSTER_HOME", "its home"), cause)
    if NO_SPACE in str(error) and ("\n" in str(error) or isinstance(error, OSError)):
        temporary = os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()
        where = f"the disk of the data (FEED_ASSETS_BASE), of {temporary}, or of the file that the output goes to"
        return f"{NO_SPACE}: free some on {where}, then run the same command again."
    return str(error)
