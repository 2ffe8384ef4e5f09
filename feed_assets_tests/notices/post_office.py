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
    strangers: frozenset[str] = frozenset()
    greylisted: frozenset[str] = frozenset()
    logins: list[str] = field(default_factory=list)

    @property
    def subjects(self) -> list[str]:
        return [mail["Subject"] for _, mail in self.mails]

    async def handle_RCPT(self, _s: Any, _t: Any, envelope: Any, address: str, _o: Any) -> str:  # noqa: N802 - SMTP's
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
        made = message_from_bytes(envelope.content, policy=policy.default)
        self.mails.append((sorted(envelope.rcpt_tos), made))
        return "250 taken"

    def login(self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        self.logins.append(data.login.decode())
        return AuthResult(success=data.password.decode() == PASSWORD, handled=False)


@contextmanager
def post_office(tls: ssl.SSLContext | None = None) -> Iterator[PostOffice]:
    """The server; with `tls` it takes mail only after STARTTLS and a login."""
    office = PostOffice(free_port())
    more = {"tls_context": tls, "require_starttls": True, "auth_required": True, "authenticator": office.login}
    controller = Controller(office, hostname="127.0.0.1", port=office.port, **(more if tls else {}))
    controller.start()
    try:
        yield office
    finally:
        controller.stop()
