"""The one dialect of CSV in feeds, as regular expressions that Java and Python read alike.

Here: whether a file follows the dialect, and its header. Not here: reading rows (`update_files`, `csv_relations`).
Spark mends other files and DuckDB guesses, each in its own way: one file would have two contents. So both read only
files that were found to follow the dialect:

- UTF-8 without NUL, with or without a byte order mark. Lines end with LF, CRLF or CR, and if values hold line breaks,
  all in the same way. Empty lines are no records.
- The name says the separator: a comma, or a tab in `.tsv`. Nothing begins a comment.
- The first record names the columns. Every record has a value for each of them; an empty value, quoted or not, is NULL.
- A value in double quotes may hold separators, line breaks and doubled quotes, as in RFC 4180. A file that breaks this
  rule may have a backslash before each quote and each backslash in quoted values instead, as Spark writes.
- Spaces belong to a value, but not those between a closing quote and the separator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from feed_assets.file_feed.errors import FeedError

SEPARATORS: Final = {"csv": ",", "tsv": "\t"}
"""The separator by the suffix of a file's name."""
DOUBLED, BACKSLASH = '"', "\\"
"""The character before a quote in quotes."""
WHOLE_BYTES: Final = 256 * 2**20
"""Values can hold line breaks in files of at most this size: such a file is looked at as one text."""
HEADER_LINES: Final = 100
"""The header is at most so many lines long."""
BYTE_ORDER_MARK: Final = "\ufeff"
NOT_UTF8, HAS_NUL = "it is not in UTF-8", "it has a character NUL, which Spark would lose"
LINE_ENDS: Final = r"\r\n|\r|\n"
LINE_END_TEXTS: Final = frozenset({"\r\n", "\r", "\n"})
MARK: Final = "\0"
"""A character that no file in the dialect has."""
BLANK_LINE: Final = r"(?<![^\r\n])[\x00-\x09\x0B\x0C\x0E-\x20]++(?![^\r\n])"
"""A line that Spark skips as an empty one, where it reads line by line."""
_END = r"(?![\s\S])"
"""The end of the text: Java and Python spell it differently."""
_SHOWN = 200
_NAMES = {",": "a comma", "\t": "a tab"}


class MalformedCsvError(FeedError):
    """A CSV file does not follow the dialect; the message says where, shows an example, and says what to do."""


@dataclass(frozen=True, slots=True)
class Header:
    """The names of the columns, and the number of empty lines before them."""

    names: tuple[str, ...]
    empty_lines: int


@dataclass(frozen=True, slots=True)
class Dialect:
    """What may differ between files: the separator, and the character before a quote in quotes.

    `line_end` ends the records if values hold line breaks; it is "" if each line is a record.
    """

    separator: str
    escape: str = DOUBLED
    line_end: str = ""


def records(separator: str, escape: str, columns: int) -> str:
    """The regular expression of a record or an empty line, with its end as group 1.

    If each match in a text is replaced by group 1 and MARK, only line ends are left between the marks of a file in the
    dialect. All repetitions are possessive, as Java recurses for others.
    """
    value = _value(separator, escape)
    return f"(?:{value}(?:{separator}{value}){{{columns - 1}}}+)?({LINE_ENDS}|{_END})"


def record_line(separator: str, escape: str, columns: int) -> str:
    """The regular expression of a line that is a record, or empty."""
    value = _value(separator, escape)
    return rf"\A(?:{value}(?:{separator}{value}){{{columns - 1}}}+)?{_END}"


def part_of_record(separator: str) -> str:
    """The regular expression of a line in a file with doubled quotes: it may begin and end in a quoted value."""
    inside, value = _inside(DOUBLED), _value(separator, DOUBLED)
    first, last = f'(?:{inside}" *+(?:{separator}|{_END}))?', f'(?:{value}|"{inside})'
    return rf"\A(?:{inside}|{first}(?:{value}{separator})*+{last}){_END}"


def values(record: str, dialect: Dialect) -> list[str]:
    """The values of a record."""
    pattern = re.compile(f"({_value(dialect.separator, dialect.escape)})({dialect.separator}|{_END})")
    found, start = [], 0
    while match := pattern.match(record, start):
        found.append(_unquoted(match[1], dialect.escape))
        start = match.end()
        if not match[2]:
            break
    return found


def read_header(lines: Iterable[str], separator: str, uri: str) -> Header | None:
    """The header of a file with these lines; None if there is none. Raises MalformedCsvError."""
    empty, record = 0, ""
    for line in islice(lines, HEADER_LINES):
        if not record and not line:
            empty += 1
            continue
        record = f"{record}\n{line}" if record else line
        for escape in (DOUBLED, BACKSLASH):
            if re.search(rf"\A(?:{_value(separator, escape)}{separator})*+{_value(separator, escape)}{_END}", record):
                return Header(_unique(values(record, Dialect(separator, escape)), uri), empty)
    if record:
        raise malformed(uri, f"its header is not in the dialect: {_shown(record)}", separator)
    return None


