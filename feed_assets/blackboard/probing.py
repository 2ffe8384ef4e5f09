"""Probes of a store with the protocol of S3: the conditions that the blackboard relies on, and its clock.

Here: asking a store, and what follows from a condition that it does not honour. Not here: working around it (`s3`), and
telling people. A probe costs 13 requests, and one more over HTTP. It writes below a folder of its own in `.probe/`, and
removes what it wrote.
It asks one request after the other, so it cannot show whether a store decides between two writers at the same moment.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from botocore.auth import AUTH_TYPE_MAPS, S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, ClientError

from feed_assets.blackboard.s3_answers import REFUSED, code_of

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

MOST_SKEW: Final = timedelta(seconds=5)
"""A larger difference between the clocks of the machine and of the store is reported."""

_SENT: Final = "feed_assets.sent"
_warned: set[str] = set()
_log = logging.getLogger("feed_assets.blackboard")

_CONSEQUENCES: Final = {
    "create-if-absent on PUT": "Two writers can claim the same update. Use another store, or one writer at a time.",
    "create-if-absent on completing an upload in parts": (
        "Two uploads of one large file at the same moment can overwrite each other; "
        "a file that was there before is found and kept."
    ),
    "create-if-absent on copy": (
        "Two copies to one key at the same moment can overwrite each other; "
        "an object that was there before is found and kept."
    ),
    "replace-if-match on PUT": "Writers can lose changes of each other, or cannot publish at all. Use another store.",
    "StartAfter in listings": "Histories of more than 1,000 keys cannot be listed. Use another store.",
    "signed uploads of empty objects over HTTP": (
        "Spark cannot write to it. Give it an https endpoint (AWS_ENDPOINT_URL_S3), or use another store."
    ),
}

_TOLERABLE: Final = frozenset({"create-if-absent on completing an upload in parts", "create-if-absent on copy"})


@dataclass(frozen=True, slots=True)
class Condition:
    """What requests ask for, whether the store honours it, what follows if not, and whether feeds or Spark need it."""

    name: str
    honoured: bool
    consequence: str
    needed: bool


@dataclass(frozen=True, slots=True)
class Probe:
    """The behaviour of a store. `skew` is how far its clock is ahead of this machine's, within about a second."""

    conditions: tuple[Condition, ...]
    skew: timedelta

    def warnings(self) -> tuple[str, ...]:
        """A sentence or two for each condition that is missing, and for clocks that differ by more than MOST_SKEW."""
        missing = [
            f"The store does not honour {each.name}. {each.consequence}"
            for each in self.conditions
            if not each.honoured
        ]
        if abs(self.skew) > MOST_SKEW:
            missing.append(clock_warning(self.skew))
        return tuple(missing)


def clock_warning(skew: timedelta) -> str:
    """What follows if the store's clock is so far ahead of this machine's."""
    direction = "behind" if skew > timedelta(0) else "ahead of"
    return (
        f"This machine's clock is {abs(skew).total_seconds():.0f} s {direction} the store's. "
        "Updates are named by this clock: set it, so that the newest update is the one begun last."
    )


def watch_clock(client: S3Client) -> None:
    """Log a warning, once in a process, if an answer's date differs from this machine's clock by more than MOST_SKEW.

    This costs no request: the store dates each of its answers.
    """
    client.meta.events.register("before-call.s3", _sent, unique_id="feed_assets.sent")
    client.meta.events.register("after-call.s3", _received, unique_id="feed_assets.received")


def _sent(context: dict[str, Any], **_: object) -> None:
    context[_SENT] = datetime.now(UTC)


