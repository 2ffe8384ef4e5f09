"""What pydantic finds wrong in a field, as a sentence that says what to do. Not here: the place (`positions`)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from pydantic_core import ErrorDetails


def field_message(details: ErrorDetails, fields: Iterable[str]) -> str:
    """What is wrong in a field; `fields` are those that there are beside it."""
    given, context = details["input"], details.get("ctx", {})
    messages = {
        "missing": "is missing; add it",
        "union_tag_invalid": f"is of type {context.get('tag')!r}; there are {context.get('expected_tags')}",
        "union_tag_not_found": "has no type; add `type:` with csv, tsv, jsonl or parquet",
        "string_type": f"is {given!r}, not text; put it in quotes",
        "model_type": f"is {given!r}, not fields; write `field: value` on a line for each",
        "tuple_type": f"is {given!r}, not a list; put it in brackets",
        "string_pattern_mismatch": f"is {given!r}; use only a-z, 0-9 and _",
        "too_short": "is empty; name at least one",
        "value_error": str(context.get("error")),
    }
    if details["type"] == "extra_forbidden":
        known = list(fields)
        near = difflib.get_close_matches(str(details["loc"][-1]), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        return f"there is no such field; {hint}"
    plain = f"is {given!r}: {details['msg'][:1].lower()}{details['msg'][1:]}"
    return messages.get(details["type"], plain)
