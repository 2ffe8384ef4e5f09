"""Tries a step again after an error that passes, as `steps.transient` says: of storage, Spark's I/O, changed inputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from feed_assets.steps.transient import is_transient
from feed_assets.warehouse.port import WarehouseError

PAUSES = (1.0, 5.0, 25.0)
"""Seconds before each further attempt at a step."""


@contextmanager
def retrying(attempts_before: int) -> Iterator[None]:
    """Request another attempt at the step after a transient error, at most `len(PAUSES)` times.

    Other errors are raised as they are: bad data, bad configuration, a missing input, a full disk.
    """
    try:
        yield
    except Exception as error:
        if not (error.transient if isinstance(error, WarehouseError) else is_transient(error)):
            raise
        pause = PAUSES[min(attempts_before, len(PAUSES) - 1)]
        raise dg.RetryRequested(max_retries=len(PAUSES), seconds_to_wait=pause) from error
