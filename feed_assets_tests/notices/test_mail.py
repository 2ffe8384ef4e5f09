"""Mail goes to a server that is trusted, and nothing that is told names its password."""

from __future__ import annotations

import ssl
import sys
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from feed_assets.ads.partners import partners_directory
from feed_assets.definitions import build_definitions
from feed_assets.notices.mail import MailError, MailServer
from feed_assets.resources import Settings, SettingsError
from feed_assets_tests.harness import settings_below
from feed_assets_tests.notices.post_office import PASSWORD, post_office

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
