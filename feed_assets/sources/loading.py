"""Finding the descriptions of sources, and reporting all their problems as `file:line: field: what and what to do`.

Not here: the fields of a description (see `spec`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from feed_assets.sources.field_problems import field_message
from feed_assets.sources.formats import DelimitedFormat, JsonLinesFormat, ParquetFormat
from feed_assets.sources.kinds import Kind, by_name
from feed_assets.sources.poll_spec import Poll, options_variable
from feed_assets.sources.positions import Document, Location, Problem, dotted, read_document
from feed_assets.sources.push_spec import OwnSignature, Push
from feed_assets.sources.spec import FieldProblemsError, Source, SpecError


def load_source(path: Path, kinds: Iterable[Kind]) -> Source:
    """The source of one of these kinds that a YAML file describes. Raises SpecError with a line for each problem."""
    source, problems = _read(path, by_name(kinds).values())
    if source is None or problems:
        raise SpecError("\n".join(problems))
    return source


def load_sources(directory: Path, kinds: Iterable[Kind]) -> tuple[Source, ...]:
    """The sources of these kinds that the `*.yaml` files of a directory describe, in order of kind and name.

    Raises SpecError with a line for each problem in any file, also if two sources have one name, or if two that are
    polled would share a variable for their credentials.
    """
    found = _Found.of(directory, kinds)
    if found.problems:
        raise SpecError("\n".join(line for lines in found.problems.values() for line in lines))
    return found.sources


def usable_sources(directory: Path, kinds: Iterable[Kind]) -> tuple[Source, ...]:
    """As `load_sources`, but a wrong file stops only its own source: `Source.unusable` stands for it.

    Raises SpecError if the kind and the name of such a source cannot be read.
    """
    known = by_name(kinds)
    found = _Found.of(directory, known.values())
    sources = {each.key: each for each in found.sources if each.origin not in found.problems}
    for path, lines in found.problems.items():
        kind, name = _kind_and_name(path)
        try:
            source = Source.unusable(known[kind], name, "\n".join(lines))
        except (KeyError, ValidationError):
            raise SpecError("\n".join(lines)) from None
        sources[source.key] = source  # also if another file describes it well: nobody knows which is meant
    return tuple(source for _, source in sorted(sources.items()))


_FIELD = re.compile(r"""^(kind|name):\s*["']?([^\s"'#]+)""", re.MULTILINE)


def _kind_and_name(path: Path) -> tuple[str, str]:
    """The kind and the name that a wrong file seems to describe; empty if it names none. The file may be no YAML."""
    try:
        fields = dict(_FIELD.findall(path.read_bytes().decode("utf-8", errors="replace")))
    except OSError:
        fields = {}
    return fields.get("kind", ""), fields.get("name", "")


@dataclass(frozen=True, slots=True)
class _Found:
    """The sources that files describe, and the lines of the problems of each file that has some."""

    sources: tuple[Source, ...]
    problems: Mapping[Path, Sequence[str]]

    @classmethod
    def of(cls, directory: Path, kinds: Iterable[Kind]) -> _Found:
        """Read the files of a directory. Raises SpecError if the directory itself is wrong."""
        if not directory.is_dir():
            raise SpecError(f"{directory} is not a directory; put one YAML file for each source into one")
        if misnamed := sorted(directory.glob("*.yml")):
            raise SpecError(f"{misnamed[0]} would not be read; name it {misnamed[0].stem}.yaml")
        kinds = by_name(kinds).values()
        sources: dict[str, tuple[Path, Source]] = {}
        problems: dict[Path, list[str]] = {}
        for path in sorted(directory.glob("*.yaml")):
            source, found = _read(path, kinds)
            if found:
                problems.setdefault(path, []).extend(found)
            if source is None:
                continue
            other, _ = sources.setdefault(source.key, (path, source))
            if other != path:
                why = f"{other.name} describes {source.key} too; give one of them another name"
                problems.setdefault(path, []).append(source.problem(("name",), why))
        for source, problem in _shared_variables(source for _, source in sources.values()):
            problems.setdefault(sources[source.key][0], []).append(problem)
        return cls(tuple(source for _, (_, source) in sorted(sources.items())), problems)


def _shared_variables(sources: Iterable[Source]) -> Iterator[tuple[Source, str]]:
    """A problem for each polled source that shares its variable for credentials with another source."""
    first: dict[str, Source] = {}
    for source in sources:
        if source.poll is None:
            continue
        variable = options_variable(source.key)
        other = first.setdefault(variable, source)
        if other is not source:
            what = f"{other.key} and {source.key} are polled, and both would take the credentials in {variable}"
            yield source, source.problem(("name",), f"{what}; give one of them another name")


def _read(path: Path, kinds: Iterable[Kind]) -> tuple[Source | None, list[str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        return None, [f"{path}:1: cannot be read as UTF-8 text: {error}"]
    document = read_document(text)
    problems = list(document.problems)
    source = None
    unread: list[str] = []
    if document.values is not None:
        try:
            source = Source.of(document.values, kinds).described_in(path, document)
        except ValidationError as error:
            for details in error.errors(include_url=False):
                problems += _problems(document, details)
        except SpecError as error:
            unread = str(error).splitlines()
    ordered = sorted(problems, key=lambda problem: (problem.line, problem.field))
    return source, [": ".join(filter(None, (f"{path}:{p.line}", p.field, p.message))) for p in ordered] + unread


def _problems(document: Document, details: ErrorDetails) -> Iterator[Problem]:
    # Pydantic puts the chosen kind of format, such as `csv`, between the field `format` and its parts.
    # Likewise between `signature` of `push` and its parts.
    location = details["loc"][:1] + details["loc"][2:] if details["loc"][:1] == ("format",) else details["loc"]
    if location[:2] == ("push", "signature"):
        location = location[:2] + location[3:]
    error = details.get("ctx", {}).get("error")
    if isinstance(error, FieldProblemsError):
        for inner, message in error.problems:
            yield Problem(document.line((*location, *inner)), dotted((*location, *inner)), message)
    else:
        fields = _fields_of(location) if location else ()
        yield Problem(document.line(location), dotted(location), field_message(details, fields))


def _fields_of(location: Location) -> list[str]:
    if location[0] == "poll":
        return list(Poll.model_fields)
    if location[0] == "push":
        return list((OwnSignature if location[1:2] == ("signature",) else Push).model_fields)
    if location[0] != "format":
        return list(Source.model_fields)
    formats: Iterable[type[BaseModel]] = (DelimitedFormat, JsonLinesFormat, ParquetFormat)
    return list(dict.fromkeys(field for model in formats for field in model.model_fields))
