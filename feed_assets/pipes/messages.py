"""The messages of a job: where Pipes keeps them, and Dagster's metadata as Pipes sends it.

Not here: the meaning of the messages.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any, Final

import dagster as dg
from dagster_aws.pipes import PipesS3MessageReader
from dagster_pipes import PipesDefaultMessageWriter, PipesMetadataValue, PipesOpenedData, PipesParams

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.location import local_directory
from feed_assets.resources.storage import BlackboardResource, s3_client

FOLDER = ".pipes"
"""Messages are below it in the base: no name of a feed begins with a dot."""

INTERVAL_SECONDS: Final = 5
"""Between two readings of a bucket."""

_FILE_INTERVAL_SECONDS: Final = 0.05

_KINDS: Final = {
    dg.BoolMetadataValue: "bool",
    dg.FloatMetadataValue: "float",
    dg.IntMetadataValue: "int",
    dg.JsonMetadataValue: "json",
    dg.MarkdownMetadataValue: "md",
    dg.PathMetadataValue: "path",
    dg.TableColumnLineageMetadataValue: "table_column_lineage",
    dg.TableMetadataValue: "table",
    dg.TimestampMetadataValue: "timestamp",
    dg.UrlMetadataValue: "url",
}


class Messages(dg.PipesMessageReader):
    """The messages of one job: in the base if it is in a bucket, else in a temporary file. They are deleted at the end.

    `heard` has what was read; None before. It is kept as a client of dagster-aws that raises an error returns nothing.
    """

    def __init__(self, blackboard: BlackboardResource, run_id: str) -> None:
        self.heard: dg.PipesMessageHandler | None = None
        in_bucket = local_directory(blackboard.base) is None
        self._reader: dg.PipesMessageReader = (
            _BucketReader(blackboard, f"{FOLDER}/{run_id}/") if in_bucket else _FileReader()
        )

    @contextmanager
    def read_messages(self, handler: dg.PipesMessageHandler) -> Iterator[PipesParams]:
        """See PipesMessageReader."""
        self.heard = handler
        with self._reader.read_messages(handler) as params:
            yield params

    def on_opened(self, opened_payload: PipesOpenedData) -> None:
        """See PipesMessageReader."""
        self._reader.on_opened(opened_payload)

    def no_messages_debug_text(self) -> str:
        """See PipesMessageReader."""
        return self._reader.no_messages_debug_text()


class _FileReader(dg.PipesMessageReader):
    """Reads a temporary file while a job writes it.

    Dagster's reader loses a message that is written in two parts, as large ones are, and may miss the last ones.
    """

    @contextmanager
    def read_messages(self, handler: dg.PipesMessageHandler) -> Iterator[PipesParams]:
        """See PipesMessageReader."""
        ended = Event()
        with TemporaryDirectory() as folder:
            path = Path(folder, "messages")
            path.touch()
            thread = Thread(target=self._read, args=(path, handler, ended), daemon=True)
            thread.start()
            try:
                yield {PipesDefaultMessageWriter.FILE_PATH_KEY: str(path)}
            finally:
                ended.set()
                thread.join()

    def _read(self, path: Path, handler: dg.PipesMessageHandler, ended: Event) -> None:
        try:
            for line in _lines(path, ended):
                handler.handle_message(json.loads(line))
        except Exception:
            handler.report_pipes_framework_exception("Reading the messages of a job", sys.exc_info())
            raise

    def no_messages_debug_text(self) -> str:
        """See PipesMessageReader."""
        return "Attempted to read messages from a temporary file."


def _lines(path: Path, ended: Event) -> Iterator[bytes]:
    """Each complete line of a file that grows until `ended` is set."""
    with path.open("rb") as file:
        last, line = False, b""
        while not last:
            # Asked before the reading: so the last reading has all that the job wrote before it ended.
            last = ended.is_set()
            while part := file.readline():
                line += part
                if line.endswith(b"\n"):
                    yield line
                    line = b""
            ended.wait(_FILE_INTERVAL_SECONDS)


class _BucketReader(PipesS3MessageReader):
    """Dagster's reader, with its messages in a folder of the blackboard and not at the top of the bucket."""

    def __init__(self, blackboard: BlackboardResource, folder: str) -> None:
        self._board, self._folder = blackboard.blackboard, folder
        bucket, _, self._prefix = self._board.uri(folder).removeprefix("s3://").partition("/")
        super().__init__(bucket=bucket, client=s3_client(), interval=INTERVAL_SECONDS)

    @contextmanager
    def get_params(self) -> Iterator[PipesParams]:
        with super().get_params() as params:
            # Its name is random. Other steps of the run have others.
            own = params["key_prefix"]
            try:
                yield {**params, "key_prefix": f"{self._prefix}{own}"}
            finally:
                self._board.delete(*(entry.key for entry in list_all(self._board, f"{self._folder}{own}/")))


def pipes_metadata(metadata: Mapping[str, dg.MetadataValue[Any]]) -> dict[str, PipesMetadataValue]:
    """Metadata of an event as Pipes sends it. Values for which Pipes has no type are sent as text."""
    return {name: _pipes_value(value) for name, value in metadata.items()}


def _pipes_value(value: dg.MetadataValue[Any]) -> Any:
    kind, raw = _KINDS.get(type(value), "text"), value.value
    if isinstance(value, dg.TableMetadataValue):
        columns = [{"name": column.name, "type": column.type} for column in value.schema.columns]
        raw = {"records": [dict(record.data) for record in value.records], "schema": columns}
    elif isinstance(value, dg.TableColumnLineageMetadataValue):
        raw = {
            "deps_by_column": {
                column: [{"asset_key": list(dep.asset_key.path), "column_name": dep.column_name} for dep in deps]
                for column, deps in value.column_lineage.deps_by_column.items()
            }
        }
    return {"type": kind, "raw_value": str(raw) if kind == "text" else raw}
