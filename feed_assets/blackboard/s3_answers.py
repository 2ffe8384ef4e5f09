"""Errors and advice for refused or unanswered requests to a store with the protocol of S3.

Not here: requests (`s3`). No message quotes a request's URL, which may carry credentials.
"""

from __future__ import annotations

from typing import Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    ParamValidationError,
)
from botocore.exceptions import (
    ConnectionError as UnreachableError,
)

from feed_assets.blackboard.port import UnavailableError

MISSING: Final = ("NoSuchKey", "NotFound", "404")
"""Codes for an object that is not there."""
REFUSED: Final = ("PreconditionFailed", "412")
"""Codes for a request whose condition does not hold."""

_BUSY: Final = (
    *("RequestTimeout", "SlowDown", "Throttling", "ThrottlingException"),
    *("InternalError", "ServiceUnavailable"),  # of a single key among many, without a status
)
_DAMAGED: Final = ("BadDigest", "XAmzContentSHA256Mismatch")
_TOO_MANY_REQUESTS, _SERVER_ERROR = 429, 500

_CREDENTIALS = "Check the credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE)"
_RIGHTS = "Allow this user to list the bucket and to get, put and delete its objects"
_REGION = "Name the bucket's region (AWS_DEFAULT_REGION)"
_DAMAGE = "The bytes were damaged on the way: try again, and check the network"
_ADVICE: Final = {
    "AccessDenied": _RIGHTS,
    "AllAccessDisabled": _RIGHTS,
    "403": _RIGHTS,
    # The answer to a HEAD has no body, so S3 cannot say which of these is wrong.
    "400": "Log in again if the credentials may have expired, and check the bucket's region (AWS_DEFAULT_REGION)",
    "ExpiredToken": "Log in again, and restart what runs already: the credentials have expired",
    "InvalidAccessKeyId": _CREDENTIALS,
    "InvalidToken": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "AuthorizationHeaderMalformed": _REGION,
    "PermanentRedirect": _REGION,
    "301": _REGION,
    "RequestTimeTooSkewed": "Set this machine's clock",
    "InvalidBucketName": "Correct the name of the bucket: 3 to 63 small letters, digits, dots and hyphens",
    "KeyTooLongError": "Use a shorter name: with the base, S3 takes 1,024 bytes",
    "NotImplemented": "Use a store that has conditional writes and StartAfter",
    "BadDigest": _DAMAGE,
    "XAmzContentSHA256Mismatch": _DAMAGE,
} | dict.fromkeys(
    ("ConditionalRequestConflict", "OperationAborted", "409"), "Others keep writing the same object: try again later"
)


def code_of(error: ClientError) -> str:
    """The code of a store's answer; "" without one."""
    return error.response["Error"].get("Code", "")


def refusal(error: ClientError, doing: str, *, bucket: str, host: str) -> UnavailableError:
    """The error that a store's answer means: `doing` says what was requested."""
    code = code_of(error)
    if code == "NoSuchBucket":
        advice = f"There is no bucket {bucket!r} at {host}: create it, or correct the name"
        return UnavailableError(f"Could not {doing}. {advice}.", transient=False)
    message = error.response["Error"].get("Message", "")
    advice = _ADVICE.get(code, "Try again; if it stays so, look the code up in the store's documentation")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    transient = status == _TOO_MANY_REQUESTS or status >= _SERVER_ERROR or code in (*_BUSY, *_DAMAGED)
    text = f"Could not {doing}: {host} answered {code} ({message}). {advice}."
    return UnavailableError(text, transient=transient)


def failure(error: BotoCoreError, doing: str, *, host: str) -> UnavailableError:
    """The error that a request without an answer means."""
    kind = type(error).__name__
    if isinstance(error, NoCredentialsError):
        text = f"Could not {doing}: no credentials were found. {_CREDENTIALS}."
    elif isinstance(error, UnreachableError | HTTPClientError):
        advice = "Check that it is running, the network, and the endpoint (AWS_ENDPOINT_URL_S3)"
        return UnavailableError(f"Could not {doing}: no answer from {host} ({kind}). {advice}.")
    elif isinstance(error, ParamValidationError):
        text = f"Could not {doing}: this is not a bucket and a key that S3 takes ({kind})."
    else:
        text = f"Could not {doing}: {kind}. {_CREDENTIALS} and the client's settings."
    return UnavailableError(text, transient=False)
