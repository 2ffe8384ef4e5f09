"""Functions of Spark SQL that raise an error for some values, although ANSI is off.

One such value would fail a whole file or day. Here: which expressions can raise, the spelling that does not, and
evaluating them record by record. Not here: what becomes of the records (see `placing` and `canonical`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from pyspark.sql import Column, SparkSession, functions

from feed_assets.engine.jvm import unless_raised
from feed_assets.sources.calls import Call, calls, is_plain, masked, replaced
from feed_assets.sources.formats import ParquetFormat
from feed_assets.sources.positions import Location
from feed_assets.sources.spec import Source

VALUE: Final = "value"
"""The field of the struct that `tried` makes."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_IN_TIME: Final = "if(x BETWEEN TIMESTAMP '1900-01-01' AND TIMESTAMP '2200-01-01', {}, NULL)"
INSTEAD: Final[Mapping[str, str]] = {
    "add_months": _IN_TIME.format("add_months(x, n)"),
    "aes_decrypt": "try_aes_decrypt(...)",
    "aes_encrypt": "",
    "array_insert": "if(n <> 0, array_insert(x, n, y), NULL)",
    "array_repeat": "array_repeat(x, least(n, 1000))",
    "assert_true": "",
    "bit_get": "if(n BETWEEN 0 AND 31, bit_get(x, n), NULL)",
    "convert_timezone": "",
    "date_trunc": _IN_TIME.format("date_trunc('hour', x)"),
    "decode": "make_valid_utf8(x)",
    "element_at": "x[n - 1]",
    "elt": "array(x, y)[n - 1]",
    "encode": "encode(x, 'utf-8')",
    "format_number": "format_number(x, 2)",
    "format_string": "concat(...)",
    "from_utc_timestamp": _IN_TIME.format("from_utc_timestamp(x, 'Europe/Berlin')"),
    "getbit": "if(n BETWEEN 0 AND 31, getbit(x, n), NULL)",
    "hmac": "",
    "java_method": "try_reflect(...)",
    "make_dt_interval": "",
    "make_interval": "try_make_interval(...)",
    "make_timestamp": "try_make_timestamp(...)",
    "make_timestamp_ltz": "try_make_timestamp_ltz(...)",
    "make_timestamp_ntz": "try_make_timestamp_ntz(...)",
    "make_ym_interval": "",
    "map": "if(x <> y, map(x, 1, y, 2), NULL)",
    "map_concat": "",
    "map_from_arrays": "",
    "map_from_entries": "",
    "months_between": _IN_TIME.format("months_between(x, y)"),
    "negative": "0 - x",
    "parse_json": "try_parse_json(...)",
    "parse_url": "try_parse_url(...)",
    "printf": "concat(...)",
    "raise_error": "NULL",
    "reflect": "try_reflect(...)",
    "regexp_extract": "",
    "regexp_extract_all": "",
    "regexp_replace": "",
    "repeat": "repeat(x, least(n, 1000))",
    "sequence": "if(y BETWEEN x AND x + 1000, sequence(x, y), NULL)",
    "slice": "if(n > 0 AND m >= 0, slice(x, n, m), NULL)",
    "split_part": "split(x, ',')[n - 1]",
    "str_to_map": "regexp_extract(x, '(^|&)key=([^&]*)', 2)",
    "timestamp_millis": "timestamp_micros(try_multiply(cast(x AS BIGINT), 1000))",
    "timestamp_nanos": "timestamp_micros(cast(x / 1000 AS BIGINT))",
    "timestamp_seconds": "timestamp_micros(try_multiply(cast(x AS BIGINT), 1000000))",
    "to_binary": "try_to_binary(...)",
    "to_char": "cast(x AS STRING)",
    "to_number": "try_to_number(...)",
    "to_time": "try_to_time(...)",
    "to_utc_timestamp": _IN_TIME.format("to_utc_timestamp(x, 'Europe/Berlin')"),
    "to_varchar": "cast(x AS STRING)",
    "transform_keys": "",
    "try_element_at": "x[n - 1]",
    "unbase64": "try_to_binary(x, 'base64')",
    "url_decode": "try_url_decode(...)",
    "validate_utf8": "try_validate_utf8(...)",
    "variant_get": "try_variant_get(...)",
    "xpath": "",
    "xpath_boolean": "",
    "xpath_double": "",
    "xpath_float": "",
    "xpath_int": "",
    "xpath_long": "",
    "xpath_number": "",
    "xpath_short": "",
    "xpath_string": "",
    "zstd_decompress": "try_zstd_decompress(...)",
}
"""Functions that raise for some values -> the spelling that does not; empty if there is none.

Found by calling each function of Spark 4.3 with odd values. The list is for people: what is not in it may raise, too.
"""

