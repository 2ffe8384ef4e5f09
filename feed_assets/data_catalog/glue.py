"""Requests to the Data Catalog of AWS Glue: tables with their partitions, in batches.

Here: the API of Glue, its limits, its errors and its settings. Not here: which tables there should be (`tables`), and
comparing (`reconciling`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import Field

from feed_assets.environment import Section
from feed_assets.errors import FeedAssetsError
from feed_assets.file_feed.digest import short_digest

if TYPE_CHECKING:
    from types_boto3_glue import GlueClient

_Item = TypeVar("_Item")

VARIABLE = "FEED_ASSETS_CATALOG"
"""The environment variable with the database of Glue, as `glue://database`."""

WRITTEN_AT_ONCE: Final = 100
DELETED_AT_ONCE: Final = 25
"""Limits of Glue for the partitions in a request."""

OWNER, DIGEST = "feed_assets.owner", "feed_assets.digest"
"""Parameters of tables and partitions: whose the table is, and a digest of all that is described here."""

_HIVE = "org.apache.hadoop.hive"
_TEXT = (f"{_HIVE}.ql.io.HiveIgnoreKeyTextOutputFormat", "org.apache.hadoop.mapred.TextInputFormat")
_FORMATS: Final[Mapping[str, tuple[str, str, str]]] = {
    "parquet": (
        f"{_HIVE}.ql.io.parquet.MapredParquetOutputFormat",
        f"{_HIVE}.ql.io.parquet.MapredParquetInputFormat",
        f"{_HIVE}.ql.io.parquet.serde.ParquetHiveSerDe",
    ),
    "csv": (*_TEXT, f"{_HIVE}.serde2.OpenCSVSerde"),
    "tsv": (*_TEXT, f"{_HIVE}.serde2.OpenCSVSerde"),
    "json": (*_TEXT, "org.openx.data.jsonserde.JsonSerDe"),
}
"""Format -> Hive's classes for output, input, and rows."""
_SEPARATORS: Final = {"csv": ",", "tsv": "\t"}
"""The separator of values, for the formats whose files begin with the names of their columns."""
_TRANSIENT = ("ThrottlingException", "InternalServiceException", "OperationTimeoutException", "ConcurrentModification")


class CatalogSettings(Section):
    """The catalog of this installation; `check_catalog` judges the value, for which it needs the base."""

    catalog: str = Field("", validation_alias=VARIABLE)
    """The database of AWS Glue that [describes feeds and raw data](../catalog.md): `glue://database`.

    Default: none.
    """


class CatalogError(FeedAssetsError):
    """The catalog cannot be used, or not for this; the message says what, where and what to do.

    If `transient`, the same request can succeed later without anybody's help.
    """

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: the values of its table's keys, its location, the format of its files, and facts about it."""

    values: tuple[str, ...]
    location: str
    format: str
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Table:
    """A table: columns with types of Hive, the keys of its partitions, and its owner: the URI of a feed or a source."""

    name: str
    columns: tuple[tuple[str, str], ...]
    keys: tuple[str, ...]
    location: str
    format: str
    owner: str
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Present:
    """A table or partition that Glue has: its location, its parameters, and the keys of a table's partitions."""

    location: str
    parameters: Mapping[str, str]
    keys: tuple[str, ...] = ()

    def is_as(self, location: str, digest: str) -> bool:
        """Whether it is at this location, with a description of this digest."""
        return self.location.rstrip("/") == location and self.parameters.get(DIGEST) == digest

    @property
    def owner(self) -> str | None:
        """The URI of the feed or of the raw data that a table belongs to; None if another program wrote it."""
        return self.parameters.get(OWNER)

    @property
    def partition(self) -> str | None:
        """The name of the partition, if this project wrote it."""
        return self.parameters.get("feed_assets.partition")

    @property
    def update(self) -> str | None:
        """The update that it was written for, if any."""
        return self.parameters.get("feed_assets.update")


