"""Which addresses are those of the machine itself. Not here: connections."""

from __future__ import annotations

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address, or a name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
