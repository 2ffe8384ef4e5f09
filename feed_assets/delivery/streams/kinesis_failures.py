"""What a failed call of Kinesis means: whether sending again helps, and whether the stream may have acted.

Here: the codes and exceptions of AWS, botocore and urllib3. Not here: what follows (`client.facade`).
"""

from __future__ import annotations

import ssl
from typing import Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
)
from botocore.exceptions import ConnectionError as UnconnectedError
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ProxyError, SSLError

from feed_assets.delivery.errors import StreamError
from feed_assets.delivery.streams.port import AmbiguousError, NotSentError

EXPIRED: Final = frozenset({"ExpiredTokenException", "ExpiredToken"})
_THROTTLED: Final = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "LimitExceededException",
        "ThrottlingException",
        "Throttling",
        "RequestLimitExceeded",
        "TooManyRequestsException",
        "KMSThrottlingException",
        "RequestTimeoutException",
        "ResourceInUseException",
        "ExpiredNextTokenException",
    }
)
_KEYS: Final = frozenset(
    {
        "KMSAccessDeniedException",
        "KMSDisabledException",
        "KMSInvalidStateException",
        "KMSNotFoundException",
        "KMSOptInRequired",
    }
)
_CREDENTIALS: Final = frozenset(
    {
        "UnrecognizedClientException",
        "InvalidClientTokenId",
        "MissingAuthenticationTokenException",
        "IncompleteSignature",
    }
)
_CLOCKS: Final = frozenset({"InvalidSignatureException", "RequestExpired", "SignatureDoesNotMatch"})
_READS: Final = frozenset({"GetShardIterator", "GetRecords"})
_MANY: Final = 429
_SERVER: Final = 500


class ExpiredIteratorError(NotSentError):
    """The iterator of a reader is too old; another one can be had."""


class LostShardError(Exception):
    """The stream has no such shard, any more; or there is no stream, of which AWS says the same."""


def answered_failure(title: str, operation: str, code: str, message: str, status: int) -> Exception:
    """The error for an answer that is none."""
    said = f"{title}: {operation} answered {code or status}: {message or 'no message'}"
    if code == "ExpiredIteratorException":
        return ExpiredIteratorError(said)
    if code in EXPIRED:
        return NotSentError(said, credentials=True)
    if code in _THROTTLED or status == _MANY:
        return NotSentError(said)
    if status >= _SERVER:
        return AmbiguousError(said)
    return _refused(title, operation, code, message, said)


def _refused(title: str, operation: str, code: str, message: str, said: str) -> Exception:
    if code == "ResourceNotFoundException" and operation in _READS and message.startswith("Shard "):
        return LostShardError(said)
    if code == "ResourceNotFoundException":
        todo = "there is no such stream. Create it, or correct region and name"
    elif code == "InvalidArgumentException" and operation == "GetShardIterator":  # only a position is an argument
        todo = (
            "the stream was made anew: it does not know the place up to which it was read. Begin again with "
            "`feed-assets deliver consume --from-oldest`"
        )
    elif code == "AccessDeniedException":
        todo = f"the permission kinesis:{operation} is missing. Give it to the role"
    elif code in _KEYS:
        todo = f"the stream's key cannot be used ({code}). Enable the key, or allow its use"
    elif code in _CREDENTIALS:
        todo = f"AWS does not know the credentials ({code}). Correct them"
    elif code in _CLOCKS:
        todo = f"AWS refused the signature ({code}). Correct this machine's clock, or the credentials"
    else:
        return StreamError(f"{said}. Sending again would not help.")
    return StreamError(f"{title}: {todo}. AWS says: {message}")


def unanswered_failure(title: str, error: HTTPError) -> Exception:
    """The error for a request of urllib3 without an answer."""
    said = f"{title}: {error}"
    if isinstance(error, NewConnectionError | ConnectTimeoutError | ProxyError):
        return NotSentError(said)
    if isinstance(error, SSLError) and isinstance(error.args[0], ssl.SSLCertVerificationError):
        return StreamError(
            f"{title}: the certificate of its server is not trusted. Set AWS_CA_BUNDLE, or the endpoint: {error}"
        )
    return AmbiguousError(said)


def botocore_failure(title: str, operation: str, error: BotoCoreError | ClientError) -> Exception:
    """The error for a call by boto3, all of which only read."""
    if isinstance(error, ClientError):
        found = error.response.get("Error", {})
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        failure = answered_failure(title, operation, found.get("Code", ""), found.get("Message", ""), status)
        return NotSentError(str(failure)) if isinstance(failure, AmbiguousError) else failure
    said = f"{title}: {operation}: {error}"
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return StreamError(f"{title}: there are no credentials of AWS ({error}). Set them as for any AWS program.")
    if isinstance(error, HTTPClientError | UnconnectedError | CredentialRetrievalError):
        return NotSentError(said)
    return StreamError(said)
