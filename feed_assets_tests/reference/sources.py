"""The page of a source's YAML: the fields of the pydantic models, with the strings below them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from feed_assets.sources.complete_spec import Complete
from feed_assets.sources.expect_spec import Expected
from feed_assets.sources.formats import DelimitedFormat, JsonLinesFormat, ParquetFormat
from feed_assets.sources.poll_spec import Poll
from feed_assets.sources.push_spec import OwnSignature, Push
from feed_assets.sources.spec import Source
from feed_assets.sources.thresholds import GrowthCosts
from feed_assets_tests.reference.docstrings import of_fields, paragraphs

HEAD = """\
# YAML of a source

A source is one YAML file in the project's directory of sources: [Add a source](../sources.md) shows one. A wrong field
is an error that names the file and the line.
"""
OTHERS = {
    Poll: "The field `poll`",
    Push: "The field `push`",
    OwnSignature: "The field `push.signature`",
    GrowthCosts: "The field `growth_threshold`",
    Complete: "The field `complete`",
    Expected: "The field `expect_every`",
}
FORMATS = {DelimitedFormat: "csv and tsv", JsonLinesFormat: "jsonl", ParquetFormat: "parquet"}
CHOSEN = {"separator": "by `type`", "quote": "by `type`"}
"""Fields whose default depends on another field."""


def page() -> str:
    """The whole page."""
    lines = [HEAD, "## Fields\n", *fields(Source, "###")]
    lines += ["## The field `format`\n"]
    for model, name in FORMATS.items():
        lines += [f"### Format {name}\n", *about(model), *fields(model, "####")]
    for model, title in OTHERS.items():
        lines += [f"## {title}\n", *about(model), *fields(model, "###")]
    return "\n".join(lines)


def described(model: type[BaseModel]) -> Mapping[str, str]:
    """The fields of a model that have a description."""
    return {name: text for name, text in of_fields(model).items() if name in model.model_fields}


def about(model: type[BaseModel]) -> Iterator[str]:
    """The paragraphs about a model."""
    for each in paragraphs(inspect.getdoc(model) or ""):
        yield f"{each}\n"


def fields(model: type[BaseModel], level: str) -> Iterator[str]:
    """A section for each field of a model."""
    schema = model.model_json_schema(mode="validation")["properties"]
    texts = described(model)
    for name, field in model.model_fields.items():
        default = (
            ["**required**"] if field.is_required() else _default(name, field.get_default(call_default_factory=True))
        )
        written = field.alias or name
        yield f"{level} `{written}`\n"
        yield f"{', '.join([_kind(schema[written]), *default])}\n"
        for each in paragraphs(texts[name]):
            yield f"{each}\n"


def _default(name: str, value: Any) -> Iterator[str]:
    if value is None:
        if name in CHOSEN:
            yield f"default: {CHOSEN[name]}"
    elif value != "" and value not in ({}, ()):
        shown = list(value) if isinstance(value, tuple) else value
        yield f"default: `{json.dumps(shown, default=str)}`"


def _kind(schema: Mapping[str, Any]) -> str:
    """What a field takes, in words."""
    options = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if "$ref" in schema or "oneOf" in schema or any("$ref" in each for each in options):
        names = [f"{_kind(each)}, or " for each in schema.get("oneOf", ()) if "enum" in each]
        return "".join([*names, "a mapping"])
    if any(each.get("format") == "date" for each in options):
        return " or ".join("a date" if "format" in each else _kind(each) for each in options)
    if options and all(each.get("type") in {"number", "string"} for each in options) and len(options) > 1:
        return f"a number{_bounds(options[0])}"  # pydantic's decimals also take texts
    schema = options[0] if options else schema
    if "enum" in schema:
        return "one of " + ", ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = {
        "string": "a text",
        "integer": "a whole number",
        "number": "a number",
        "boolean": "`true` or `false`",
        "array": "a list of texts",
        "object": "a mapping of texts to texts",
    }[schema["type"]]
    return kind + _bounds(schema)


def _bounds(schema: Mapping[str, Any]) -> str:
    if "minimum" in schema and "maximum" in schema:
        return f" from {schema['minimum']:g} to {schema['maximum']:g}"
    if "exclusiveMinimum" in schema:
        return f" above {schema['exclusiveMinimum']:g}"
    return f" from {schema['minimum']:,.9g}" if "minimum" in schema else ""
