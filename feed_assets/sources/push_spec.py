"""How a service signs the events that it pushes: the field `push` of a source.

Here: the fields. Not here: checking signatures (`serving.signatures`), and the secrets, which are in variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    field_validator,
    model_validator,
)

from feed_assets.serving.signatures import SCHEMES, Scheme, Verifier, secret_of

_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9_]*")
_OWN: Final = "own"


def _check_header(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9-]+", name):
        raise ValueError(f"{name!r} is no name of a header; use letters, digits and -")
    return name


HeaderName = Annotated[str, AfterValidator(_check_header)]


class OwnSignature(BaseModel, frozen=True, extra="forbid"):
    """How a service signs that has no scheme of its own name: HMAC-SHA256 of the body, or of a time and the body."""

    header: HeaderName
    """The header with the signature."""

    prefix: str = ""
    """The text before the signature in its header, such as `sha256=`."""

    encoding: Literal["hex", "base64"] = "hex"
    """How the signature is written."""

    signed: str = "{body}"
    """The text that is signed, of `{body}`, `{timestamp}` and `{id}`, such as `{timestamp}.{body}`."""

    timestamp_header: HeaderName | None = None
    """The header with the time, in seconds since 1970. `{timestamp}` in `signed` needs it."""

    id_header: HeaderName | None = None
    """The header with the id of the event, which stays the same when the service sends it again."""

    @model_validator(mode="after")
    def _headers_are_named(self) -> OwnSignature:
        if self.signed.count("{body}") != 1:
            raise ValueError("`signed` has to have {body} once")
        if unknown := set(re.findall(r"\{[^{}]*\}", self.signed)) - {"{body}", "{timestamp}", "{id}"}:
            raise ValueError(f"`signed` has {min(unknown)}; there are {{body}}, {{timestamp}} and {{id}}")
        for name, header in {"timestamp": self.timestamp_header, "id": self.id_header}.items():
            if f"{{{name}}}" in self.signed and header is None:
                raise ValueError(f"`signed` has {{{name}}}; name its header in `{name}_header`")
        if self.timestamp_header is not None and "{timestamp}" not in self.signed:
            raise ValueError("`timestamp_header` protects nothing unless `signed` has {timestamp}")
        return self

    @property
    def scheme(self) -> Scheme:
        """The scheme with these fields."""
        return Scheme(
            self.header.lower(),
            prefix=self.prefix,
            encoding=self.encoding,
            signed=self.signed,
            timestamp_header=(self.timestamp_header or "").lower(),
            id_header=(self.id_header or "").lower(),
        )


class Push(BaseModel, frozen=True, extra="forbid"):
    """Who may push signed events, without a token."""

    signature: Annotated[
        Annotated[Literal["standard", "github", "stripe", "shopify"], Tag("named")]
        | Annotated[OwnSignature, Tag(_OWN)],
        Discriminator(lambda given: _OWN if isinstance(given, dict | OwnSignature) else "named"),
    ]
    """How the service signs: the name of a scheme, or the fields of [another](#the-field-pushsignature). `standard` is
    that of Standard Webhooks, with the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`."""

    secrets: Annotated[tuple[str, ...], Field(min_length=1, max_length=4)]
    """The variables of the environment with the secrets. A signature by any of them is right: to replace a secret, name
    the new one beside the old one. The secrets themselves are never here."""

    partner: Annotated[str, StringConstraints(min_length=1)] | None = None
    """Whose events they are, in counts and limits. Default: the name of the source."""

    tolerance_seconds: Annotated[int, Field(ge=1, le=86400)] = 300
    """How far a signed time may be from the clock, in both directions."""

    @field_validator("secrets", mode="before")
    @classmethod
    def _are_variables(cls, names: Any) -> Any:
        # The message does not show what was given: it may be a secret.
        if not isinstance(names, list | tuple) or not all(isinstance(each, str) for each in names):
            raise ValueError("is no list; name the variables in brackets, such as [ACME_WEBHOOK_SECRET]")
        if not all(map(_VARIABLE.fullmatch, names)):
            raise ValueError(
                "has what is no name of a variable, such as ACME_WEBHOOK_SECRET; put the secret into the variable, "
                "not here"
            )
        return names

    @property
    def scheme(self) -> Scheme:
        """How the service signs."""
        return SCHEMES[self.signature] if isinstance(self.signature, str) else self.signature.scheme

    def verifier(self, environment: Mapping[str, str]) -> Verifier:
        """The verifier with the secrets of these variables. Raises ValueError, without any secret."""
        secrets = []
        for name in self.secrets:
            if not (text := environment.get(name, "").strip()):
                raise ValueError(f"the variable {name} is not set; put the secret of the service into it")
            try:
                secrets.append(secret_of(self.scheme, text))
            except ValueError as error:
                raise ValueError(f"the variable {name} {error}; copy the secret as the service shows it") from None
        return Verifier(self.scheme, secrets, float(self.tolerance_seconds))
