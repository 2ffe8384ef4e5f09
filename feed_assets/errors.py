"""The root of all errors that a user can mend, and what a command's exit code says of an error.

Here: one root. Each room has its own errors below it, whose messages say what is wrong, where, and what to do:

    FeedAssetsError
    ├── BlackboardError      storage (`blackboard`)
    ├── FeedError            feeds and updates (`file_feed`, `steps`, `engine`)
    ├── JournalError         records that wait to land (`journal`)
    ├── StoreError           the state database (`state`)
    ├── SourceError          partners' files and their descriptions (`sources`)
    ├── PlaceError           where files are fetched from (`polling`)
    ├── JavaError, JarsError, ArchiveError, MasterError   what Spark needs (`engine`)
    ├── WarehouseError, CatalogError   tables (`warehouse`, `data_catalog`)
    ├── DeliveryError        destinations, streams and stores (`delivery`)
    ├── DependencyError      slots, and facts about them (`dependencies`)
    └── SettingsError, ProjectError    this installation (`environment`, `project`)

Not here: showing them (`cli.exit_codes`). An error that is none of these is a bug in the program.
"""

from __future__ import annotations

from typing import ClassVar, Final

FAILED: Final = 1
BAD_ARGUMENT: Final = 2
NO_VALID_UPDATE: Final = 3
INTERRUPTED: Final = 130

NO_SPACE: Final = "No space left on device"
"""The operating system's message about a full disk, also in Java's errors."""
DATABASE_ERRORS: Final = frozenset({"dagster._core.errors.DagsterError", "sqlalchemy.exc.DatabaseError"})
"""Errors of Dagster and its database. By name: importing the classes would load Dagster."""


class FeedAssetsError(Exception):
    """An error that a user can mend. The message says what, where and what to do. A command exits with `exit_code`."""

    exit_code: ClassVar[int] = FAILED


def exit_code(error: BaseException) -> int | None:
    """The exit code of an expected error; None for a bug."""
    if isinstance(error, FeedAssetsError):
        return error.exit_code
    expected = isinstance(error, OSError) or NO_SPACE in str(error)  # its message names the file and what is wrong
    names = {f"{each.__module__}.{each.__qualname__}" for each in type(error).__mro__}
    return FAILED if expected or names & DATABASE_ERRORS else None
