"""The error with which the judge refuses a request: an error type of AWS, a message, an HTTP status."""

from __future__ import annotations

import json


class RefusedError(Exception):
    """A request that is refused as a whole. It is a violation if a client that knows the limits would not send it."""

    def __init__(self, kind: str, message: str, *, status: int = 400, violation: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        self.violation = violation

    def body(self) -> bytes:
        """The answer's content."""
        return json.dumps({"__type": self.kind, "message": self.message}).encode()


def not_valid(message: str) -> RefusedError:
    """A request that contradicts the API's model."""
    return RefusedError(
        "ValidationException",
        f"1 validation error detected: {message}",
        violation=True,
    )
