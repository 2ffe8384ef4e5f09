"""Mail over SMTP. Not here: what a mail says (`messages`), and that it is sent once (`delivery`)."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Self
from urllib.parse import unquote, urlsplit

VARIABLE = "FEED_ASSETS_SMTP"
"""The environment variable with the server's address, which may hold a password."""

FORM = "smtp://host:25, smtp+starttls://user:password@host:587 or smtps://user:password@host:465"
TIMEOUT_SECONDS = 10
TAKING_SECONDS = 30
"""How long a server may look at a mail before it says that it took it. Who does not wait sends it twice."""
PORTS = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}


class MailError(Exception):
    """A mail was not taken, or the address cannot be used. The message never holds the password."""


@dataclass(frozen=True, slots=True)
class MailServer:
    """A server: plain, with STARTTLS, or with TLS from the start (`security`, as in PORTS); with a login or without."""

    security: str
    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def at(cls, url: str) -> Self:
        """The server at an address of this FORM. Special characters in user and password are %-encoded."""
        try:
            parts = urlsplit(url)
            port = parts.port or PORTS[parts.scheme]
            # An @ behind the host: a slash, a ? or a # of the password has ended it.
            host = None if "@" in f"{parts.path}{parts.query}{parts.fragment}" else parts.hostname
        except (ValueError, KeyError):
            host, port = None, 0
        if not host:
            raise MailError(f"{VARIABLE} is no address of a mail server: set it to {FORM}.")
        if parts.password and parts.scheme == "smtp" and host not in {"localhost", "127.0.0.1", "::1"}:
            raise MailError(f"{VARIABLE} would send a password in the clear: use smtp+starttls or smtps.")
        return cls(parts.scheme, host, port, unquote(parts.username or ""), unquote(parts.password or ""))

    def send(self, message: EmailMessage, to: Sequence[str]) -> dict[str, int]:
        """Send to these addresses. Returns those that the server refused, with its codes, if it took others.

        Raises MailError if the server took none.
        """
        try:
            with self._connected() as connection:
                if self.security == "smtp+starttls":
                    connection.starttls(context=ssl.create_default_context())
                if self.user:
                    connection.login(self.user, self.password)
                if connection.sock is not None:
                    connection.sock.settimeout(TAKING_SECONDS)
                refused = connection.send_message(message, to_addrs=list(to))
                return {address: code for address, (code, _) in sorted(refused.items())}
        except smtplib.SMTPResponseException as error:
            reason = f"{type(error).__name__}, code {error.smtp_code}"
        except (OSError, ValueError, smtplib.SMTPException) as error:
            # A ValueError: letters outside ASCII, as in a login.
            reason = type(error).__name__
        # `from None`, and only the type: what a server answers may repeat what it was told.
        raise MailError(f"{self.host}:{self.port} did not take a mail ({reason}). See {VARIABLE}.") from None

    def _connected(self) -> smtplib.SMTP:
        if self.security == "smtps":
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(self.host, self.port, timeout=TIMEOUT_SECONDS, context=context)
        return smtplib.SMTP(self.host, self.port, timeout=TIMEOUT_SECONDS)


def is_put_off(code: int) -> bool:
    """Whether a server that answers this to a recipient asks to try again later, as for greylisting (RFC 5321)."""
    return 400 <= code < 500  # noqa: PLR2004 - SMTP's
