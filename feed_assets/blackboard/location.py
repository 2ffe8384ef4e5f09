"""From a URI to the blackboard it names.

Here: the URIs that are understood, and the store that each names. Not here: the content of the
location, or how a store works.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from feed_assets.blackboard.credentials import has_credentials
from feed_assets.blackboard.folders import leading_out
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.port import Blackboard, BlackboardError, InvalidKeyError, UnavailableError
from feed_assets.errors import BAD_ARGUMENT

if TYPE_CHECKING:
    from botocore.config import Config
    from types_boto3_s3 import S3Client


class UnknownLocationError(BlackboardError, ValueError):
    """The location is neither a local path nor a `file://` or `s3://` URI."""

    exit_code = BAD_ARGUMENT


def open_blackboard(uri: str, *, s3_client_factory: Callable[[], S3Client] | None = None) -> Blackboard:
    """The blackboard at a local path, `file:///directory` or `s3://bucket/prefix`; nothing is created yet.

    A path that starts with `~` is below the home directory.
    Without a factory the client for S3 is boto3's, configured by the usual environment: credentials
    and region, and `AWS_ENDPOINT_URL_S3` for a store other than AWS. Raises UnknownLocationError.
    """
    found = _parsed(uri)
    return LocalBlackboard(found) if isinstance(found, Path) else _bucket(*found, s3_client_factory)


def check_location(uri: str) -> None:
    """Raise UnknownLocationError unless `open_blackboard` takes this URI. Opens nothing."""
    _parsed(uri)


def _parsed(uri: str) -> Path | tuple[str, str]:
    """The directory, or the bucket and the prefix, that a URI names."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/", uri)
    if scheme is None:
        if not uri:
            raise UnknownLocationError("A location is empty. Give a path, file:///... or s3://bucket/...")
        try:
            return Path(uri).expanduser()
        except RuntimeError:
            raise UnknownLocationError(
                f"{uri!r} starts with a user's home directory, but no user of that name has one. "
                f"Correct the name, or write ./{uri}."
            ) from None
    if has_credentials(uri):
        raise UnknownLocationError(
            f"A location starts with {scheme[1]}:// and has an @ or a : before its path, as for credentials. They do "
            "not belong there: write s3://bucket/prefix, and let AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
            "AWS_PROFILE, have them. The location is not shown, because it may contain a secret."
        )
    match scheme[1].lower():
        case "file":
            return _local_path(uri)
        case "s3":
            return _bucket_and_prefix(uri)
        case "s3a" | "s3n" as other:
            raise UnknownLocationError(f"{uri!r} starts with {other}://. Write s3:// here, for Spark as well.")
        case other:
            shown = uri.partition("?")[0]  # a query may hold a signature
            raise UnknownLocationError(
                f"{shown!r} starts with {other}:, which is not understood. Give a path, file:///... or s3://bucket/..."
            )


def local_directory(uri: str) -> Path | None:
    """The directory or file that a path or `file://` URI names; None for any other URI. Raises UnknownLocationError."""
    if uri.startswith("file:/"):
        return _local_path(uri)
    return None if "://" in uri else Path(uri)


def outside(blackboard: Blackboard, keys: Iterable[str]) -> dict[str, str]:
    """Those of these keys that a symbolic link leads out of the blackboard, each with the path that it leads to.

    The blackboard itself refuses to read them; a program that reads by URI follows the link. None in a bucket.
    """
    root = local_directory(blackboard.uri(""))
    return leading_out(root, keys) if root else {}


def readable_uris(blackboard: Blackboard, keys: Collection[str]) -> list[str]:
    """The URIs of these objects for programs that read by URI, and so follow links.

    Raises InvalidKeyError if a symbolic link leads out of the blackboard.
    """
    for key, leads_to in outside(blackboard, keys).items():
        raise InvalidKeyError(
            f"{blackboard.uri(key)} is reached over a symbolic link, to {leads_to}, and is not read: links may "
            "not lead out of a blackboard. Put the file itself there."
        )
    return [blackboard.uri(key) for key in keys]


def _local_path(uri: str) -> Path:
    if has_credentials(uri):
        raise UnknownLocationError("A file: location has an @ or a : before its path. Write file:///path.")
    parts = urlsplit(uri)
    if parts.netloc not in {"", "localhost"}:
        raise UnknownLocationError(
            f"{uri!r} names the machine {parts.netloc!r}. Write file:///path, with three slashes."
        )
    if not parts.path:
        raise UnknownLocationError(f"{uri!r} names no directory. Write file:///path, with three slashes.")
    if parts.query or parts.fragment:
        raise UnknownLocationError(f"{uri!r} has a '?' or '#'. Write them as %3F and %23.")
    return Path(unquote(parts.path))


def _bucket_and_prefix(uri: str) -> tuple[str, str]:
    # Split by hand: '?', '#' and '%' have no meaning in S3 keys.
    bucket, _, prefix = uri.partition("://")[2].partition("/")
    if not bucket:
        raise UnknownLocationError(f"{uri!r} names no bucket. Write s3://bucket/prefix.")
    return bucket, prefix


def _bucket(bucket: str, prefix: str, client_factory: Callable[[], S3Client] | None) -> Blackboard:
    # boto3 loads slowly, and data on a local disk does not need it.
    from feed_assets.blackboard.s3 import S3Blackboard  # noqa: PLC0415 - see above

    client = client_factory() if client_factory else _client_of_the_environment()
    return S3Blackboard(client, bucket, prefix)


def impatient_s3_client() -> S3Client:
    """A client by the usual environment whose requests end after seconds, and that repeats none.

    For a writer that repeats its requests itself. Raises UnavailableError.
    """
    from botocore.config import Config  # noqa: PLC0415 - loaded only for a bucket

    return _client_of_the_environment(
        Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1, "mode": "standard"})
    )


def _client_of_the_environment(config: Config | None = None) -> S3Client:
    import boto3  # noqa: PLC0415 - loaded only for a bucket
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - loaded only for a bucket

    try:
        return boto3.client("s3", config=config)
    except (BotoCoreError, ValueError) as error:
        # Not chained: the error may quote a URL with credentials.
        raise UnavailableError(
            f"The settings for S3 cannot be used ({type(error).__name__}). "
            "Check AWS_PROFILE, AWS_DEFAULT_REGION and AWS_ENDPOINT_URL_S3.",
            transient=False,
        ) from None