def _received(parsed: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    if _warned or _SENT not in context:
        return
    try:
        dated = parsedate_to_datetime(parsed["ResponseMetadata"]["HTTPHeaders"]["date"]).astimezone(UTC)
    except (KeyError, ValueError):
        return  # an answer without a date is as good as any
    # The store dated its answer between these moments, in whole seconds.
    ahead, behind = dated - datetime.now(UTC), context[_SENT] - dated - timedelta(seconds=1)
    if max(ahead, behind) > MOST_SKEW:
        _warned.add("clock")
        _log.warning("%s", clock_warning(ahead if ahead > behind else -behind))


def probe(client: S3Client, bucket: str, prefix: str) -> Probe:
    """Ask the store of this bucket; `prefix` is "" or ends in `/`. Raises what the client raises."""
    folder = f"{prefix}.probe/{uuid.uuid4().hex}/"
    first: dict[str, Any] = {"Bucket": bucket, "Key": f"{folder}a"}
    second: dict[str, Any] = {"Bucket": bucket, "Key": f"{folder}b"}
    upload = ""

    def create() -> object:
        return client.put_object(**first, Body=b"1", IfNoneMatch="*")

    def complete() -> object:
        return client.complete_multipart_upload(
            **second,
            UploadId=upload,
            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]},
            IfNoneMatch="*",
        )

    try:
        asked = datetime.now(UTC)
        created = client.put_object(**first, Body=b"1")
        answered = datetime.now(UTC)
        client.put_object(**second, Body=b"2")
        # The tag without quotes, as the blackboard sends it.
        tag = created["ETag"].strip('"')
        honoured = [_refused(create)]
        upload = client.create_multipart_upload(**second)["UploadId"]
        part = client.upload_part(**second, UploadId=upload, PartNumber=1, Body=b"3")
        honoured += [
            _refused(complete),
            _refused(
                lambda: client.copy_object(
                    **second, CopySource={"Bucket": bucket, "Key": first["Key"]}, IfNoneMatch="*"
                )
            ),
            _refused(lambda: client.put_object(**first, Body=b"4", IfMatch="0" * 32))
            and not _refused(lambda: client.put_object(**first, Body=b"5", IfMatch=tag)),
        ]
        listed = client.list_objects_v2(Bucket=bucket, Prefix=folder, StartAfter=first["Key"])
        honoured.append([each["Key"] for each in listed.get("Contents", ())] == [second["Key"]])
        honoured.append(client.meta.endpoint_url.startswith("https:") or _takes_chunks(client, first))
    finally:
        with suppress(ClientError, BotoCoreError):
            # There is nothing to abort after an upload that was completed.
            if upload:
                client.abort_multipart_upload(**second, UploadId=upload)
        for each in (first, second):
            client.delete_object(**each)
    date = parsedate_to_datetime(created["ResponseMetadata"]["HTTPHeaders"]["date"])
    # The header has whole seconds, so the answer was on average half a second later.
    skew = date + timedelta(seconds=0.5) - (asked + (answered - asked) / 2)
    named = zip(_CONSEQUENCES.items(), honoured, strict=True)
    found = (Condition(name, answer, what, needed=name not in _TOLERABLE) for (name, what), answer in named)
    return Probe(tuple(found), skew)


class _ChunkedAuth(S3SigV4Auth):
    """Signs an upload of nothing as a stream of chunks, the last of which is empty, as S3A's client does over HTTP."""

    NAME: Final = "feed_assets-chunked"

    def payload(self, request: AWSRequest) -> str:  # noqa: ARG002 - of the client
        """What stands for the digest of the content."""
        return "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"

    def add_auth(self, request: AWSRequest) -> None:
        """Sign the headers, then the only chunk."""
        request.headers["Content-Encoding"] = "aws-chunked"
        request.headers["X-Amz-Decoded-Content-Length"] = "0"
        super().add_auth(request)
        before = request.headers["Authorization"].rpartition("Signature=")[2]
        nothing = hashlib.sha256().hexdigest()
        signed = ("AWS4-HMAC-SHA256-PAYLOAD", request.context["timestamp"], self.credential_scope(request))
        signature = self.signature("\n".join([*signed, before, nothing, nothing]), request)
        request.data = f"0;chunk-signature={signature}\r\n\r\n".encode()


AUTH_TYPE_MAPS[_ChunkedAuth.NAME] = _ChunkedAuth


def _takes_chunks(client: S3Client, place: dict[str, Any]) -> bool:
    """Whether the store takes an empty object whose upload is signed in chunks."""
    thread = threading.get_ident()

    def choose(**_: object) -> Any:
        return _ChunkedAuth.NAME if threading.get_ident() == thread else None

    client.meta.events.register("choose-signer.s3.PutObject", choose)
    try:
        client.put_object(**place, Body=b"")
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise
        return False
    finally:
        client.meta.events.unregister("choose-signer.s3.PutObject", choose)
    return True


def _refused(request: Callable[[], object]) -> bool:
    """Whether the store refuses a request because its condition does not hold."""
    try:
        request()
    except ClientError as error:
        code = code_of(error)
        if code in REFUSED:
            return True
        if code not in {"NotImplemented", "501"}:
            raise
    return False