class GlueCatalog:
    """A database of Glue. Nothing is requested before the first use; the database is created if it is not there."""

    def __init__(self, database: str, client_factory: Callable[[], GlueClient]) -> None:
        self.database = database
        self._client_factory = client_factory

    @property
    def title(self) -> str:
        """Its name, for messages."""
        return f"glue://{self.database}"

    def tables(self) -> dict[str, Present]:
        """All tables of the database by name, also those of other programs; none without a database."""
        with self._errors("glue:GetTables"), suppress(self._client.exceptions.EntityNotFoundException):
            pages = self._client.get_paginator("get_tables").paginate(DatabaseName=self.database)
            return {table["Name"]: _present(table) for page in pages for table in page["TableList"]}
        return {}

    def put_table(self, table: Table) -> None:
        """Create or replace the description of a table, and the database if there is none; partitions stay."""
        described: dict[str, Any] = {
            "Name": table.name,
            "TableType": "EXTERNAL_TABLE",
            "PartitionKeys": [{"Name": key, "Type": "string"} for key in table.keys],
            "StorageDescriptor": _storage(table.columns, table.location, table.format),
            "Parameters": {
                "EXTERNAL": "TRUE",
                "classification": table.format,
                OWNER: table.owner,
                DIGEST: table_digest(table),
                **_named(table.facts),
            },
        }
        with self._errors("glue:CreateDatabase, glue:CreateTable and glue:UpdateTable"):
            with suppress(self._client.exceptions.EntityNotFoundException):
                self._client.update_table(DatabaseName=self.database, TableInput=described)  # type: ignore[arg-type]  # a plain dict
                return
            with suppress(self._client.exceptions.AlreadyExistsException):
                self._client.create_database(DatabaseInput={"Name": self.database})
            with suppress(self._client.exceptions.AlreadyExistsException):
                self._client.create_table(DatabaseName=self.database, TableInput=described)  # type: ignore[arg-type]  # as above

    def partitions(self, table: str) -> dict[tuple[str, ...], Present]:
        """The partitions of a table by their values; none without a table. A request for each 1,000."""
        with self._errors("glue:GetPartitions"), suppress(self._client.exceptions.EntityNotFoundException):
            pages = self._client.get_paginator("get_partitions").paginate(
                DatabaseName=self.database, TableName=table, ExcludeColumnSchema=True
            )
            return {tuple(each["Values"]): _present(each) for page in pages for each in page["Partitions"]}
        return {}

    def put_partitions(self, table: Table, new: Sequence[Partition], changed: Sequence[Partition]) -> None:
        """Write partitions: `new` ones are created, `changed` ones replaced, also if another process was faster."""
        named = {"DatabaseName": self.database, "TableName": table.name}
        with self._errors("glue:BatchCreatePartition and glue:BatchUpdatePartition"):
            replaced = list(changed)
            for some in _batches(new, WRITTEN_AT_ONCE):
                inputs: Any = [_described(table, each) for each in some]
                answer = self._client.batch_create_partition(**named, PartitionInputList=inputs)
                there = _failed(answer, "PartitionValues", but="AlreadyExistsException")
                replaced += [each for each in some if each.values in there]
            for some in _batches(replaced, WRITTEN_AT_ONCE):
                entries: Any = [
                    {"PartitionValueList": each.values, "PartitionInput": _described(table, each)} for each in some
                ]
                # One that another process has deleted is left to the next comparison.
                _failed(
                    self._client.batch_update_partition(**named, Entries=entries),
                    "PartitionValueList",
                    but="EntityNotFoundException",
                )

    def delete_partitions(self, table: str, partitions: Sequence[Sequence[str]]) -> None:
        """Delete partitions that are still there; files stay."""
        with self._errors("glue:BatchDeletePartition"):
            for some in _batches(partitions, DELETED_AT_ONCE):
                answer = self._client.batch_delete_partition(
                    DatabaseName=self.database,
                    TableName=table,
                    PartitionsToDelete=[{"Values": list(each)} for each in some],
                )
                _failed(answer, "PartitionValues", but="EntityNotFoundException")

    @cached_property
    def _client(self) -> GlueClient:
        return self._client_factory()

    @contextmanager
    def _errors(self, right: str) -> Iterator[None]:
        """Errors of Glue and of the way there as CatalogError. `right` is what the user must be allowed to do."""
        try:
            yield
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code == "EntityNotFoundException":
                raise
            advice = f"Allow this user {right}" if "AccessDenied" in code else f"Check {VARIABLE} and the credentials"
            raise CatalogError(
                f"{self.title} does not answer as it should ({code}). {advice}.", transient=code.startswith(_TRANSIENT)
            ) from error
        except BotoCoreError as error:
            raise CatalogError(
                f"{self.title} cannot be reached ({type(error).__name__}). Check the network, AWS_DEFAULT_REGION and "
                "the credentials.",
                transient=True,
            ) from error


