"""AWS's signature of a request, version 4, for POST requests to the root of a service.

botocore has the same, but outside its documentation, and for requests that only its own clients make. A test compares
both. The source of the rules: "Create a signed AWS API request" in AWS's documentation of IAM.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple


class Keys(NamedTuple):
    """Credentials of one moment."""

    access_key: str
    secret_key: str
    token: str | None


def signed(
    headers: Mapping[str, str], body: bytes, keys: Keys, *, region: str, service: str, now: datetime
) -> dict[str, str]:
    """The headers, which include Host, with date, token and signature. `now` is an aware time."""
    time = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    found = {**headers, "X-Amz-Date": time}
    if keys.token:
        found["X-Amz-Security-Token"] = keys.token
    lines = sorted((name.lower(), " ".join(value.split())) for name, value in found.items())
    names = ";".join(name for name, _ in lines)
    canonical = "\n".join(
        ["POST", "/", "", *(f"{name}:{value}" for name, value in lines), "", names, hashlib.sha256(body).hexdigest()]
    )
    scope = f"{time[:8]}/{region}/{service}/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}"
    key = _key(keys.secret_key, time[:8], region, service)
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    found["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return found


@lru_cache(maxsize=4)
def _key(secret: str, date: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key
