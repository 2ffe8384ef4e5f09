"""Files and names in DuckDB's SQL. Not here: running it; this module does not load DuckDB."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from feed_assets.engine.csv_dialect import SEPARATORS, require_separator
from feed_assets.file_feed.errors import FeedError

_READERS = {
    "parquet": "read_parquet(?, hive_partitioning = false, union_by_name = true)",
    "json": (
        "(SELECT COLUMNS(*) ->> '$' FROM read_json(?, format = 'auto', hive_partitioning = false, "
        "union_by_name = true, maximum_depth = 1, sample_size = -1, map_inference_threshold = -1))"
    ),
}
"""A file of JSON is read twice: of a sample, DuckDB would not know the columns that come later, and leave them out. The
values are text, as it would take texts for times or UUIDs, and write them differently."""
_FORMATS = {"parquet": "parquet", "csv": "csv", "tsv": "tsv", "json": "json", "jsonl": "json", "ndjson": "json"}
_PACKED = (".gz", ".zst")


class UnknownFormatError(FeedError):
    """Files have no format that DuckDB reads here, or several formats."""


def rows_of(files: Sequence[Path]) -> str | None:
    """A relation of all rows of these files, for FROM; None if none of them has columns.

    Values of CSV and JSON are text, nested ones as JSON. Files of CSV are read here, too, to see that they are in the
    dialect of feeds (`csv_dialect`). Raises UnknownFormatError, MalformedCsvError, and duckdb.Error.
    """
    formats = {_format(file) for file in files}
    if len(formats) > 1:
        raise UnknownFormatError(f"Files of several formats ({', '.join(sorted(formats))}) in one update.")
    kind = formats.pop() if formats else "parquet"
    if kind in SEPARATORS:
        from feed_assets.engine.csv_relations import csv_relation  # noqa: PLC0415 - loads DuckDB

        return csv_relation(files, kind)
    # An empty text file has no columns.
    paths = [str(file) for file in files if kind == "parquet" or file.stat().st_size]
    return _READERS[kind].replace("?", f"[{', '.join(map(literal, paths))}]") if paths else None


def require_columns(files: Sequence[Path], found: Collection[str], wanted: Collection[str]) -> None:
    """Raise MalformedCsvError if files of CSV with these columns, of which some are wanted, have another separator."""
    suffix = suffix_of(files[0].name)
    if suffix in SEPARATORS:
        require_separator(found, wanted, SEPARATORS[suffix], ", ".join(map(str, files)))


def quoted_name(name: str) -> str:
    """A name of a column or a table, with any characters, in the SQL of most databases."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def literal(text: str) -> str:
    """A text as a literal of standard SQL."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def suffix_of(name: str) -> str:
    """The suffix of a file's name in small letters, without its dot, and without that of a packed file."""
    return name.removesuffix(_PACKED[0]).removesuffix(_PACKED[1]).rpartition(".")[2].lower()


def _format(file: Path) -> str:
    suffix = suffix_of(file.name)
    if suffix not in _FORMATS:
        raise UnknownFormatError(
            f"{file} has another format. Formats are {', '.join(_FORMATS)}; all but parquet also as .gz or .zst."
        )
    return _FORMATS[suffix]
