"""The sweep: it deletes files below `scratch/` that nobody needs, such as those of workers that were killed.

A worker writes files first, and then commits a task that names them. So the sweep lists the files first, and reads the
tasks after that, from the journal: a file that was committed meanwhile is named by then. It needs no master. Here:
which files go. Not here: files that people insert, and the updates of feeds, which have a retention of their own.

    python -m feed_assets.workflow.sweep BASE NAME

sweeps once, as the master's child process.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Final

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import Entry
from feed_assets.errors import BAD_ARGUMENT, FeedAssetsError
from feed_assets.workflow.history import HoleError, follow
from feed_assets.workflow.places import Place, open_board, open_workflow
from feed_assets.workflow.scratch import scratch_of
from feed_assets.workflow.snapshots import listed, load_newest
from feed_assets.workflow.state import State

ORPHAN_AFTER: Final = timedelta(hours=24)
"""How old a file must be, by the store's date, before the sweep may delete it."""
SWEEP_SECONDS: Final = 3600.0
"""How often a master lets its child process sweep."""
_ATTEMPT: Final = re.compile(r"[^/]+/([0-9]{1,18})-[0-9]+-[^/]+/")
"""The folder of an attempt, with its unit. The sweep leaves files outside of such folders alone."""
_TRIES: Final = 3


def sweep(place: Place, *, now: datetime, orphan_after: timedelta = ORPHAN_AFTER, dry_run: bool = False) -> list[Entry]:
    """Delete the files without an owner, and return them; with `dry_run` only return them.

    A file goes if no task names it, or a folder above it, if the unit whose attempt wrote it is gone, and if it is
    older than `orphan_after`. Costs a LIST for each 1,000 files, and the reading of the newest snapshot and the journal
    after it if any file is that old. Raises JournalDamagedError, BlackboardError.
    """
    scratch = scratch_of(place.name)
    old = [each for each in list_all(place.board, scratch) if each.modified < now - orphan_after]
    attempts = ((each, _ATTEMPT.match(each.key, len(scratch))) for each in old)
    by_unit = [(each, int(attempt[1])) for each, attempt in attempts if attempt]
    if not by_unit:
        return []
    state = _present_state(place)  # after the listing
    named = {key for task in state.tasks.values() for key in task.files}
    found = [each for each, unit in by_unit if state.version_of(unit) is None and named.isdisjoint(_names_of(each.key))]
    if not dry_run:
        place.board.delete(*(each.key for each in found))
    return found


def _names_of(key: str) -> list[str]:
    """The key, and the folders above it: a task may name either."""
    return [key, *accumulate(f"{each}/" for each in key.split("/")[:-1])]


def _present_state(place: Place) -> State:
    """The state after the last entry that is there now."""
    for tries in range(_TRIES):
        there = listed(place)
        try:
            state, cursor, _ = load_newest(place, State.load, there)
            follow(place, state, cursor)
        except HoleError:
            if tries == _TRIES - 1 or listed(place)[-1:] <= there[-1:]:
                raise
            continue  # a later snapshot was made meanwhile, and the entries before it were removed
        return state
    raise AssertionError("the last try returns or raises")


def main(arguments: Sequence[str]) -> int:
    """Sweep once. Returns the exit code."""
    if len(arguments) != 2:  # noqa: PLR2004 - those of the usage
        print("Usage: python -m feed_assets.workflow.sweep BASE NAME", file=sys.stderr)  # noqa: T201
        return BAD_ARGUMENT
    base, name = arguments
    try:
        sweep(open_workflow(open_board(base), name), now=datetime.now(UTC))
    except FeedAssetsError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
