"""The addresses on which programs listen, for tests that hold them to loopback."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from contextlib import suppress

import psutil


def family(process_id: int) -> list[psutil.Process]:
    """A process and all that it started."""
    root = psutil.Process(process_id)
    return [root, *root.children(recursive=True)]


def listening(processes: Iterable[psutil.Process]) -> set[tuple[str, str]]:
    """The name and the address of each that listens. Loopback is `loopback`, also in the form of IPv6."""
    found = set()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            for connection in process.net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN:
                    address = ipaddress.ip_address(connection.laddr.ip)
                    inner = getattr(address, "ipv4_mapped", None) or address
                    found.add((process.name(), "loopback" if inner.is_loopback else str(inner)))
    return found
