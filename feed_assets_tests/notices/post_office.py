"""A real SMTP server on loopback that keeps the mail it takes. Not here: any expectation."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from feed_assets_tests.listening import free_port

PASSWORD = "T0P/S3CRET"


@dataclass
class PostOffice:
    """`mails` are those it took, with recipients. `answer` refuses mail while it is set. It thinks for `seconds`."""

    port: int
    mails: list[tuple[list[str], EmailMessage]] = field(default_factory=list)
    answer: str = ""
    seconds: float = 0
    sender_answer: str = ""
    strangers: frozenset[str] = frozenset()
    greylisted: frozenset[str] = frozenset()
    disliked: frozenset[str] = frozenset()
    """Recipients for whom it takes no mail, which it says after the mail."""
    most: int = 1000
    """Recipients of a mail after which it hangs up."""
    logins: list[str] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    """All lines of the mails that it took."""
    asked: list[str] = field(default_factory=list)
    """Recipients that it was asked about."""

    @property
    def subjects(self) -> list[str]:
        return [mail["Subject"] for _, mail in self.mails]

    async def handle_MAIL(self, _s: Any, _t: Any, envelope: Any, address: str, options: Any) -> str:  # noqa: N802 - SMTP's
        if self.sender_answer:
            return self.sender_answer
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(self, server: Any, _s: Any, envelope: Any, address: str, _o: Any) -> str:  # noqa: N802 - SMTP's
        self.asked.append(address)
        if len(envelope.rcpt_tos) == self.most:
            server.transport.abort()
        if address in self.strangers:
            return "550 no such user"
        if address in self.greylisted:
            return "450 greylisted, try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - as above
        await asyncio.sleep(self.seconds)
        if self.answer:
            return self.answer
        if self.disliked.intersection(envelope.rcpt_tos):
            return "554 no"
        self.lines += envelope.content.splitlines()
        made = message_from_bytes(envelope.content, policy=policy.default)
        self.mails.append((sorted(envelope.rcpt_tos), made))
        return "250 taken"

    def login(self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        self.logins.append(data.login.decode())
        return AuthResult(success=data.password.decode() == PASSWORD, handled=False)


@contextmanager
def post_office(tls: ssl.SSLContext | None = None, **options: Any) -> Iterator[PostOffice]:
    """The server; with `tls` it takes mail only after STARTTLS and a login. `options` are those of its SMTP."""
    office = PostOffice(free_port())
    more = {"tls_context": tls, "require_starttls": True, "auth_required": True, "authenticator": office.login}
    controller = Controller(office, hostname="127.0.0.1", port=office.port, **(more if tls else {}), **options)
    controller.start()
    try:
        yield office
    finally:
        controller.stop()