_NEVER: Final = _names(
    "cast try_cast coalesce nvl nvl2 ifnull nullif if isnull isnotnull isnan nanvl concat left right substr substring "
    "substring_index trim ltrim rtrim btrim upper lower ucase lcase initcap length len char_length character_length "
    "octet_length bit_length replace translate instr locate contains startswith endswith reverse md5 sha sha1 sha2 "
    "crc32 hash xxhash64 hex unhex base64 ascii greatest least array size cardinality array_contains get struct "
    "named_struct get_json_object abs ceil ceiling floor round bround sign signum sqrt ln exp mod pmod string "
    "make_valid_utf8 is_valid_utf8 try_to_number try_url_decode try_parse_json try_add try_subtract try_multiply "
    "try_divide timestamp_micros unix_micros"
)
"""Functions that never raise, whatever their arguments."""
_NEVER_WITH_LITERALS: Final = _names(
    "to_timestamp to_timestamp_ntz to_timestamp_ltz try_to_timestamp date_format unix_timestamp to_unix_timestamp "
    "from_unixtime regexp_extract regexp_replace regexp_like regexp_count regexp regexp_substr rlike like ilike split "
    "from_json format_number lpad rpad repeat element_at split_part try_variant_get"
)
"""Functions that never raise if all arguments but the first are literals that Spark takes, but see `_RAISES_IF`."""
_RAISES_IF: Final[Mapping[str, Callable[[Sequence[str]], bool]]] = {
    "regexp_extract": lambda given: len(re.findall(r"(?<!\\)\((?!\?)", given[1])) < int((*given, "1")[2]),
    "regexp_replace": lambda given: re.search(r"[$\\]", given[2]) is not None,
    "element_at": lambda given: given[1] == "0",
    "split_part": lambda given: given[2] == "0",
}
"""Functions of `_NEVER_WITH_LITERALS` -> whether they may raise with these literals."""
_KEYWORDS: Final = _names(
    "in and or not when then else case between is as on distinct using from for decimal dec numeric char varchar"
)
"""Words of SQL that may stand before a bracket, and types."""

_NUMBER_OR_TEXT: Final = re.compile(r"[+-]?\d+")
_ALWAYS_TRIED: Final = re.compile(
    r"->|\binterval\b|\bas\s+date\b|::\s*date\b|\b(?:like|rlike|ilike|regexp)\b(?!\s*[(0])|"
    r"(?:^|[^\w\s)\]]|\b(?:then|else|and|or|not))\s*-\s*[a-z_(]",
    re.IGNORECASE,
)
"""Lambda functions; intervals and dates; patterns that are no literals; minus before a name, which a DECIMAL may not
take."""
_ARITHMETIC: Final = re.compile(r"[-+*/%~]|\bdiv\b", re.IGNORECASE)
_BEYOND_TIMESTAMPS: Final = re.compile("date|interval", re.IGNORECASE)
_OF_TIME: Final = re.compile(r"time|date|interval|year|month|day|hour|minute|second", re.IGNORECASE)


def located_expressions(source: Source) -> dict[Location, str]:
    """The expressions of a source by their place in its description."""
    expressions: dict[Location, str] = {("columns", name): text for name, text in source.columns.items()}
    return expressions | ({("filter",): source.filter} if source.filter else {})


def may_raise(source: Source, expression: str) -> bool:
    """Whether it is not known that this expression never raises.

    Its functions must be known not to raise. Other calculations overflow without an error, but not those with times,
    and a date may be too late for a timestamp.
    """
    text = masked(expression)
    if not is_plain(expression) or _ALWAYS_TRIED.search(text) or not all(map(_never_raises, calls(expression))):
        return True
    declared = source.format.declared.items() if isinstance(source.format, ParquetFormat) else ()
    types = " ".join(type_ for name, type_ in declared if name.lower() in expression.lower())
    of_time = _OF_TIME.search(f"{text} {types}")
    return _BEYOND_TIMESTAMPS.search(types) is not None or bool(of_time and _ARITHMETIC.search(text))


