"""What commands that serve have in common: the socket, the certificate, and their errors. Not here: the servers."""

from __future__ import annotations

import errno
import socket
import ssl

import click


def listen(what: str, host: str, port: int) -> socket.socket:
    """A socket on which a server listens. Raises ClickException if it cannot; `what` is the server's name."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise cannot_listen(what, host, port, error) from None


def check_certificate(certificate: str | None, key: str | None) -> tuple[str, str] | None:
    """The files of a certificate and its key; None without both. Raises ClickException if they are not that."""
    if not certificate or not key:
        if certificate or key:
            raise click.UsageError("TLS takes both: --tls-certificate and --tls-key.")
        return None
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        reason = error.reason or error
        raise click.ClickException(
            f"{certificate} and {key} are no certificate in PEM and its key: {reason}. Check both files."
        ) from None
    return certificate, key


def cannot_listen(what: str, host: str, port: int, error: OSError) -> click.ClickException:
    """The message for a server that `socket.create_server` gave this error. `what` is the server's name."""
    # Python adds the address to the reason. A negative number is the resolver's, which has texts of its own.
    reason = (error.strerror or str(error)).partition(" (while ")[0]
    number = error.errno or 0
    is_host = number < 0 or number in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
    advice = "name an address of this machine with --host" if is_host else "name another port with --port"
    return click.ClickException(f"{what} cannot listen on {host}:{port} ({reason}): {advice}.")
