"""Errors that pass by themselves: storage or Spark's own I/O did not answer. Not here: retries."""

from __future__ import annotations

import errno

from botocore.exceptions import BotoCoreError, HTTPClientError
from botocore.exceptions import ConnectionError as UnreachableError

from feed_assets.blackboard import UnavailableError

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


def is_transient(error: BaseException) -> bool:
    """Whether the same step can succeed later without anybody's help."""
    if isinstance(error, UnavailableError):
        return _passes(error.__cause__ or error.__context__)
    if type(error).__module__.startswith(("py4j.", "pyspark.")):
        text = str(error)
        return any(name in text for name in PASSING_JAVA_ERRORS)
    return False


def _passes(cause: BaseException | None) -> bool:
    """Whether the cause of a store's failure passes. A failure without a cause counts as a store out of reach."""
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
