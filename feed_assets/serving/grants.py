"""What a token may do in a service with several verbs: grants such as `read:raw/*`.

Here: a grant as one of a token's scopes. Not here: which verbs a service has, and the scopes of the receiver, which
are names of sources and have no verb.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

ALL: Final = "*"
_BELOW: Final = "/*"


@dataclass(frozen=True, slots=True)
class Grant:
    """A verb, and the names to which it applies: one name, all below one (`raw/*`), or all (`*`).

    >>> Grant.of("read:raw/*").covers("read", "raw/ads")
    True
    """

    verb: str
    names: str

    @classmethod
    def of(cls, scope: str) -> Grant | None:
        """The grant of a scope; None for the scope of another service."""
        verb, colon, names = scope.partition(":")
        return cls(verb, names) if colon else None

    @property
    def scope(self) -> str:
        """The grant as a token keeps it."""
        return f"{self.verb}:{self.names}"

    def covers(self, verb: str, name: str) -> bool:
        """Whether it allows to do this with the thing of this name."""
        if verb != self.verb:
            return False
        below = self.names.removesuffix(ALL) if self.names.endswith(_BELOW) else None
        return self.names in {ALL, name} or (below is not None and name.startswith(below))


def grants(scopes: Iterable[str]) -> list[Grant]:
    """The grants among a token's scopes."""
    return [found for each in scopes if (found := Grant.of(each)) is not None]