def check_catalog(url: str, base: str) -> str:
    """The database that FEED_ASSETS_CATALOG names. Raises CatalogError, also if the base is not in S3."""
    match = re.fullmatch(r"glue://([a-z0-9_]{1,255})", url)
    if match is None:
        raise CatalogError(f"{VARIABLE} is {url!r}; it takes glue://database, of lower case letters, digits and _.")
    if not base.startswith("s3://"):
        raise CatalogError(
            f"{VARIABLE} is set, and the data is in {base}: Glue describes data in S3. Unset {VARIABLE}."
        )
    return match[1]


def open_catalog(database: str) -> GlueCatalog:
    """A database of Glue with the client of the environment: credentials, region, and AWS_ENDPOINT_URL_GLUE if set."""

    def client() -> GlueClient:
        import boto3  # noqa: PLC0415 - slow to load

        try:
            return boto3.client("glue")
        except (BotoCoreError, ValueError) as error:
            # Not chained: the error may quote a URL with credentials.
            raise CatalogError(
                f"The settings for Glue cannot be used ({type(error).__name__}). Check AWS_PROFILE, AWS_DEFAULT_REGION "
                "and AWS_ENDPOINT_URL_GLUE."
            ) from None

    return GlueCatalog(database, client)


def _batches(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def table_digest(table: Table) -> str:
    """16 hex digits that change with anything in the description of a table."""
    return _digest([table.columns, table.keys, table.location, table.format, table.owner, dict(table.facts)])


def partition_digest(table: Table, partition: Partition) -> str:
    """16 hex digits that change with anything in the description of a partition."""
    return _digest([table.columns, partition.values, partition.location, partition.format, dict(partition.facts)])


def _digest(described: object) -> str:
    return short_digest(json.dumps(described, sort_keys=True))


def _named(facts: Mapping[str, str]) -> dict[str, str]:
    return {f"feed_assets.{name}": value for name, value in facts.items()}


def _present(found: Mapping[str, Any]) -> Present:
    return Present(
        location=found.get("StorageDescriptor", {}).get("Location", ""),
        parameters=found.get("Parameters") or {},
        keys=tuple(key["Name"] for key in found.get("PartitionKeys") or ()),
    )


def _described(table: Table, partition: Partition) -> dict[str, Any]:
    return {
        "Values": partition.values,
        "StorageDescriptor": _storage(table.columns, partition.location, partition.format),
        "Parameters": {DIGEST: partition_digest(table, partition), **_named(partition.facts)},
    }


def _storage(columns: Iterable[tuple[str, str]], location: str, format_: str) -> dict[str, Any]:
    output, input_, serde = _FORMATS[format_]
    separator = _SEPARATORS.get(format_)
    separated = {"separatorChar": separator} if separator else {}
    return {
        "Columns": [{"Name": name, "Type": type_} for name, type_ in columns],
        "Location": f"{location}/",
        "InputFormat": input_,
        "OutputFormat": output,
        "SerdeInfo": {"SerializationLibrary": serde, "Parameters": {"serialization.format": "1", **separated}},
        "Parameters": {"skip.header.line.count": "1"} if separator else {},
    }


def _failed(answer: Mapping[str, Any], values: str, *, but: str) -> set[tuple[str, ...]]:
    """The partitions that a batch left out because of the error `but`. Raises CatalogError for any other error."""
    found = set()
    for each in answer.get("Errors") or ():
        detail = each.get("ErrorDetail", {})
        code = detail.get("ErrorCode", "")
        if code != but:
            raise CatalogError(
                f"Glue refused the partition {'/'.join(each.get(values, ()))} ({code}: "
                f"{detail.get('ErrorMessage', '')}). Try again later.",
                transient=True,
            )
        found.add(tuple(each.get(values, ())))
    return found
