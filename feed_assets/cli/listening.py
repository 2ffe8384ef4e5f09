"""Why a server cannot listen on an address, and which option to change. Not here: the servers."""

from __future__ import annotations

import errno

import click


def cannot_listen(what: str, host: str, port: int, error: OSError) -> click.ClickException:
    """The message for a server that `socket.create_server` gave this error. `what` is the server's name."""
    # Python adds the address to the reason. A negative number is the resolver's, which has texts of its own.
    reason = (error.strerror or str(error)).partition(" (while ")[0]
    number = error.errno or 0
    is_host = number < 0 or number in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
    advice = "name an address of this machine with --host" if is_host else "name another port with --port"
    return click.ClickException(f"{what} cannot listen on {host}:{port} ({reason}): {advice}.")
