"""The document of an API: OpenAPI 3.1, made of its operations and of the types of its answers.

Here: what an operation says of itself. Not here: the page for people (`pages`), and answering requests (`service`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response

VERSION: Final = "0.1.0"
JSON: Final = "application/json"
TOKEN_PARAMETER: Final = {
    "name": "Authorization", "in": "header", "schema": {"type": "string"}, "description": "`Bearer TOKEN`",
}  # fmt: skip
"""The parameter of an operation that takes a token."""
_CONVERTER: Final = re.compile(r":\w+}")
"""How Starlette reads a parameter of a path, which OpenAPI does not say."""

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Says:
    """What an answer says: a sentence, and the type of its JSON, if it has one."""

    description: str
    content: Any = None
    media_type: str = JSON


@dataclass(frozen=True, slots=True)
class Operation:
    """What a method of a path does. Its documentation is the docstring of its endpoint.

    `parameters` and `body` are a Parameter Object each, and a Request Body Object, of OpenAPI.
    """

    method: str
    path: str
    endpoint: Endpoint
    answers: Mapping[int, Says]
    parameters: Sequence[Mapping[str, Any]] = ()
    body: Mapping[str, Any] | None = None

    @property
    def title(self) -> str:
        """Its name for people."""
        return self.endpoint.__name__.replace("_", " ").title()

    @property
    def id(self) -> str:
        """Its name for programs, by which generators of clients name a function."""
        return re.sub(r"\W", "_", f"{self.endpoint.__name__}{self.documented_path}_{self.method.lower()}")

    @property
    def documented_path(self) -> str:
        """The path, as OpenAPI writes it."""
        return _CONVERTER.sub("}", self.path)


@dataclass(frozen=True, slots=True)
class Api:
    """An API: its title, a sentence on what it is for, and what it does."""

    title: str
    summary: str
    operations: Sequence[Operation] = field(default_factory=tuple)

    def document(self) -> dict[str, Any]:
        """The document, as JSON."""
        contents = [says.content for each in self.operations for says in each.answers.values()]
        types = list(dict.fromkeys(each for each in contents if each is not None))
        template = "#/components/schemas/{name}"
        schemas, components = msgspec.json.schema_components(types, ref_template=template)
        of_type = dict(zip(types, schemas, strict=True))
        paths: dict[str, dict[str, Any]] = {}
        for each in self.operations:
            paths.setdefault(each.documented_path, {})[each.method.lower()] = _described(each, of_type)
        return {
            "openapi": "3.1.0",
            "info": {"title": self.title, "summary": self.summary, "version": VERSION},
            "paths": paths,
            "components": {"schemas": components},
        }


def _described(operation: Operation, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": operation.title,
        "description": inspect.getdoc(operation.endpoint) or "",
        "operationId": operation.id,
    }
    if operation.parameters:
        described["parameters"] = [dict(each) for each in operation.parameters]
    if operation.body is not None:
        described["requestBody"] = dict(operation.body)
    described["responses"] = {
        str(status): {
            "description": says.description or HTTPStatus(status).phrase,
            **({} if says.content is None else {"content": {says.media_type: {"schema": schemas[says.content]}}}),
        }
        for status, says in operation.answers.items()
    }
    return described