def to_try(source: Source, expression: str, *, suspicious: bool = False) -> str | None:
    """What to evaluate by `tried`: the expression if it may raise an error, or is taken for such a one; else None.

    What is not known not to raise may raise. The result is `expression`, with maps whose keys are looked at before:
    when Spark's functions for maps raise for a key, they keep the keys before it for the next record. Where that is
    not possible the result is None, as an error is better than a wrong value.
    """
    if not suspicious and not may_raise(source, expression):
        return None
    text = replaced(expression, _CHECKED) if is_plain(expression) else expression
    remembers = _REMEMBERS if is_plain(expression) else _REMEMBERS | _CHECKED.keys()
    found = [call for call in calls(text) if call.name in remembers and not _never_raises(call)]
    return None if found else text


def raising_functions(source: Source) -> Iterator[str]:
    """A line for each call of a function that raises for some values: its place, and what to write instead."""
    for location, expression in located_expressions(source).items():
        called = (call.name for call in calls(expression) if not _never_raises(call))
        records = "their records go to quarantine" if to_try(source, expression) else "a whole file or day fails"
        for name in dict.fromkeys(each for each in called if each in INSTEAD):
            advice = f"; {INSTEAD[name]} raises none" if INSTEAD[name] else ""
            yield source.problem(location, f"{name} raises an error for some values, and {records}{advice}")


def tried(spark: SparkSession, value: Column) -> Column:
    """A struct with the value of this column in `VALUE`; NULL for a record for which evaluating it raises.

    The column must be made of an expression of `to_try`. The records must have `_line`, a number from 1.
    """
    # Spark evaluates what several columns share before all of them, unless it is in a branch (see `unless_raised`).
    line = functions.col("_line")
    return unless_raised(spark, functions.when(line == -1, None).otherwise(functions.struct(value.alias(VALUE))))


def _never_raises(call: Call) -> bool:
    if call.name in _NEVER or call.name in _KEYWORDS:
        return True
    literals = all(_NUMBER_OR_TEXT.fullmatch(masked(each)) for each in call.arguments[1:])
    if call.name == "map":
        keys = call.arguments[::2]
        return len(set(keys)) == len(keys) and all(_NUMBER_OR_TEXT.fullmatch(masked(each)) for each in keys)
    if not literals or call.name not in _NEVER_WITH_LITERALS:
        return False
    return call.name not in _RAISES_IF or not _RAISES_IF[call.name](call.arguments)


def _checked(call: str, keys: str) -> str:
    """The call of a function that makes a map, if these keys are distinct and not NULL."""
    return f"if(size(array_distinct(array_compact({keys}))) < size({keys}), raise_error('keys'), {call})"


def _of_pairs(arguments: Sequence[str]) -> str:
    keys = f"array({', '.join(arguments[::2])})"
    return _checked(f"map({', '.join(arguments)})", keys) if arguments else "map()"


def _of_arrays(arguments: Sequence[str]) -> str:
    keys, values = arguments
    return _checked(f"map_from_arrays({keys}, {values})", keys)


def _of_text(arguments: Sequence[str]) -> str:
    text, pairs, keys = (*arguments, *("','", "':'")[len(arguments) - 1 :])
    split = f"transform(split({text}, {pairs}), _pair -> split(_pair, {keys}, 2)[0])"
    return _checked(f"str_to_map({text}, {pairs}, {keys})", split)


def _of_maps(arguments: Sequence[str]) -> str:
    keys = ", ".join(f"map_keys({each})" for each in arguments)
    return _checked(f"map_concat({', '.join(arguments)})", f"concat({keys})") if arguments else "map_concat()"


def _of_map(arguments: Sequence[str]) -> str:
    entries, key = arguments
    keys = f"zip_with(map_keys({entries}), map_values({entries}), {key})"
    return _checked(f"transform_keys({entries}, {key})", keys)


_CHECKED: Final[Mapping[str, Callable[[Sequence[str]], str]]] = {
    "map": _of_pairs,
    "str_to_map": _of_text,
    "map_from_arrays": _of_arrays,
    "map_concat": _of_maps,
    "transform_keys": _of_map,
}
_REMEMBERS: Final = frozenset({"map_from_entries", "format_number"})
"""Functions with an error that changes their result for later records, and that no condition can keep from it."""
