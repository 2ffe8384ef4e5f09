"""Mail over SMTP: its settings, and what the server says of each recipient.

Not here: what a mail says (`messages`), and that it is sent once (`delivery`).
"""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from typing import Self
from urllib.parse import unquote, urlsplit

from pydantic import Field, field_validator, model_validator

from feed_assets.environment import Section, SettingsError
from feed_assets.sources.mail_address import check_address, split_addresses

VARIABLE, SENDER, RECIPIENTS = "FEED_ASSETS_SMTP", "FEED_ASSETS_MAIL_FROM", "FEED_ASSETS_MAIL_TO"
"""The environment variables; the first, with the server's address, may hold a password."""

FORM = "smtp://host:25, smtp+starttls://user:password@host:587 or smtps://user:password@host:465"
TIMEOUT_SECONDS = 10
TAKING_SECONDS = 30
"""How long a server may look at a mail before it says that it took it. Who does not wait sends it twice."""
PORTS = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}

WANT_LOGIN = frozenset({530, 534, 535, 538})
"""Answers to a mail that want another login (RFC 4954): the settings are wrong, not the recipient."""


class MailSettings(Section):
    """The mail server, and who writes to whom."""

    smtp: str = Field("", validation_alias=VARIABLE, repr=False)
    """The mail server: `smtp://host:25`, `smtp+starttls://user:password@host:587` or `smtps://user:password@host:465`;
    a secret where it has a password.

    Default: none: no mail.
    """
    mail_from: str = Field("", validation_alias=SENDER)
    """The address of the sender; needed with `FEED_ASSETS_SMTP`.

    Default: none.
    """
    mail_to: tuple[str, ...] = Field((), validation_alias=RECIPIENTS)
    """Who gets every mail about late data and slow runs, with commas between, such as
    `team@example.com, Ops <ops@example.com>`; sources can name others for late data.

    Default: nobody.
    """

    @field_validator("mail_to", mode="before")
    @classmethod
    def _are_addresses(cls, text: str) -> tuple[str, ...]:
        return _addresses(RECIPIENTS, text)

    @model_validator(mode="after")
    def _has_server_and_sender(self) -> Self:
        if self.smtp:
            try:
                MailServer.at(self.smtp)
            except MailError as error:
                raise SettingsError(str(error)) from None
            if len(_addresses(SENDER, self.mail_from)) != 1:
                raise SettingsError(
                    f"{SENDER} is {self.mail_from!r}; with {VARIABLE} it takes the address of the sender."
                )
        return self


def _addresses(variable: str, text: str) -> tuple[str, ...]:
    found = tuple(split_addresses(text))
    for each in found:
        try:
            check_address(each)
        except ValueError as error:
            wrong = str(error).removeprefix("is ").partition("; ")
            raise SettingsError(
                f"{variable} has {wrong[0]}; it takes addresses such as team@example.com, and commas between: "
                f"{wrong[2]}."
            ) from None
    return found


class MailError(Exception):
    """A mail was not taken, or the address cannot be used. The message never holds the password.

    `hung_up`: the server ended the connection after the mail was begun.
    """

    hung_up = False


