"""AWS Signature Version 4 from the side of the server, after AWS's page "Create a signed AWS API request".

Here: whether a request is signed by known credentials that have not expired. Not here: permissions (see `faults`).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from feed_assets_tests.delivery.judge.refusals import RefusedError

ACCESS_KEY: Final = "AKIAJUDGEFORTESTS000"
SECRET_KEY: Final = "judge/FEMI+secret/for+tests+only/0123456"
SKEW: Final = timedelta(minutes=5)
_AUTHORIZATION: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/, ]+)/(\d{8})/([^/, ]+)/([^/, ]+)/aws4_request,"
    r" *SignedHeaders=([a-z0-9;-]+), *Signature=([0-9a-f]{64})"
)


class Credentials(msgspec.Struct, forbid_unknown_fields=True):
    """An access key that the judge knows."""

    access_key: str
    secret_key: str
    session_token: str | None = None
    expires_in: float | None = None
    """Seconds from now, by the judge's clock."""


class Known:
    """All credentials that the judge knows. Whatever it refuses here has changed nothing."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Credentials, float | None]] = {}
        self._keys: dict[tuple[str, str, str], bytes] = {}

    def add(self, credentials: Credentials, now: float) -> None:
        """Know these credentials, instead of others with the same access key. `now` is in seconds."""
        expires = None if credentials.expires_in is None else now + credentials.expires_in
        self._known[credentials.access_key] = (credentials, expires)
        self._keys.clear()

    def check(self, headers: Mapping[str, str], body: bytes, now: float) -> None:
        """Raises RefusedError, as AWS does."""
        authorization = headers.get("authorization")
        if authorization is None:
            raise RefusedError("MissingAuthenticationTokenException", "Missing Authentication Token", violation=True)
        parsed = _AUTHORIZATION.fullmatch(authorization)
        if parsed is None:
            raise RefusedError(
                "IncompleteSignatureException", f"Authorization is malformed: {authorization}", violation=True
            )
        access_key, date, region, service, signed, signature = parsed.groups()
        found = self._known.get(access_key)
        if found is None:
            raise RefusedError("UnrecognizedClientException", "The security token included in the request is invalid.")
        credentials, expires = found
        if (headers.get("x-amz-security-token") or None) != credentials.session_token:
            raise RefusedError("UnrecognizedClientException", "The security token included in the request is invalid.")
        expected = self._signature(credentials, (date, region, service), signed.split(";"), headers, body)
        if not hmac.compare_digest(expected, signature):
            raise RefusedError(
                "InvalidSignatureException",
                "The request signature we calculated does not match the signature you provided. "
                "Check your AWS Secret Access Key and signing method.",
                violation=True,
            )
        _check_time(headers.get("x-amz-date", ""), date)
        if expires is not None and now >= expires:
            raise RefusedError("ExpiredTokenException", "The security token included in the request is expired")

    def _signature(
        self,
        credentials: Credentials,
        scope: tuple[str, str, str],
        signed: list[str],
        headers: Mapping[str, str],
        body: bytes,
    ) -> str:
        required = {"host", "x-amz-date"} | {name for name in headers if name == "x-amz-security-token"}
        if missing := sorted(required.difference(signed)):
            raise RefusedError("InvalidSignatureException", f"These headers must be signed: {missing}", violation=True)
        lines = [f"{name}:{' '.join(headers.get(name, '').split())}\n" for name in signed]
        canonical = "\n".join(["POST", "/", "", "".join(lines), ";".join(signed), hashlib.sha256(body).hexdigest()])
        text = "\n".join(
            [
                "AWS4-HMAC-SHA256",
                headers.get("x-amz-date", ""),
                f"{'/'.join(scope)}/aws4_request",
                hashlib.sha256(canonical.encode()).hexdigest(),
            ]
        )
        return hmac.new(self._key(credentials, scope), text.encode(), hashlib.sha256).hexdigest()

    def _key(self, credentials: Credentials, scope: tuple[str, str, str]) -> bytes:
        cached = (credentials.access_key, scope[0], scope[1] + "/" + scope[2])
        if cached not in self._keys:
            key = b"AWS4" + credentials.secret_key.encode()
            for part in (*scope, "aws4_request"):
                key = hmac.new(key, part.encode(), hashlib.sha256).digest()
            self._keys[cached] = key
        return self._keys[cached]


def _check_time(stamp: str, date: str) -> None:
    """The machine's clock counts, not the judge's: a test may move that, and clients do not know."""
    try:
        signed_at = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise RefusedError(
            "IncompleteSignatureException", f"X-Amz-Date is malformed: {stamp}", violation=True
        ) from None
    if abs(datetime.now(UTC) - signed_at) > SKEW or not stamp.startswith(date):
        raise RefusedError(
            "InvalidSignatureException", f"Signature expired or not yet current: {stamp}", violation=True
        )