def dialect_of(
    counts: Mapping[str, Any],
    separator: str,
    columns: int,
    whole: Callable[[str], Collection[str]],
    uri: str,
) -> Dialect:
    """The dialect of a file, by how many of its lines are what. Raises MalformedCsvError.

    Of the lines, `broken` and `broken_if_escaped` are no `record_line` with the one and the other escape, `no_part` are
    no `part_of_record`, `blank` are each a `BLANK_LINE`, and `not_utf8` and `nul` are so. `example` is a broken line.
    `whole` is called if values may hold line breaks: it replaces the `records` with an escape in the text, and returns
    what is left between the marks, each once.
    """
    if counts["not_utf8"] or counts["nul"]:
        raise malformed(uri, NOT_UTF8 if counts["not_utf8"] else HAS_NUL, separator)
    # Spark skips blank lines, where it reads line by line.
    hidden = columns == 1 and counts["blank"]
    for escape, broken in ((DOUBLED, "broken"), (BACKSLASH, "broken_if_escaped")):
        if escape == DOUBLED and counts["no_part"]:
            continue
        if not counts[broken] and not hidden:
            return Dialect(separator, escape)
        ends = set(whole(escape)) - {""}
        if ends <= LINE_END_TEXTS:
            return Dialect(separator, escape, only_end(ends, separator, uri))
    raise not_records(counts["broken"], counts["example"], separator, columns, uri)


def only_end(ends: Collection[str], separator: str, uri: str) -> str:
    """The line end of a file whose values hold line breaks. Raises MalformedCsvError if there are several."""
    if len(ends) > 1:
        raise malformed(uri, "values hold line breaks, and the lines end in several ways", separator)
    return next(iter(ends), "\n")


def not_records(count: int, example: str, separator: str, columns: int, uri: str) -> MalformedCsvError:
    """The error of a file with so many lines that are not in the dialect."""
    number = "1 line is no record" if count == 1 else f"{count} lines are no records"
    width = "1 column" if columns == 1 else f"{columns} columns"
    return malformed(uri, f"{number} of {width}, such as {_shown(example)}", separator)


def require_whole(size: int, separator: str, uri: str) -> None:
    """Raise MalformedCsvError if a file of this size is too large for line breaks in its values."""
    if size > WHOLE_BYTES:
        what = f"lines are no records, and values hold line breaks in files up to {WHOLE_BYTES // 2**20} MiB only"
        raise malformed(uri, what, separator)


def require_separator(names: Collection[str], wanted: Collection[str], separator: str, uri: str) -> None:
    """Raise MalformedCsvError if a file's only column is none of the wanted, and its name looks like several."""
    (name, *others) = names or [""]
    if not others and re.search(r"[,;|\t]", name) and name.lower() not in {each.lower() for each in wanted}:
        raise malformed(uri, f"it has one column, {_shown(name)}", separator)


def malformed(uri: str, what: str, separator: str) -> MalformedCsvError:
    """The error of a file that is not in the dialect: what is wrong, and how to write it."""
    return MalformedCsvError(
        f"{uri} cannot be read: {what}. CSV in a feed is UTF-8 with a header, {_NAMES[separator]} between values, and "
        'double quotes around values with separators, line breaks or quotes, as in "5"" wide". Publish it again so.'
    )


def _value(separator: str, escape: str) -> str:
    """A value. Without quotes around it, it does not begin with spaces and a quote: DuckDB drops such spaces."""
    quoted = f'"{_inside(escape)}" *+'
    return rf'(?:{quoted}| *+(?!")[^{separator}\r\n]*+)'


def _inside(escape: str) -> str:
    return r'[^"]*+(?:""[^"]*+)*+' if escape == DOUBLED else r'[^"\\]*+(?:\\["\\][^"\\]*+)*+'


def _unquoted(text: str, escape: str) -> str:
    if not text.startswith('"'):
        return text
    inner = text.rstrip(" ")[1:-1]
    return inner.replace('""', '"') if escape == DOUBLED else re.sub(r"\\(.)", r"\1", inner)


def _unique(names: Collection[str], uri: str) -> tuple[str, ...]:
    """The names, with one for each column that has none. Raises MalformedCsvError if two are alike but for case."""
    found: dict[str, str] = {}
    for number, name in enumerate(names):
        named = name or f"_c{number}"
        if named.lower() in found:
            raise MalformedCsvError(f"{uri}: two columns are named {named}. Publish it again with a name for each.")
        found[named.lower()] = named
    return tuple(found.values())


def _shown(text: str) -> str:
    return f"{text[:_SHOWN]!r}{'...' if len(text) > _SHOWN else ''}"
