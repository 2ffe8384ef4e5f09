"""Errors after which a step can be tried again: storage or Spark's own I/O did not answer, or an input changed.

Not here: retries.
"""

from __future__ import annotations

from feed_assets.blackboard.port import UnavailableError
from feed_assets.file_feed.errors import FeedError

PASSING_JAVA_ERRORS = (
    "java.io.FileNotFoundException",  # an input changed; the next attempt resolves it again
    "java.net.ConnectException",
    "java.net.NoRouteToHostException",
    "java.net.SocketException",
    "java.net.SocketTimeoutException",
    "java.net.UnknownHostException",
    "org.apache.hadoop.fs.s3a.AWSServiceThrottledException",
    "org.apache.hadoop.fs.s3a.AWSStatus500Exception",
    "org.apache.hadoop.fs.s3a.HttpChannelEOFException",  # the connection ended without an answer
    "org.apache.hadoop.fs.s3a.RemoteFileChangedException",
    "software.amazon.awssdk.core.exception.ApiCallAttemptTimeoutException",
    "software.amazon.awssdk.core.exception.ApiCallTimeoutException",
)


class InputChangedError(FeedError):
    """Files that a step reads were replaced or removed since it resolved them. Nothing of its result is staged."""


def is_sparks(error: BaseException) -> bool:
    """Whether Spark raised this error."""
    return type(error).__module__.startswith(("py4j.", "pyspark."))


def is_transient(error: BaseException) -> bool:
    """Whether the same step can succeed later without anybody's help."""
    if isinstance(error, UnavailableError):
        return error.transient
    if isinstance(error, InputChangedError):
        return True
    if is_sparks(error):
        text = str(error)
        return any(name in text for name in PASSING_JAVA_ERRORS)
    return False
