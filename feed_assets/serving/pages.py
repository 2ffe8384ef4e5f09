"""The page at `/docs`: the document of an API for people, which loads nothing from anywhere. Not here: the document."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Final

_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
code, pre {{ font: 14px/1.4 ui-monospace, monospace; }}
pre {{ background: #8881; padding: .75rem; overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; }}
td, th {{ border-bottom: 1px solid #8884; padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top; }}
:root {{ color-scheme: light dark; }}
</style>
<h1>{title}</h1>
<p>{summary} For programs: <a href="/openapi.json">openapi.json</a>.</p>
{parts}
</html>
"""


def page(document: Mapping[str, Any]) -> str:
    """The page of a document as `documents.Api` makes it."""
    operations = [
        _operation(method, path, described)
        for path, methods in document["paths"].items()
        for method, described in methods.items()
    ]
    schemas = [_schema(name, schema) for name, schema in document["components"]["schemas"].items()]
    parts = "\n".join([*operations, "<h2>Types</h2>", *schemas])
    info = document["info"]
    return _PAGE.format(title=escape(info["title"]), summary=_text(info["summary"]), parts=parts)


def _operation(method: str, path: str, described: Mapping[str, Any]) -> str:
    parts = [f"<h2><code>{method.upper()} {escape(path)}</code></h2>"]
    parts += [f"<p>{_text(each)}</p>" for each in described["description"].split("\n\n")]
    if parameters := described.get("parameters"):
        rows = [(_code(each["name"]), each["in"], _text(each.get("description", ""))) for each in parameters]
        parts.append(_table(("parameter", "in", "meaning"), rows))
    for media_type, body in described.get("requestBody", {}).get("content", {}).items():
        parts.append(f"<p>Body as {_code(media_type)}:</p>{_json(body['schema'])}")
    rows = [
        (_code(status), _text(says["description"]), _types(says)) for status, says in described["responses"].items()
    ]
    parts.append(_table(("answer", "meaning", "type"), rows))
    return "\n".join(parts)


def _types(says: Mapping[str, Any]) -> str:
    names = (each["schema"].get("$ref", "").rpartition("/")[2] for each in says.get("content", {}).values())
    return ", ".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in names if name)


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    shown = {key: value for key, value in schema.items() if key not in {"title", "description"}}
    return f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{_text(schema.get("description", ""))}</p>{_json(shown)}'


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{each}</th>" for each in heads)
    lines = "".join(f"<tr>{''.join(f'<td>{each}</td>' for each in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{lines}</table>"


def _json(content: object) -> str:
    return f"<pre>{escape(json.dumps(content, indent=2))}</pre>"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _text(text: str) -> str:
    """Text in which names stand between backquotes."""
    parts = (escape(each) for each in text.split("`"))
    return "".join(f"<code>{each}</code>" if number % 2 else each for number, each in enumerate(parts))
