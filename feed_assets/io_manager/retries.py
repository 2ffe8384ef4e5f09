"""Trying a step again when storage or Spark's own I/O did not answer.

Here: which errors pass by themselves, and how long a step waits for that. Not here: a run that failed for good; the
sensors ask again for its input.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
from botocore.exceptions import BotoCoreError, HTTPClientError
from botocore.exceptions import ConnectionError as UnreachableError

from feed_assets.blackboard import UnavailableError

PAUSES = (1.0, 5.0, 25.0)
"""Seconds before each further attempt at a step."""

PASSING_DISK_ERRORS = frozenset(
    {errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.ETIMEDOUT}
)
TOO_MANY_REQUESTS, SERVER_ERROR = 429, 500
PASSING_ANSWERS = frozenset({"RequestTimeout", "SlowDown", "Throttling", "ThrottlingException"})
PASSING_JAVA_ERRORS = (
    "java.net.ConnectException",
    "java.net.NoRouteToHostException",
    "java.net.SocketException",
    "java.net.SocketTimeoutException",
    "java.net.UnknownHostException",
    "org.apache.hadoop.fs.s3a.AWSServiceThrottledException",
    "org.apache.hadoop.fs.s3a.AWSStatus500Exception",
    "software.amazon.awssdk.core.exception.ApiCallAttemptTimeoutException",
    "software.amazon.awssdk.core.exception.ApiCallTimeoutException",
)


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


def is_transient(error: BaseException) -> bool:
    """Whether the same step can succeed a little later, with nobody doing anything about it."""
    if isinstance(error, UnavailableError):
        return _passes(error.__cause__ or error.__context__)
    if type(error).__module__.startswith(("py4j.", "pyspark.")):
        text = str(error)
        return any(name in text for name in PASSING_JAVA_ERRORS)
    return False


def _passes(cause: BaseException | None) -> bool:
    """Whether what kept the store from answering passes. A store that does not say why counts as not reached."""
    if isinstance(cause, BotoCoreError):
        return isinstance(cause, UnreachableError | HTTPClientError)
    if isinstance(cause, OSError):
        return cause.errno in PASSING_DISK_ERRORS
    answer = getattr(cause, "response", None)
    if isinstance(answer, dict):
        status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        code = answer.get("Error", {}).get("Code", "")
        return status == TOO_MANY_REQUESTS or status >= SERVER_ERROR or code in PASSING_ANSWERS
    return True
