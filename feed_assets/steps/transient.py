"""Errors that pass by themselves: storage or Spark's own I/O did not answer. Not here: retries."""

from __future__ import annotations

from feed_assets.blackboard import UnavailableError

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
        return error.transient
    if type(error).__module__.startswith(("py4j.", "pyspark.")):
        text = str(error)
        return any(name in text for name in PASSING_JAVA_ERRORS)
    return False