@dataclass(slots=True)
class Sent:
    """What became of each recipient of a mail. Those put off, and those refused for good, have the reason."""

    taken: list[str] = field(default_factory=list)
    put_off: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def knows(self, address: str) -> bool:
        """Whether the server has answered for this recipient."""
        return address in self.taken or address in self.put_off or address in self.refused

    def add(self, other: Sent) -> None:
        """Add what became of other recipients."""
        self.taken += other.taken
        self.put_off |= other.put_off
        self.refused |= other.refused


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

    def send(self, message: EmailMessage, to: Sequence[str]) -> Sent:
        """Send one mail to these addresses, without display names. A recipient holds up no other.

        Raises MailError if the server was not asked about any recipient, or took nothing and refused nobody for good.
        """
        sent = Sent()
        try:
            self._send(message, to, sent)
        except MailError as error:
            left = [each for each in to if not sent.knows(each)]
            # Perhaps the server hung up for one of the recipients, or for their number.
            alone = left if error.hung_up and len(to) > 1 else []
            for each in alone:
                try:
                    self._send(message, [each], sent)
                except MailError as of_one:
                    sent.put_off[each] = str(of_one)
            if not sent.taken and not sent.refused:
                raise
            sent.put_off.update({each: str(error) for each in left if not sent.knows(each)})
        return sent

    def _send(self, message: EmailMessage, to: Sequence[str], sent: Sent) -> None:
        hung_up = False
        try:
            with self._connected() as connection:
                if self.security == "smtp+starttls":
                    connection.starttls(context=ssl.create_default_context())
                if self.user:
                    connection.login(self.user, self.password)
                if connection.sock is not None:
                    connection.sock.settimeout(TAKING_SECONDS)
                connection.ehlo_or_helo_if_needed()
                hung_up = True
                _transact(connection, message, to, sent)
                return
        except smtplib.SMTPResponseException as error:
            reason, hung_up = f"{type(error).__name__}, code {error.smtp_code}", False
        except (OSError, ValueError, smtplib.SMTPException) as error:
            # A ValueError: letters outside ASCII, as in a login.
            reason, hung_up = type(error).__name__, hung_up and isinstance(error, smtplib.SMTPServerDisconnected)
        # `from None`, and only the type: what a server answers may repeat what it was told.
        failed = MailError(f"{self.host}:{self.port} did not take a mail ({reason}). See {VARIABLE}.")
        failed.hung_up = hung_up
        raise failed from None

    def _connected(self) -> smtplib.SMTP:
        if self.security == "smtps":
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(self.host, self.port, timeout=TIMEOUT_SECONDS, context=context)
        return smtplib.SMTP(self.host, self.port, timeout=TIMEOUT_SECONDS)


def _transact(connection: smtplib.SMTP, message: EmailMessage, to: Sequence[str], sent: Sent) -> None:
    """Hand the mail over for these recipients at once; one by one if the server refuses it for all of them.

    Raises an SMTPException if the server asks to try again later, or wants another login.
    """
    accepted, content = _accepted(connection, message, to, sent)
    if not accepted:
        return
    code, _ = connection.data(content)
    if _is_good(code):
        sent.taken += accepted
    elif _is_passing(code):
        raise smtplib.SMTPDataError(code, b"")
    elif len(accepted) == 1:
        sent.refused[accepted[0]] = f"{code} to the mail"
    else:
        for each in accepted:
            _transact(connection, message, [each], sent)


def _accepted(
    connection: smtplib.SMTP, message: EmailMessage, to: Sequence[str], sent: Sent
) -> tuple[list[str], bytes]:
    """The recipients for whom the server would take the mail, and its bytes: 7-bit, as every server takes them."""
    sender = message["From"].addresses[0].addr_spec
    utf8 = not "".join([sender, *to]).isascii()
    if utf8 and not connection.has_extn("smtputf8"):
        sent.refused.update(dict.fromkeys(to, "letters outside ASCII; the server does not offer SMTPUTF8"))
        return [], b""
    content = message.as_bytes(policy=(SMTPUTF8 if utf8 else SMTP).clone(cte_type="7bit"))
    options = [*(["SMTPUTF8"] if utf8 else []), *([f"size={len(content)}"] if connection.has_extn("size") else [])]
    code, _ = connection.mail(sender, options)
    if not _is_good(code):
        if _is_passing(code) or code in WANT_LOGIN:
            raise smtplib.SMTPSenderRefused(code, b"", sender)
        sent.refused.update(dict.fromkeys(to, f"{code} to the sender or the size"))
        connection.rset()
        return [], content
    accepted = []
    for each in to:
        code, _ = connection.rcpt(each)
        if _is_good(code):
            accepted.append(each)
        elif _is_passing(code):
            sent.put_off[each] = f"{code}"
        elif code in WANT_LOGIN:
            raise smtplib.SMTPSenderRefused(code, b"", sender)
        else:
            sent.refused[each] = f"{code}"
    if not accepted:
        connection.rset()
    return accepted, content


def _is_good(code: int) -> bool:
    return 200 <= code < 300  # noqa: PLR2004 - SMTP's


def _is_passing(code: int) -> bool:
    """Whether a server that answers this asks to try again later, as for greylisting; or the answer is no number."""
    return code < 500  # noqa: PLR2004 - SMTP's
