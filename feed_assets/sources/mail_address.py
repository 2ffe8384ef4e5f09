"""Addresses of mail: the check when settings and sources are loaded, and their form for mail servers.

Not here: sending (`notices.mail`).
"""

from __future__ import annotations

import re
from email.errors import NonASCIILocalPartDefect
from email.headerregistry import Address
from email.policy import SMTP
from typing import Any

FORM = "an address such as team@example.com or Team <team@example.com>"
LONGEST, LONGEST_LOCAL_PART = 254, 64
"""Bytes (RFC 5321)."""

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Za-z:.]+\]")


def parsed_address(text: str) -> Address:
    """One address with or without a display name, its domain in ASCII letters. Raises ValueError: what is wrong."""
    if not text.isprintable():
        raise ValueError(f"is {text!r}; an address has no line breaks and no control characters")
    header: Any = SMTP.header_factory("To", text)
    defects = [each for each in header.defects if not isinstance(each, NonASCIILocalPartDefect)]
    named = header.groups[0].display_name if len(header.groups) == 1 else None
    if defects or named is not None or len(header.addresses) != 1:
        raise ValueError(f"is {text!r}; use {FORM}")
    (found,) = header.addresses
    domain = _in_ascii(found.domain, text)
    if not found.username or not _DOMAIN.fullmatch(domain):
        raise ValueError(f"is {text!r}; use {FORM}")
    try:
        made = Address(found.display_name, found.username, domain)
    except ValueError:  # an encoded display name holds a line break
        raise ValueError(f"is {text!r}; use {FORM}") from None
    local_part = made.addr_spec.rpartition("@")[0]
    if len(local_part.encode()) > LONGEST_LOCAL_PART or len(made.addr_spec.encode()) > LONGEST:
        raise ValueError(
            f"is {text!r}; an address has at most {LONGEST} bytes, and {LONGEST_LOCAL_PART} before the last @"
        )
    return made


def check_address(text: str) -> str:
    """The text, if it is one address; raises ValueError."""
    parsed_address(text)
    return text


def split_addresses(text: str) -> list[str]:
    """The parts between commas; a display name in quotes may have commas."""
    return [each.strip() for each in re.findall(r'(?:"(?:\\.|[^"\\])*"|[^,])+', text) if each.strip()]


def _in_ascii(domain: str, text: str) -> str:
    """The domain as mail servers know it: `xn--mnchen-3ya.de` for `münchen.de`."""
    if domain.isascii():
        return domain
    try:
        found = domain.encode("idna").decode("ascii")
        kept = found.encode("ascii").decode("idna") == domain.lower()
    except UnicodeError:
        kept = False
    if not kept:  # Python knows the rules of 2003, which read ß as ss: another domain
        raise ValueError(f"is {text!r}; write its domain in ASCII, as xn--...")
    return found
