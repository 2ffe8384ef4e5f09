"""Finding the descriptions of datasets, and reporting all their problems as `file:line: field: what and what to do`.

Not here: the fields of a description (`spec`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pydantic import ValidationError

from feed_assets.datasets.errors import DatasetError, GrainError, MemberError
from feed_assets.dependencies.declared.spec import Completeness, DatasetSpec
from feed_assets.dependencies.rules import Declared
from feed_assets.sources.field_problems import field_message
from feed_assets.sources.positions import Document, Location, Problem, dotted, read_document
from feed_assets.sources.spec import SpecError


@dataclass(frozen=True, slots=True)
class DeclaredDataset:
    """A dataset that a YAML file at `path` declares, with who says what it has."""

    declared: Declared
    complete: Completeness
    path: Path

    @property
    def name(self) -> str:
        """The name of the dataset."""
        return self.declared.dataset.name


def load_datasets(directory: Path, *, first_day: date) -> tuple[DeclaredDataset, ...]:
    """The datasets that the `*.yaml` files of a directory declare, in order of their names; none without a directory.

    `first_day` is that of datasets that name none. Raises SpecError with a line for each problem in any file, also if
    two datasets have one name.
    """
    if misnamed := sorted(directory.glob("*.yml")):
        raise SpecError(f"{misnamed[0]} would not be read; name it {misnamed[0].stem}.yaml")
    found: dict[str, DeclaredDataset] = {}
    problems: list[str] = []
    for path in sorted(directory.glob("*.yaml")):
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            problems.append(f"{path}:1: cannot be read as UTF-8 text: {error}")
            continue
        document = read_document(text)
        wrong = [*document.problems]
        if document.values is not None:
            try:
                loaded = _loaded(document, path, first_day)
            except _WrongError as error:
                wrong += error.problems
            else:
                other = found.setdefault(loaded.name, loaded)
                if other is not loaded:
                    what = f"{other.path.name} declares {loaded.name} too; give one of them another name"
                    wrong.append(Problem(document.line(("name",)), "name", what))
        ordered = sorted(wrong, key=lambda problem: (problem.line, problem.field))
        problems += [": ".join(filter(None, (f"{path}:{each.line}", each.field, each.message))) for each in ordered]
    if problems:
        raise SpecError("\n".join(problems))
    return tuple(each for _, each in sorted(found.items()))


class _WrongError(Exception):
    """A description that declares nothing."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__()
        self.problems = problems


def _loaded(document: Document, path: Path, first_day: date) -> DeclaredDataset:
    """The dataset of a document. Raises _WrongError."""
    try:
        spec = DatasetSpec.model_validate(document.values)
    except ValidationError as error:
        raise _WrongError(*_problems(document, error)) from None
    try:
        return DeclaredDataset(spec.declared(first_day), spec.complete, path)
    except DatasetError as error:
        field = "grain" if isinstance(error, GrainError) else "first_day"
        if isinstance(error, MemberError):
            field = "members" if spec.members else "levels"
        raise _WrongError(Problem(document.line((field,)), field, str(error))) from None


def _problems(document: Document, error: ValidationError) -> Iterator[Problem]:
    for details in error.errors(include_url=False):
        location: Location = details["loc"]
        model = Completeness if location[:1] == ("complete",) else DatasetSpec
        message = field_message(details, model.model_fields)
        yield Problem(document.line(location), dotted(location), message)
