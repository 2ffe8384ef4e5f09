"""The index of files that were taken, in a table of DynamoDB: for many pollers over many files.

Here: the table, its conditions, and rebuilding it. Not here: what the index means (`taken`). The blackboard has all of
it, too: it is written first, so the table never claims what has not landed, and can be made anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING

import boto3
from boto3.dynamodb.conditions import Attr, Key
from botocore.exceptions import BotoCoreError, ClientError

from feed_assets.errors import FeedAssetsError
from feed_assets.polling.port import PartnersFile
from feed_assets.polling.settings import POLL_TABLE
from feed_assets.polling.taken import POLLED, BlackboardIndex, Taken, TakenState, newest, state_of
from feed_assets.sources.layout import LandingId, touching

if TYPE_CHECKING:
    from types_boto3_dynamodb.service_resource import Table

_SOURCE, _FILE = "polled_source", "partner_file"
_STATE, _LANDING, _GENERATION, _TAKEN_AT = "file_state", "landing", "generation", "taken_at"


class IndexTableError(FeedAssetsError):
    """The table cannot be used; the message says why."""


@dataclass(slots=True)
class DynamoDBIndex:
    """The index in a table: an item for each name and day of each source, with its newest landing.

    All methods raise IndexTableError. The name of a source in the table has the URI of its blackboard, so that several
    installations can share a table. The client is boto3's, as the environment configures it.
    """

    ledger: BlackboardIndex
    name: str
    _opened: Table | None = field(default=None, repr=False)

    def taken(self, source_key: str, first: date) -> Mapping[str, Taken]:
        """See `TakenIndex.taken`: a query of these days, a request for each MB."""
        with self._explained():
            return newest(self._states(self._table(), source_key, first))

    def newest(self, source_key: str, file: PartnersFile) -> Taken | None:
        """See `TakenIndex.newest`: one consistent read."""
        with self._explained():
            item = self._table().get_item(Key=self._key(source_key, file), ConsistentRead=True).get("Item")
        landing = touching(str(item.get(_LANDING, ""))) if item else None
        return Taken(landing, frozenset({str(item[_STATE])})) if item and landing else None

    def record(self, source_key: str, file: PartnersFile, landing: LandingId, *, now: datetime) -> None:
        """See `TakenIndex.record`: on the blackboard, and then one conditional write."""
        self.ledger.record(source_key, file, landing, now=now)
        values = _values(state_of(file), landing) | {_TAKEN_AT: now.isoformat()}
        with self._explained():
            table = self._table()
            with suppress(table.meta.client.exceptions.ConditionalCheckFailedException):  # a newer one is noted
                table.update_item(
                    Key=self._key(source_key, file),
                    UpdateExpression="SET " + ", ".join(f"{name} = :{name}" for name in values),
                    ConditionExpression=Attr(_GENERATION).not_exists() | Attr(_GENERATION).lte(landing.generation),
                    ExpressionAttributeValues={f":{name}": value for name, value in values.items()},
                )

    def rebuild(self, source_key: str) -> int:
        """Make the items of a source anew from the blackboard, and the table if it is missing; returns their number.

        A poll at the same time may download a file once more.
        """
        with self._explained():
            table, source = self._existing_table(), self._source(source_key)
            by_day: dict[str, list[TakenState]] = {}
            for state in self.ledger.states(source_key):
                by_day.setdefault(state.day, []).append(state)
            wanted = {
                f"{day}/{name}": _values(min(taken.states), taken.landing)
                for day, states in by_day.items()
                for name, taken in newest(states).items()
            }
            with table.batch_writer() as batch:
                for item in self._items(table, source_key, ""):
                    if item[_FILE] not in wanted:
                        batch.delete_item(Key={_SOURCE: source, _FILE: item[_FILE]})
                for file, values in wanted.items():
                    batch.put_item(Item={_SOURCE: source, _FILE: file, **values})
            return len(wanted)

    def _states(self, table: Table, source_key: str, first: date) -> Iterator[TakenState]:
        for item in self._items(table, source_key, str(first)):
            landing = touching(item.get(_LANDING, ""))
            if landing is not None:  # else an earlier version has only claimed it
                day, _, name = item[_FILE].partition("/")
                yield TakenState(day, name, item[_STATE], landing)

    def _items(self, table: Table, source_key: str, first: str) -> Iterator[Mapping[str, str]]:
        wanted = Key(_SOURCE).eq(self._source(source_key)) & Key(_FILE).gte(first or "0")
        start: dict[str, dict[str, str]] = {}
        while True:
            page = table.query(KeyConditionExpression=wanted, ConsistentRead=True, **start)  # type: ignore[arg-type]
            yield from page["Items"]  # type: ignore[misc]
            if "LastEvaluatedKey" not in page:
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}  # type: ignore[dict-item]

    def _key(self, source_key: str, file: PartnersFile) -> dict[str, str]:
        return {_SOURCE: self._source(source_key), _FILE: f"{file.day}/{file.name}"}

    def _source(self, source_key: str) -> str:
        return self.ledger.blackboard.uri(f"{POLLED}{source_key}")

    def _table(self) -> Table:
        if self._opened is None:
            self._opened = boto3.resource("dynamodb").Table(self.name)
        return self._opened

    def _existing_table(self) -> Table:
        resource, table = boto3.resource("dynamodb"), self._table()
        try:
            table.load()
        except resource.meta.client.exceptions.ResourceNotFoundException:
            table = resource.create_table(
                TableName=self.name,
                KeySchema=[
                    {"AttributeName": _SOURCE, "KeyType": "HASH"},
                    {"AttributeName": _FILE, "KeyType": "RANGE"},
                ],
                AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in (_SOURCE, _FILE)],
                BillingMode="PAY_PER_REQUEST",
            )
            table.wait_until_exists()
        return table

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (ClientError, BotoCoreError) as error:
            missing = "ResourceNotFoundException" in str(error)
            advice = ". Make it with `feed-assets poll reindex`" if missing else ""
            raise IndexTableError(
                f"The table {self.name} of DynamoDB ({POLL_TABLE}) cannot be used: {error}{advice}"
            ) from error


def _values(state: str, landing: LandingId) -> dict[str, str | int]:
    return {_STATE: state, _LANDING: str(landing), _GENERATION: landing.generation}
