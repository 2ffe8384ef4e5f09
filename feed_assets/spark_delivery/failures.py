"""Errors of deliveries that happened in Spark's tasks, and others of Spark, as errors of deliveries.

Not here: what to do about them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, PythonException

from feed_assets.delivery import errors
from feed_assets.delivery.errors import DeliveryError
from feed_assets.engine.value_errors import reason_of

_IN_A_TASK: Final = re.compile(rf"{re.escape(errors.__name__)}\.(\w+): (.+)")
"""How the traceback of a task names our errors."""


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Raise what a task has raised in the block if it is a DeliveryError, else one that says what could not be done."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if (found := _IN_A_TASK.search(str(error))) and isinstance(kind := getattr(errors, found[1], None), type):
            raise kind(found[2]) from error
        raise DeliveryError(f"{what}: {_reason(error)}") from error


def _reason(error: PySparkException | Py4JJavaError) -> str:
    """Why Spark failed, in one line. Of Python's traceback that is the last line."""
    lines = [line for line in str(error).splitlines() if line.strip() and not line.startswith((" ", "SQLSTATE"))]
    return lines[-1] if isinstance(error, PythonException) and lines else reason_of(error)
