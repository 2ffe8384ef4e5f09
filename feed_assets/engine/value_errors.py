"""Errors of Spark that come from the value of a record, such as a function that does not take it.

Here: telling them from errors of storage and of Spark itself. Not here: what to do about them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException, QueryExecutionException

from feed_assets.file_feed.wording import shortened

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_OF_VALUES: Final = ("java.lang.RuntimeException", "java.lang.StackOverflowError", "java.lang.OutOfMemoryError")
"""Java's errors of calculations are RuntimeExceptions, those of storage and of lost executors are not. A long value may
be too much for a regular expression, and a large number too much for functions such as `repeat`."""
_LONGEST: Final = 300
_FAILED_READ: Final = "[FAILED_READ_FILE"


def is_of_a_value(error: BaseException) -> bool:
    """Whether Spark failed to evaluate an expression, so that the same records fail again."""
    if isinstance(error, Py4JJavaError):
        return _FAILED_READ not in str(error.java_exception.getMessage()) and _is_of_a_value(error.java_exception)
    return isinstance(error, PySparkException) and not isinstance(
        error, AnalysisException | ParseException | QueryExecutionException
    )


def reason_of(error: BaseException) -> str:
    """The innermost reason, in one line; Spark may quote a whole record."""
    text = str(root_cause(error.java_exception).toString()) if isinstance(error, Py4JJavaError) else str(error)
    first = next(iter(text.strip().splitlines()), "") or type(error).__name__
    return shortened(re.sub(r"^[\w.]*\.(?=\w)|\s*SQLSTATE: \w+.*", "", first).rstrip("."), _LONGEST)


def root_cause(exception: JavaObject) -> JavaObject:
    """The exception of Java that led to this one."""
    while (deeper := exception.getCause()) is not None:
        exception = deeper
    return exception


def _is_of_a_value(exception: JavaObject) -> bool:
    kind = root_cause(exception).getClass()
    while kind is not None:
        if kind.getName() in _OF_VALUES:
            return True
        kind = kind.getSuperclass()
    return False
