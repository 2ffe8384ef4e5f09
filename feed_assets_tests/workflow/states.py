"""A state for tests of the journal: the list of all mutations."""

from __future__ import annotations

import json


class Mutations:
    """Remembers each mutation."""

    def __init__(self, dump: bytes | None = None) -> None:
        self.all: list[bytes] = [each.encode() for each in json.loads(dump or b"[]")]

    @property
    def position(self) -> int:
        return len(self.all)

    def replay(self, mutation: bytes) -> None:
        self.all.append(mutation)

    def dump(self) -> bytes:
        return json.dumps([each.decode() for each in self.all]).encode()
