"""A place on an SFTP server, by fsspec and paramiko. A server is trusted if `~/.ssh/known_hosts` has its key."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from feed_assets.polling.port import (
    SILENT_SECONDS,
    ChangedError,
    PartnersFile,
    Place,
    PlaceError,
    explained,
    require_same,
)

if TYPE_CHECKING:
    from paramiko import PKey


@dataclass(frozen=True, slots=True)
class SftpPlace(Place):
    """A directory of an SFTP server; `fs` is a file system of fsspec."""

    fs: Any
    root: str
    errors: tuple[type[Exception], ...]

    def entries(self, folder: str) -> Iterator[PartnersFile]:
        """See `Place.entries`. Links are shown as their targets."""
        path = self._path(folder)
        with explained(self.errors):
            try:
                listed = self.fs.ls(path, detail=True)
            except FileNotFoundError:
                if folder:
                    return
                raise PlaceError(f"there is no directory {path} on the server") from None
            except UnicodeDecodeError as error:
                name = os.fsdecode(error.object)
                raise PlaceError(f"{path} has a file whose name is not UTF-8, {name!r}; have it renamed") from None
        for each in listed:
            name = f"{folder}/{each['name'].removeprefix(path.rstrip('/') + '/')}".lstrip("/")
            found: PartnersFile | None = _of_sftp(name, each)
            if each["type"] == "link":
                with suppress(PlaceError):  # a link that cannot be followed keeps no file back: its download says why
                    found = self._look(name)
            if found is not None:
                yield found

    def download(self, file: PartnersFile, target: Path) -> None:
        """See `Place.download`."""
        with explained(self.errors):
            try:
                self.fs.get_file(self._path(file.name), str(target))
            except FileNotFoundError:
                raise ChangedError("it is gone") from None
        require_same(file, self._look(file.name), target)

    def close(self) -> None:
        """See `Place.close`."""
        self.fs.client.close()

    def _look(self, name: str) -> PartnersFile | None:
        with explained(self.errors):
            try:
                return _of_sftp(name, self.fs.info(self._path(name)))
            except FileNotFoundError:
                return None

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}".rstrip("/") or "/"


def _of_sftp(name: str, info: Mapping[str, Any]) -> PartnersFile:
    modified = info["mtime"].astimezone(UTC)
    return PartnersFile(
        name, info["size"], str(int(modified.timestamp())), modified, is_folder=info["type"] == "directory"
    )


def _have_key(lines: Sequence[str], hostname: str, key: PKey) -> bool:
    """Whether lines of `known_hosts` have this key for the host. A line with a marker, such as @revoked, does not."""
    from paramiko import HostKeys  # noqa: PLC0415 - an extra, loaded only for SFTP

    # paramiko itself reads no file that has a marker, and of a host's keys of one type only the first.
    found = HostKeys()
    for fields in map(str.split, lines):
        if key.get_base64() in fields[2:3]:
            for name in fields[0].split(","):
                found.add(name, key.get_name(), key)
    return found.check(hostname, key)


def open_sftp(url: str, options: Mapping[str, Any]) -> SftpPlace:
    """The directory that an `sftp://` URL names, connected; `options` are options of fsspec. Raises PlaceError."""
    try:
        import paramiko  # noqa: PLC0415 - an extra, loaded only for SFTP
        from fsspec.implementations.sftp import SFTPFileSystem  # noqa: PLC0415 - as above
    except ImportError:
        raise PlaceError("SFTP needs packages that are not installed: pip install 'feed_assets[poll]'") from None

    class KnownHosts(paramiko.MissingHostKeyPolicy):
        """Trust a server whose key `~/.ssh/known_hosts` has. fsspec by itself trusts all servers."""

        def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002 - paramiko's signature
            file = Path("~/.ssh/known_hosts").expanduser()
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else []
            if _have_key(
                [line.removeprefix("@revoked") for line in lines if line.startswith("@revoked")], hostname, key
            ):
                raise paramiko.SSHException(f"{file} says that its key is revoked; ask the partner for the new one")
            if not _have_key(lines, hostname, key):
                raise paramiko.SSHException(f"{file} does not have its key; compare it with the partner, then add it")

    parts = urlsplit(url)
    asked = {"username": parts.username, "port": parts.port}
    given = {name: value for name, value in asked.items() if value} | dict(options)
    waits = dict.fromkeys(("timeout", "banner_timeout", "auth_timeout"), SILENT_SECONDS)
    errors = (OSError, EOFError, TypeError, paramiko.SSHException, paramiko.SFTPError)
    with explained(errors):
        fs = SFTPFileSystem(
            parts.hostname, **{"host_key_policy": KnownHosts, **waits, **given, "skip_instance_cache": True}
        )
        fs.ftp.get_channel().settimeout(SILENT_SECONDS)
    return SftpPlace(fs, unquote(parts.path).rstrip("/"), errors)
