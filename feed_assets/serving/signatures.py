"""Signed requests: an HMAC-SHA256 of the body, and where the service signs them, of a time and an id.

Here: the schemes that services use, and checking a signature. Not here: who signs with which secrets (`sources`), and
what an accepted request may do.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

MOST: Final = 16
"""The most signatures of a header that are compared."""
WHSEC: Final = "whsec_"
_SECONDS: Final = re.compile(r"[0-9]{1,12}")
_BODY: Final = "{body}"


@dataclass(frozen=True, slots=True)
class Scheme:
    """How a service signs. `signed` is the text that it signs, of `{body}`, `{timestamp}` and `{id}`.

    The header `header` has one or more signatures, divided by `separator`, each behind `prefix`, in hex or base64. The
    time is in `timestamp_header`, or in `header` behind `timestamp_prefix`, in seconds since 1970. Secrets are used as
    they are, or with `base64_secrets` are base64, with or without `whsec_` before it.
    """

    header: str
    prefix: str = ""
    separator: str = ""
    encoding: str = "hex"
    signed: str = _BODY
    timestamp_header: str = ""
    timestamp_prefix: str = ""
    id_header: str = ""
    base64_secrets: bool = False

    @property
    def has_time(self) -> bool:
        """Whether it signs a time."""
        return "{timestamp}" in self.signed


SCHEMES: Final[Mapping[str, Scheme]] = {
    "standard": Scheme(
        "webhook-signature",
        prefix="v1,",
        separator=" ",
        encoding="base64",
        signed="{id}.{timestamp}.{body}",
        timestamp_header="webhook-timestamp",
        id_header="webhook-id",
        base64_secrets=True,
    ),
    "github": Scheme("x-hub-signature-256", prefix="sha256=", id_header="x-github-delivery"),
    "stripe": Scheme(
        "stripe-signature", prefix="v1=", separator=",", signed="{timestamp}.{body}", timestamp_prefix="t="
    ),
    "shopify": Scheme("x-shopify-hmac-sha256", encoding="base64", id_header="x-shopify-webhook-id"),
}
"""The schemes of services, by name. `standard` is that of https://www.standardwebhooks.com."""


class Refusal(StrEnum):
    """Why a signature is refused: for the operator's figures, never for the sender."""

    MALFORMED = "malformed"
    """The headers are not as the scheme has them."""
    WRONG = "wrong"
    """No secret gives this signature of this body."""
    TIME = "time"
    """The signature is right, and its time is too far from the clock: a replay, or a wrong clock."""


class BadSignatureError(Exception):
    """A request is not signed as it must be."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.value)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Verifier:
    """Checks signatures with any of several secrets, so that one can replace another."""

    scheme: Scheme
    secrets: Sequence[bytes] = field(repr=False)
    tolerance_seconds: float = 300.0

    def is_signed(self, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers, named in small letters, says that it is signed."""
        return self.scheme.header in headers

    def verify(self, headers: Mapping[str, str], body: bytes, *, now: datetime) -> str:
        """The id of a request that is rightly signed, "" if its service sends none. Raises BadSignatureError.

        All secrets are tried, in constant time. `body` is what was sent, to the byte.
        """
        scheme = self.scheme
        value, request_id = headers.get(scheme.header, ""), headers.get(scheme.id_header, "")
        parts = value.split(scheme.separator) if scheme.separator else [value]
        parts = [each.strip() for each in parts[: MOST + 1]]
        time = headers.get(scheme.timestamp_header, "")
        if scheme.timestamp_prefix:
            time = next((each[len(scheme.timestamp_prefix) :] for each in parts if self._is_time(each)), "")
        if (scheme.has_time and not _SECONDS.fullmatch(time)) or ("{id}" in scheme.signed and not request_id):
            raise BadSignatureError(Refusal.MALFORMED)
        sent = list(self._sent(parts))
        if not sent:
            raise BadSignatureError(Refusal.MALFORMED)
        before, _, after = scheme.signed.partition(_BODY)
        values = {"{timestamp}": time, "{id}": request_id}
        ends = [re.sub(r"\{timestamp\}|\{id\}", lambda found: values[found[0]], each) for each in (before, after)]
        message = ends[0].encode() + body + ends[1].encode()
        same = False
        for secret in self.secrets:
            expected = hmac.digest(secret, message, "sha256")
            for each in sent:
                same |= hmac.compare_digest(expected, each)
        if not same:
            raise BadSignatureError(Refusal.WRONG)
        if scheme.has_time and abs(now.timestamp() - int(time)) > self.tolerance_seconds:
            raise BadSignatureError(Refusal.TIME)
        return request_id

    def _is_time(self, part: str) -> bool:
        return part.startswith(self.scheme.timestamp_prefix)

    def _sent(self, parts: Sequence[str]) -> Iterator[bytes]:
        """The signatures of a header; those in another form are left out."""
        is_hex = self.scheme.encoding == "hex"
        for each in parts[:MOST]:
            if each.startswith(self.scheme.prefix):
                text = each[len(self.scheme.prefix) :]
                with suppress(ValueError):
                    yield bytes.fromhex(text) if is_hex else base64.b64decode(text, validate=True)


def secret_of(scheme: Scheme, text: str) -> bytes:
    """The secret that people know by this text. Raises ValueError, without the text."""
    if not scheme.base64_secrets:
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix(WHSEC), validate=True)
    except ValueError:
        raise ValueError(f"is no base64, with or without {WHSEC!r} before it") from None
