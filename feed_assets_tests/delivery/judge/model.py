"""Checks of a request against the API's model, which botocore carries: types, required members, lengths, patterns.

Not here: rules that the model only describes in words (see `operations`), and records, which are checked on their way.
"""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from importlib.resources import files
from typing import Any, Final

from feed_assets_tests.delivery.judge.refusals import RefusedError, not_valid

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "structure": (dict,),
    "list": (list,),
    "map": (dict,),
    "string": (str,),
    "blob": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "long": (int,),
    "timestamp": (int, float),
}


@cache
def _model() -> dict[str, Any]:
    # botocore's own loader takes 0.3 s to import.
    packed = files("botocore") / "data" / "kinesis" / "2013-12-02" / "service-2.json.gz"
    return dict(json.loads(gzip.decompress(packed.read_bytes())))


def check(operation: str, given: Any) -> None:
    """Raises RefusedError if this is no input of the operation."""
    _check(_model()["operations"][operation]["input"]["shape"], given, "")


def _check(name: str, value: Any, path: str) -> None:
    shape = _model()["shapes"][name]
    kind = shape["type"]
    if not isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, bool)):
        raise RefusedError("SerializationException", f"Value at '{path}' has the wrong type", violation=True)
    if kind == "structure":
        for required in shape.get("required", ()):
            if value.get(required) is None:
                raise not_valid(
                    f"Value null at '{_below(path, required)}' failed to satisfy constraint: Member must not be null"
                )
        for member, given in value.items():
            if member in shape["members"] and given is not None:
                _check(shape["members"][member]["shape"], given, _below(path, member))
        return
    if kind == "list":
        for number, each in enumerate(value, start=1):
            _check(shape["member"]["shape"], each, f"{path}.{number}.member")
    if fault := _fault(shape, value):
        raise not_valid(f"Value '{value}' at '{path}' failed to satisfy constraint: Member must {fault}")


def _fault(shape: dict[str, Any], value: Any) -> str | None:
    """What is wrong with a value that has no members."""
    measured = value if isinstance(value, int | float) else len(value)
    what = "value" if isinstance(value, int | float) else "length"
    if measured > shape.get("max", measured):
        return f"have {what} less than or equal to {shape['max']}"
    if measured < shape.get("min", measured):
        return f"have {what} greater than or equal to {shape['min']}"
    if "enum" in shape and value not in shape["enum"]:
        return f"satisfy enum value set: [{', '.join(shape['enum'])}]"
    if "pattern" in shape and not re.fullmatch(shape["pattern"], value):
        return f"satisfy regular expression pattern: {shape['pattern']}"
    return None


def _below(path: str, member: str) -> str:
    name = member[0].lower() + member[1:]
    return f"{path}.{name}" if path else name
