"""A YAML document with the line of each field, so that a problem is reported with its place.

Not here: what the values mean (see `spec`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import yaml

Location: TypeAlias = tuple[str | int, ...]
"""The path to a value: names of fields and, inside lists, positions."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of one field, and what to do about it. `line` starts at 1."""

    line: int
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class Document:
    """The values of a YAML document, the line on which each begins, and the problems of its form."""

    values: object
    lines: Mapping[Location, int]
    problems: tuple[Problem, ...]

    def line(self, location: Location) -> int:
        """The line of this field or, if it is missing, of the nearest field around it."""
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location, 1)


def read_document(text: str) -> Document:
    """Parse one YAML document. Never raises: text that is not YAML gives a Document with a problem."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        values = None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(part for part in (error.context, error.problem) if part)
        if error.problem == "mapping values are not allowed here":
            what += "; if the value has a colon and a space in it, put it in quotes"
        return _nothing(f"this is not YAML: {what}", line=mark.line + 1 if mark else 1)
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:
        # A tag such as !!bool on another value makes the loader raise errors of these kinds.
        return _nothing(f"this is not YAML: {error}")
    if node is None or values is None:
        return _nothing("the file is empty; write a description into it")
    lines: dict[Location, int] = {}
    return Document(values, lines, tuple(_doubled(node, (), lines)))


def dotted(location: Location) -> str:
    """The field as a person writes it: `format.columns[2]`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


class _Loader(yaml.SafeLoader):
    """Without aliases, which could make a value part of itself."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call] # PyYAML's own
            raise yaml.composer.ComposerError(None, None, "aliases are not taken; write the value out", mark)
        return super().compose_node(parent, index)


def _nothing(message: str, *, line: int = 1) -> Document:
    return Document(None, {}, (Problem(line, "", message),))


def _doubled(node: yaml.Node, location: Location, lines: dict[Location, int]) -> Iterator[Problem]:
    """A problem for each second field of one name: YAML's loader silently keeps the last. Fills `lines` on its way."""
    lines[location] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        first: dict[Location, int] = {}
        for key, value in node.value:
            inner = (*location, str(key.value))
            line = key.start_mark.line + 1
            if inner in first:
                yield Problem(line, dotted(inner), f"is there twice (first on line {first[inner]}); keep one")
            first.setdefault(inner, line)
            yield from _doubled(value, inner, lines)
            # The line of a field is that of its name, even if its value begins on a later line.
            lines[inner] = line
    elif isinstance(node, yaml.SequenceNode):
        for position, value in enumerate(node.value):
            yield from _doubled(value, (*location, position), lines)
