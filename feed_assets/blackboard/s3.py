"""A blackboard in a bucket of S3, or of another store with its protocol.

Here: the requests of each operation. Not here: creating the client (any boto3 client of S3 will do), and what the
store's refusals mean (`s3_answers`).

Requests: a page is one LIST, `read` one GET, `create`, `replace` and an `upload` of ordinary size one PUT, `copy` two
HEAD and one COPY, `delete` one POST for up to 1000 keys. boto3 repeats a request without an answer, though the first
may have succeeded. So AlreadyExistsError and ConflictError may be about this very write: a caller who must know reads
the object back.

The store must offer `StartAfter` in listings (S3's directory buckets do not), `DeleteObjects`, strong consistency, and
conditional writes. Some stores ignore the condition of a copy or of an upload in parts. For them, both look for the
object first: then only two writers at once can overwrite each other.

Checksums: boto3 sends a CRC32 with each PUT and each part, if `request_checksum_calculation` has its default. The store
refuses other bytes, keeps the CRC32 of the whole object, and returns it to a GET. Bytes that do not fit it are fetched
again, also after a download that broke. A store that keeps no checksums (Ceph 16) has only TLS and TCP to rely on.
"""

from __future__ import annotations

import base64
import hashlib
import io
import logging
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar
from urllib.parse import urlsplit

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
)
from urllib3.exceptions import SSLError

from feed_assets.blackboard.keys import check_key, check_prefix
from feed_assets.blackboard.port import (
    PAGE_SIZE,
    AlreadyExistsError,
    BlackboardError,
    ConflictError,
    Content,
    Entry,
    NotFoundError,
    Page,
    UnavailableError,
)
from feed_assets.blackboard.probing import Probe, probe, watch_clock
from feed_assets.blackboard.s3_answers import MISSING, REFUSED, code_of, failure, refusal

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client
    from types_boto3_s3.type_defs import CompletedPartTypeDef, ObjectIdentifierTypeDef

    _SendPart = Callable[[str, int, int, int], CompletedPartTypeDef]

PART_BYTES: Final = 32 * 1024 * 1024
"""Larger files are uploaded in parts of at least this size, others in one request."""

COPY_BYTES: Final = 5 * 1024 * 1024 * 1024
"""The most that S3 copies with one request. Larger objects are copied in parts of this size."""

_PARTS_AT_ONCE: Final = 4
_CHUNK: Final = 1024 * 1024

_MOST_PARTS: Final = 10_000
_ATTEMPTS: Final = 6
_FIRST_PAUSE_SECONDS: Final = 0.05

# SSLError: TLS found damaged bytes within a body. botocore passes this error of urllib3 on.
_BROKEN: Final = (IncompleteReadError, HTTPClientError, SSLError)
_log = logging.getLogger("feed_assets.blackboard")
_Answer = TypeVar("_Answer")


