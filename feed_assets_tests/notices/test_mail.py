"""Mail goes to a server that is trusted, and nothing that is told names its password."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from feed_assets.ads.definitions import build_definitions
from feed_assets.ads.partners import partners_directory
from feed_assets.notices.mail import MailError, MailServer
from feed_assets.notices.messages import Notice
from feed_assets.notices.messages import mail as build_mail
from feed_assets.resources.notifier import MailResource
from feed_assets.resources.settings import Settings, SettingsError
from feed_assets_tests.harness import settings_below
from feed_assets_tests.notices.post_office import PASSWORD, PostOffice, post_office

QUOTED = PASSWORD.replace("/", "%2F")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of 127.0.0.1 with its key, which nobody has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "certificate.pem"
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return file


def mail() -> EmailMessage:
    made = EmailMessage()
    made["Subject"], made["From"], made["To"] = "late", "late@example.com", "all@example.com"
    return made


def test_with_starttls_it_logs_in_to_a_server_that_it_trusts_and_to_no_other(certificate, monkeypatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with post_office(context) as office:

        def server(password: str) -> MailServer:
            return MailServer.at(f"smtp+starttls://me:{password}@127.0.0.1:{office.port}")

        with pytest.raises(MailError, match="did not take a mail") as untrusted:
            server(QUOTED).send(mail(), ["all@example.com"])
        assert office.logins == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with pytest.raises(MailError, match="SMTPAuthenticationError, code 535") as refused:
            server("wrong-" + QUOTED).send(mail(), ["all@example.com"])
        server(QUOTED).send(mail(), ["all@example.com"])

        assert office.subjects == ["late"]
        assert "me" in office.logins
    for error in (untrusted, refused):
        assert PASSWORD not in f"{error.value!r} {error.value.__cause__!r}"
    assert PASSWORD not in repr(server(QUOTED))


def test_a_server_that_looks_at_a_mail_for_long_has_taken_it(monkeypatch) -> None:
    monkeypatch.setattr("feed_assets.notices.mail.TIMEOUT_SECONDS", 0.5)
    with post_office() as office:
        office.seconds = 1
        MailServer.at(f"smtp://127.0.0.1:{office.port}").send(mail(), ["all@example.com"])

        assert office.subjects == ["late"]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"FEED_ASSETS_SMTP": "mail.example.com"},
            "FEED_ASSETS_SMTP is no address of a mail server: set it to smtp://",
        ),
        ({"FEED_ASSETS_SMTP": f"smtp://me:{QUOTED}@mail.example.com"}, "would send a password in the clear"),
        (
            {"FEED_ASSETS_SMTP": "smtps://mail.example.com"},
            "FEED_ASSETS_MAIL_FROM is ''; with FEED_ASSETS_SMTP it",
        ),
        ({"FEED_ASSETS_MAIL_TO": "a@example.com, nobody"}, "FEED_ASSETS_MAIL_TO has 'nobody'; it takes addresses"),
        ({"FEED_ASSETS_MAIL_TO": "a..b@example.com"}, "FEED_ASSETS_MAIL_TO has 'a..b@example.com'; it takes"),
        ({"FEED_ASSETS_MAIL_TO": "a@b.com\nBcc: c@d.com"}, "no line breaks"),
        ({"FEED_ASSETS_MAIL_TO": "a@straße.de"}, "write its domain in ASCII"),
        ({"FEED_ASSETS_MAIL_TO": f"{'a' * 65}@b.com"}, "at most 254 bytes"),
        (
            {"FEED_ASSETS_SMTP": "smtps://mail.example.com", "FEED_ASSETS_MAIL_FROM": "late@@example.com"},
            "FEED_ASSETS_MAIL_FROM has 'late@@example.com'",
        ),
    ],
)
def test_settings_of_mail_that_cannot_work_are_refused_with_what_to_do(variables, message) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.from_environment(variables)

    assert message in str(refused.value)
    assert PASSWORD not in str(refused.value)
    assert QUOTED not in str(refused.value)


def test_settings_of_mail_are_read_and_hide_the_password() -> None:
    settings = Settings.from_environment(
        {
            "FEED_ASSETS_SMTP": f"smtps://me:{QUOTED}@mail.example.com",
            "FEED_ASSETS_MAIL_FROM": "late@example.com",
            "FEED_ASSETS_MAIL_TO": "a@example.com, b@example.com",
        }
    )

    assert MailServer.at(settings.smtp) == MailServer("smtps", "mail.example.com", 465, "me", PASSWORD)
    assert settings.mail_to == ("a@example.com", "b@example.com")
    assert QUOTED not in repr(settings)


def test_dagster_shows_the_name_of_the_variable_and_not_the_servers_password(tmp_path, monkeypatch) -> None:
    url = f"smtps://me:{QUOTED}@mail.example.com"
    monkeypatch.setenv("FEED_ASSETS_SMTP", url)
    settings = settings_below(tmp_path, partners_directory(), smtp=url, mail_from="late@example.com")

    mail = build_definitions(settings).resources["mail"]

    assert QUOTED not in repr(mail)
    assert "FEED_ASSETS_SMTP" in repr(mail)


@pytest.mark.parametrize("host", ["mail..example.com", "mail" * 20 + ".example.com"])
def test_a_host_that_can_have_no_address_takes_no_mail(host) -> None:
    reason = "UnicodeError" if sys.version_info < (3, 13) else "UnicodeEncodeError"
    with pytest.raises(MailError, match=rf"did not take a mail \({reason}\)"):
        MailServer.at(f"smtp://{host}").send(mail(), ["all@example.com"])


def test_letters_that_a_login_cannot_have_are_told_without_the_password(certificate, monkeypatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with post_office(context) as office, pytest.raises(MailError, match=r"\(UnicodeEncodeError\)") as refused:
        MailServer.at(f"smtp+starttls://me:M%C3%BCnchen@127.0.0.1:{office.port}").send(mail(), ["all@example.com"])

    assert "nchen" not in str(refused.value)


GOOD, OTHER = "a@example.com", "b@example.com"


def letter(to: Sequence[str], text: str = "late") -> EmailMessage:
    """A notice of this text as mail."""
    notice = Notice(subject=text[:200], body=(text,), recipients=(), kind="late data", command="feed-assets late")
    sender = "Späte Daten <late@münchen.example>"
    return build_mail(notice, "1.detected", sender=sender, to=to, at=datetime.now(UTC), plot=b"\x89PNG" * 99)


@contextmanager
def server(**options: Any) -> Iterator[tuple[PostOffice, MailServer]]:
    with post_office(**options) as office:
        yield office, MailServer.at(f"smtp://127.0.0.1:{office.port}")


def test_each_recipient_has_an_answer_of_its_own() -> None:
    with server() as (office, mailer):
        office.strangers, office.greylisted = frozenset({OTHER}), frozenset({"c@example.com"})

        sent = mailer.send(letter([GOOD, OTHER, "c@example.com"]), [GOOD, OTHER, "c@example.com"])

    assert (sent.taken, sent.refused, sent.put_off) == ([GOOD], {OTHER: "550"}, {"c@example.com": "450"})
    assert [to for to, _ in office.mails] == [[GOOD]]


def test_a_recipient_for_whom_the_server_refuses_the_mail_itself_does_not_keep_the_others_from_it() -> None:
    with server() as (office, mailer):
        office.disliked = frozenset({OTHER})

        sent = mailer.send(letter([GOOD, OTHER]), [GOOD, OTHER])

    assert (sent.taken, sent.refused) == ([GOOD], {OTHER: "554 to the mail"})
    assert [to for to, _ in office.mails] == [[GOOD]]


def test_a_server_that_hangs_up_after_some_recipients_gets_the_mail_for_each_by_itself() -> None:
    many = [f"{number}@example.com" for number in range(5)]
    with server() as (office, mailer):
        office.most = 3

        sent = mailer.send(letter(many), many)

    assert (sent.taken, sent.put_off, sent.refused) == (many, {}, {})
    assert [to for to, _ in office.mails] == [[each] for each in many]


def test_letters_outside_ascii_in_an_address_need_a_server_that_offers_them() -> None:
    address = "späte@example.com"
    with server(enable_SMTPUTF8=True) as (office, mailer):
        assert mailer.send(letter([address]), [address]).taken == [address]
        assert office.mails[0][0] == [address]
    with server(enable_SMTPUTF8=False) as (_, mailer):
        sent = mailer.send(letter([address]), [address])

    assert sent.refused == {address: "letters outside ASCII; the server does not offer SMTPUTF8"}


@pytest.mark.parametrize("text", ["ü" * 5000, "x" * 5000, "Zeile\n" * 300, "ß"], ids=["ü", "x", "lines", "ß"])
def test_a_mail_has_short_lines_of_ascii(text: str) -> None:
    to = ["Team Süd <a@example.com>", '"b c"@example.com', "d@münchen.example"]
    with server() as (office, mailer):
        mailer.send(letter(to, text), ["a@example.com", '"b c"@example.com', "d@xn--mnchen-3ya.example"])

    assert all(line.isascii() and len(line) < 999 for line in office.lines)
    ((got, made),) = office.mails
    assert got == ['"b c"@example.com', "a@example.com", "d@xn--mnchen-3ya.example"]
    assert made["To"] == 'Team Süd <a@example.com>, "b c"@example.com, d@xn--mnchen-3ya.example'
    assert "".join(made.get_body(("plain",)).get_content().split()).startswith("".join(text.split()))
    assert made.get_body(("html",)).get_content().count(text.split(maxsplit=1)[0])


def test_a_mail_that_is_too_large_for_the_server_is_refused_and_not_put_off() -> None:
    with server(data_size_limit=100) as (office, mailer):
        sent = mailer.send(letter([GOOD, OTHER]), [GOOD, OTHER])

    assert sent.refused == dict.fromkeys([GOOD, OTHER], "552 to the sender or the size")
    assert office.mails == []


def test_a_sender_that_must_log_in_first_is_a_wrong_setting_and_one_that_is_unknown_is_refused() -> None:
    with server() as (office, mailer):
        office.sender_answer = "530 authentication required"
        with pytest.raises(MailError, match="SMTPSenderRefused, code 530"):
            mailer.send(letter([GOOD]), [GOOD])
        office.sender_answer = "553 not yours"
        assert mailer.send(letter([GOOD]), [GOOD]).refused == {GOOD: "553 to the sender or the size"}


def test_settings_take_display_names_quotes_and_domains_in_letters_outside_ascii() -> None:
    text = '"Doe, Jane" <jane@example.com>, "a b"@example.com , d@münchen.example,'

    settings = Settings.from_environment({"FEED_ASSETS_MAIL_TO": text})

    assert settings.mail_to == ('"Doe, Jane" <jane@example.com>', '"a b"@example.com', "d@münchen.example")


def test_a_mail_resource_of_a_project_is_checked_as_it_is_made() -> None:
    with pytest.raises(ValueError, match="no line breaks"):
        MailResource(url="smtp://mail.example.com", sender="late@example.com", recipients=["a@b.com\nBcc: c@d.com"])
    with pytest.raises(ValueError, match="use an address such as"):
        MailResource(url="smtp://mail.example.com", sender="Late data", recipients=[])
