"""The files of an update for DuckDB. Not here: fetching them (`fetched_files`), and queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from feed_assets.engine.csv_dialect import MalformedCsvError
from feed_assets.engine.fetched_files import fetch_update, with_uris
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.feed import Update
from feed_assets.file_feed.wording import first_line


@contextmanager
def local_files(update: Update) -> Iterator[list[str]]:
    """Paths of the update's files on this machine, as long as the block runs. Files of a bucket are fetched.

    For DuckDB, pandas or Polars. An error of DuckDB becomes a FeedError that names the files and says what to do.
    Raises NotFoundError if a file is gone or has changed.
    """
    with TemporaryDirectory() as folder:
        uris = fetch_update(update, Path(folder) / "files")
        try:
            yield [str(path) for path in uris]
        except MalformedCsvError as error:
            raise MalformedCsvError(with_uris(str(error), uris)) from error
        except duckdb.Error as error:
            named = f"{update.feed.arguments(update.partition)} --update {update.name}"
            raise FeedError(
                f"The files of {update.uri} cannot be read: {with_uris(first_line(error), uris)} "
                f"`feed-assets feed files {named}` lists them; "
                f"`feed-assets feed invalidate {named} --reason TEXT` takes them out of force."
            ) from error