class S3Blackboard:
    """The objects of a bucket below a prefix ("" is the whole bucket). As safe to share as the client is.

    `part_bytes` and `copy_bytes` are the sizes of the parts of large uploads and copies; S3 takes at least 5 MiB.
    `page_size` is at most PAGE_SIZE.
    """

    def __init__(
        self,
        client: S3Client,
        bucket: str,
        prefix: str = "",
        *,
        part_bytes: int = PART_BYTES,
        copy_bytes: int = COPY_BYTES,
        page_size: int = PAGE_SIZE,
    ) -> None:
        self._client = client
        watch_clock(client)
        self._bucket = bucket
        self._prefix = check_prefix(prefix and prefix.removesuffix("/") + "/")
        self._part_bytes = part_bytes
        self._copy_bytes = copy_bytes
        self._page_size = page_size

    def __repr__(self) -> str:
        return f"S3Blackboard({self.uri('')!r})"

    def page(self, prefix: str, *, after: str = "", folders: bool = False) -> Page:
        """See `Blackboard.page`."""
        request: dict[str, Any] = {"Bucket": self._bucket, "Prefix": self._prefix + check_prefix(prefix)}
        if after:
            request["StartAfter"] = self._prefix + after
        if folders:
            request["Delimiter"] = "/"
        with self._errors(f"list {self.uri(prefix)}"):
            answer = self._client.list_objects_v2(MaxKeys=self._page_size, **request)
        cut = len(self._prefix)
        # The directory marker of the root itself has no key here. Some stores begin a page with the key before it.
        entries = tuple(
            Entry(found["Key"][cut:], found["Size"], _tag(found), found["LastModified"])
            for found in answer.get("Contents", ())
            if found["Key"][cut:] > after
        )
        folders_found = (found["Prefix"][cut:] for found in answer.get("CommonPrefixes", ()))
        rolled_up = tuple(folder for folder in folders_found if folder > after)
        last = max((*rolled_up[-1:], *(entry.key for entry in entries[-1:])), default="")
        if answer["IsTruncated"] and not last:
            raise UnavailableError(
                f"Could not list {self.uri(prefix)}: {self._host()} answered that keys follow {self.uri(after)}, and "
                "returned none of them. Try again; if it stays so, use a store that honours StartAfter."
            )
        return Page(entries, rolled_up, last if answer["IsTruncated"] else None)

    def read(self, key: str, *, limit: int | None = None) -> Content:
        """See `Blackboard.read`. If the connection breaks, it reads again from the start."""
        full = self._full(key)
        with self._errors(f"read {self.uri(key)}", {MISSING: self._not_found(key)}):
            for _ in range(_ATTEMPTS):
                answer = self._client.get_object(Bucket=self._bucket, Key=full)
                entry = Entry(key, answer["ContentLength"], _tag(answer), answer["LastModified"])
                # No range in the request: for an empty object it would be an error.
                with suppress(FlexibleChecksumError, *_BROKEN), closing(answer["Body"]) as body:
                    # With a limit, boto3 verifies no checksum, and takes a short answer for the end.
                    data = body.read(None if limit is None or limit >= entry.size else limit)
                    if len(data) in {entry.size, limit}:
                        return Content(entry, data)
        raise self._unreadable(key)

    def download(self, key: str, target: Path) -> Entry:
        """See `Blackboard.download`. A connection that breaks is continued where it broke."""
        full = self._full(key)
        changed = ConflictError(f"{self.uri(key)} changed while it was read. Read it again.")
        place: dict[str, Any] = {"Bucket": self._bucket, "Key": full}
        meanings = {MISSING: self._not_found(key), REFUSED: changed}
        with self._errors(f"read {self.uri(key)}", meanings), target.open("xb") as file:
            answer = self._client.get_object(**place)
            entry = Entry(key, answer["ContentLength"], _tag(answer), answer["LastModified"])
            # boto3 verifies a body only if it is the whole object.
            stated, crc = answer.get("ChecksumCRC32", "-"), 0
            for _ in range(_ATTEMPTS):
                try:
                    with suppress(*_BROKEN), closing(answer["Body"]) as body:
                        for chunk in body.iter_chunks(_CHUNK):
                            file.write(chunk)
                            crc = zlib.crc32(chunk, crc)
                    whole = file.tell() == entry.size
                    sound = "-" in stated or base64.b64decode(stated) == crc.to_bytes(4, "big")
                except FlexibleChecksumError:
                    whole, sound = True, False
                if whole and sound:
                    return entry
                if whole:
                    file.seek(0)
                    file.truncate()
                    crc = 0
                answer = self._client.get_object(**place, Range=f"bytes={file.tell()}-", IfMatch=entry.tag)
        raise self._unreadable(key)

    def create(self, key: str, data: bytes) -> Entry:
        """See `Blackboard.create`."""
        full = self._full(key)
        with self._creating(key):
            put = self._client.put_object
            answer = _sent_until_decided(lambda: put(Bucket=self._bucket, Key=full, Body=data, IfNoneMatch="*"))
        return _written(key, len(data), answer)

    def replace(self, key: str, data: bytes, *, tag: str) -> Entry:
        """See `Blackboard.replace`."""
        full = self._full(key)
        changed = ConflictError(f"{self.uri(key)} changed or vanished since it was read. Read it again.")
        with self._errors(f"replace {self.uri(key)}", {MISSING: changed, REFUSED: changed}):
            # The tag without quotes: S3 takes both forms, some other stores only this one.
            answer = _sent_until_decided(
                lambda: self._client.put_object(Bucket=self._bucket, Key=full, Body=data, IfMatch=tag)
            )
        return _written(key, len(data), answer)

    def upload(self, key: str, source: Path) -> Entry:
        """See `Blackboard.upload`. Raises FileNotFoundError if there is no source, OSError if it is a pipe."""
        full = self._full(key)
        with source.open("rb") as content:
            if not content.seekable():
                raise io.UnsupportedOperation(
                    f"{source} cannot be read again if a request is lost: copy it into a file."
                )
            size = os.fstat(content.fileno()).st_size
            if size > self._part_bytes:
                with self._creating(key):
                    return self._upload_parts(key, content, size)

            def put() -> Mapping[str, Any]:
                content.seek(0)
                return self._client.put_object(Bucket=self._bucket, Key=full, Body=content, IfNoneMatch="*")

            with self._creating(key):
                return _written(key, size, _sent_until_decided(put))

    def copy(self, source: str, key: str) -> Entry:
        """See `Blackboard.copy`. The store copies; objects of more than 5 GiB in parts."""
        origin, full = self._full(source), self._full(key)
        with self._errors(f"copy {self.uri(source)}", {MISSING: self._not_found(source)}):
            head = self._client.head_object(Bucket=self._bucket, Key=origin)
            size = head["ContentLength"]
            with self._creating(key):
                if size > self._copy_bytes:
                    return self._copy_parts(origin, key, size, _tag(head))
                self._refuse_existing(key)
                answer = _sent_until_decided(
                    lambda: self._client.copy_object(
                        Bucket=self._bucket,
                        Key=full,
                        CopySource={"Bucket": self._bucket, "Key": origin},
                        IfNoneMatch="*",
                    )
                )
        return Entry(key, size, _tag(answer["CopyObjectResult"]), answer["CopyObjectResult"]["LastModified"])

    def delete(self, *keys: str) -> None:
        """See `Blackboard.delete`. Also deletes listed keys that `create` would refuse."""
        # The request for many keys is XML, which cannot express control characters.
        together = [key for key in keys if key.isprintable()] if len(keys) > 1 else []
        for key in keys if not together else (key for key in keys if not key.isprintable()):
            with self._errors(f"delete {self.uri(key)}"):
                self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key)
        for first in range(0, len(together), PAGE_SIZE):
            batch = together[first : first + PAGE_SIZE]
            named: list[ObjectIdentifierTypeDef] = [{"Key": self._prefix + key} for key in batch]
            with self._errors(f"delete {self.uri(batch[0])} and {len(batch) - 1} more"):
                answer = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": named, "Quiet": True})
                for each in answer.get("Errors", ()):
                    code, message = each.get("Code", ""), each.get("Message", "")
                    raise ClientError({"Error": {"Code": code, "Message": message}}, "DeleteObjects")

    def abort_uploads(self, prefix: str, *, before: datetime) -> int:
        """See `Blackboard.abort_uploads`. One request for each 1000 uploads, and one for each that is aborted."""
        place: Any = {"Bucket": self._bucket, "Prefix": self._prefix + check_prefix(prefix)}
        aborted = 0
        with self._errors(f"list the uploads below {self.uri(prefix)}"):
            for page in self._client.get_paginator("list_multipart_uploads").paginate(**place):
                for each in page.get("Uploads", ()):
                    if each["Initiated"] >= before:
                        continue
                    with suppress(self._client.exceptions.NoSuchUpload):  # somebody else has just ended it
                        self._client.abort_multipart_upload(
                            Bucket=self._bucket, Key=each["Key"], UploadId=each["UploadId"]
                        )
                        aborted += 1
        return aborted

    def flush(self, *keys: str) -> None:
        """Nothing to do: S3 keeps what it has acknowledged."""

    def tag_of(self, data: bytes) -> str | None:
        """The content's MD5: the ETag after one PUT, plain or with SSE-S3.

        An upload in parts, or with a key from KMS, has another tag.
        """
        return hashlib.md5(data, usedforsecurity=False).hexdigest()

    def uri(self, key: str) -> str:
        """`s3://<bucket>/<key>`."""
        return f"s3://{self._bucket}/{self._prefix}{key}"

    def probe(self) -> Probe:
        """The conditions that this store honours: see `probing`. Raises UnavailableError."""
        with self._errors(f"probe {self.uri('')}"):
            return probe(self._client, self._bucket, self._prefix)

    def _full(self, key: str) -> str:
        return self._prefix + check_key(key)

    def _in_parts(self, key: str, size: int, part_bytes: int, send: _SendPart, **checksum: Any) -> Entry:
        """Create an object in parts, several at once. `send` takes upload, part, offset, length."""
        place: Any = {"Bucket": self._bucket, "Key": self._full(key)}
        parts = [
            (number, offset, min(part_bytes, size - offset))
            for number, offset in enumerate(range(0, size, part_bytes), start=1)
        ]
        # Before sending the bytes, and for stores that ignore the condition at the end.
        self._refuse_existing(key)
        upload = self._client.create_multipart_upload(**place, **checksum)["UploadId"]
        try:
            with ThreadPoolExecutor(_PARTS_AT_ONCE) as pool:
                sent = list(pool.map(lambda part: send(upload, *part), parts))
            done: Mapping[str, Any] = _sent_until_decided(
                lambda: self._client.complete_multipart_upload(
                    **place, UploadId=upload, MultipartUpload={"Parts": sent}, IfNoneMatch="*"
                )
            )
        except BaseException:
            self._abort(key, upload)
            raise
        if not _tag(done):
            # Some stores complete an upload without returning its tag.
            done = self._client.head_object(**place)
        return _written(key, size, done)

    def _upload_parts(self, key: str, content: BinaryIO, size: int) -> Entry:
        def send(upload: str, number: int, offset: int, length: int) -> CompletedPartTypeDef:
            part = os.pread(content.fileno(), length, offset)
            if len(part) != length:
                raise OSError(f"The file for {self.uri(key)} became shorter while it was uploaded: upload it again.")
            answer = self._client.upload_part(
                Bucket=self._bucket, Key=self._full(key), UploadId=upload, PartNumber=number, Body=part
            )
            return _part(number, answer)

        part_bytes = max(self._part_bytes, -(-size // _MOST_PARTS))
        if getattr(self._client.meta.config, "request_checksum_calculation", None) != "when_supported":
            return self._in_parts(key, size, part_bytes, send)
        # By default the whole has a CRC64, which boto3 cannot verify. Copies keep it: versitygw computes a wrong CRC32.
        return self._in_parts(key, size, part_bytes, send, ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")

    def _copy_parts(self, origin: str, key: str, size: int, tag: str) -> Entry:
        def send(upload: str, number: int, offset: int, length: int) -> CompletedPartTypeDef:
            answer = self._client.upload_part_copy(
                Bucket=self._bucket,
                Key=self._full(key),
                UploadId=upload,
                PartNumber=number,
                CopySource={"Bucket": self._bucket, "Key": origin},
                CopySourceIfMatch=tag,
                CopySourceRange=f"bytes={offset}-{offset + length - 1}",
            )
            return _part(number, answer["CopyPartResult"])

        return self._in_parts(key, size, self._copy_bytes, send)

    def _abort(self, key: str, upload: str) -> None:
        """Remove the parts of an upload. A failure is only logged: the caller raises the first error."""
        try:
            self._client.abort_multipart_upload(Bucket=self._bucket, Key=self._full(key), UploadId=upload)
        except (ClientError, BotoCoreError) as error:
            # Its name only: its text may quote the request's URL, which may carry credentials.
            kind = code_of(error) if isinstance(error, ClientError) else type(error).__name__
            _log.warning(
                "The parts of upload %s to %s were not removed (%s), and cost money: abort that upload.",
                upload,
                self.uri(key),
                kind,
            )

    def _refuse_existing(self, key: str) -> None:
        try:
            self._client.head_object(Bucket=self._bucket, Key=self._full(key))
        except ClientError as error:
            if code_of(error) not in MISSING:
                raise
        else:
            raise self._already_exists(key)

    def _not_found(self, key: str) -> NotFoundError:
        return NotFoundError(f"There is no object {self.uri(key)}.")

    def _unreadable(self, key: str) -> UnavailableError:
        return UnavailableError(
            f"Could not read {self.uri(key)}: {_ATTEMPTS} times the connection broke, or the bytes did not fit the "
            "checksum. Try again; if it stays so, the object is damaged in the store: restore it."
        )

    def _already_exists(self, key: str) -> AlreadyExistsError:
        return AlreadyExistsError(f"{self.uri(key)} is there already; it stays as it is.")

    def _creating(self, key: str) -> AbstractContextManager[None]:
        return self._errors(f"create {self.uri(key)}", {REFUSED: self._already_exists(key)})

    @contextmanager
    def _errors(self, doing: str, meaning: Mapping[tuple[str, ...], BlackboardError] | None = None) -> Iterator[None]:
        """Raise the error that the store's answer means: by its code, or else UnavailableError with advice."""
        try:
            yield
        except ClientError as error:
            for codes, meant in (meaning or {}).items():
                if code_of(error) in codes:
                    raise meant from error
            raise refusal(error, doing, bucket=self._bucket, host=self._host()) from error
        except BotoCoreError as error:
            # Not chained: its text quotes the request's URL, which may carry credentials.
            raise failure(error, doing, host=self._host()) from None

    def _host(self) -> str:
        endpoint = urlsplit(self._client.meta.endpoint_url)
        return endpoint.netloc.rpartition("@")[2]


def _sent_until_decided(send: Callable[[], _Answer]) -> _Answer:
    """The answer; sends again while the store reports a conflict with a concurrent write."""
    for attempt in range(_ATTEMPTS - 1):
        try:
            return send()
        except ClientError as error:
            # By the status: versitygw has a code of its own for a folder that vanishes meanwhile. Ceph answers some of
            # the writers that lose to another one at the same moment with an internal error of this code.
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            if status != HTTPStatus.CONFLICT and code_of(error) != "UnknownError":
                raise
        time.sleep(_FIRST_PAUSE_SECONDS * 2**attempt)
    return send()


def _part(number: int, answer: Mapping[str, Any]) -> CompletedPartTypeDef:
    """A part in the list that completes an upload; with its checksum if the store has taken one."""
    part: CompletedPartTypeDef = {"PartNumber": number, "ETag": answer["ETag"]}
    if checksum := answer.get("ChecksumCRC32"):
        part["ChecksumCRC32"] = checksum
    return part


def _written(key: str, size: int, answer: Mapping[str, Any]) -> Entry:
    # S3 does not return the time of the write, so this is the time of its answer.
    modified = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
    return Entry(key, size, _tag(answer), modified)


def _tag(answer: Mapping[str, Any]) -> str:
    return str(answer.get("ETag", "")).strip('"')
