"""Trying a step again when storage or Spark's own I/O did not answer.

Here: how long a step waits for an error to pass. Not here: which errors pass by themselves (`steps.transient`), and a
run that failed for good; the sensors ask again for its input.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from feed_assets.steps.transient import is_transient

PAUSES = (1.0, 5.0, 25.0)
"""Seconds before each further attempt at a step."""


@contextmanager
def retrying(attempts_before: int) -> Iterator[None]:
    """Ask Dagster for another attempt at the step where the error is one that passes, at most `len(PAUSES)` times.

    Every other error is raised as it is: bad data, bad configuration, a missing input, a full disk.
    """
    try:
        yield
    except Exception as error:
        if not is_transient(error):
            raise
        pause = PAUSES[min(attempts_before, len(PAUSES) - 1)]
        raise dg.RetryRequested(max_retries=len(PAUSES), seconds_to_wait=pause) from error
