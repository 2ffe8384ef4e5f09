"""The index of files that were taken, in a table of DynamoDB: for many pollers over many files.

Here: the table, its conditions, and rebuilding it. Not here: what the index means (`taken`). The blackboard has all of
it, too: it is written first, so the table never claims what has not landed, and can be made anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

import boto3
from boto3.dynamodb.conditions import Attr, ConditionBase, Key
from botocore.exceptions import BotoCoreError, ClientError

from feed_assets.blackboard import check_key
from feed_assets.errors import FeedAssetsError
from feed_assets.polling.port import PartnersFile
from feed_assets.polling.taken import (
    CLAIMED_FOR,
    LONGEST_CLAIM,
    POLLED,
    BlackboardIndex,
    Taken,
    TakenState,
    newest,
    state_of,
)
from feed_assets.sources.layout import LandingId, touching

if TYPE_CHECKING:
    from types_boto3_dynamodb.service_resource import Table

VARIABLE = "FEED_ASSETS_POLL_TABLE"

_SOURCE, _FILE = "polled_source", "partner_file"
_STATE, _LANDING, _GENERATION, _TAKEN_AT = "file_state", "landing", "generation", "taken_at"
_CLAIM, _UNTIL, _BY = "claimed_state", "claimed_until", "claimed_by"


class IndexTableError(FeedAssetsError):
    """The table cannot be used; the message says why."""


@dataclass(slots=True)
class DynamoDBIndex:
    """The index in a table: an item for each name and day of each source, with its newest landing, and its claim.

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

    def claim(self, source_key: str, file: PartnersFile, seen: Taken | None, *, now: datetime) -> bool:
        """See `TakenIndex.claim`: one conditional write. Raises InvalidKeyError for a name too long for the ledger."""
        check_key(f"{POLLED}{source_key}/{file.day}/{file.name}")
        state, moment, token = state_of(file), int(now.timestamp()), uuid4().hex
        free = Attr(_UNTIL).not_exists() | Attr(_UNTIL).lte(moment) | Attr(_CLAIM).ne(state)
        free |= Attr(_UNTIL).gt(moment + int(LONGEST_CLAIM.total_seconds()))
        free |= Attr(_BY).eq(token)  # the client sends it again if the answer was lost
        # Of an item without this attribute, no comparison holds but `ne`.
        as_seen: ConditionBase = Attr(_STATE).ne(state)
        if seen is not None:
            as_seen |= Attr(_GENERATION).lte(seen.landing.generation)
        values = {":state": state, ":until": moment + int(CLAIMED_FOR.total_seconds()), ":by": token}
        expression = f"SET {_CLAIM} = :state, {_UNTIL} = :until, {_BY} = :by"
        return self._update(source_key, file, expression, values, free & as_seen)

    def record(self, source_key: str, file: PartnersFile, landing: LandingId, *, now: datetime) -> None:
        """See `TakenIndex.record`: on the blackboard, and then one conditional write."""
        self.ledger.record(source_key, file, landing, now=now)
        values = _values(state_of(file), landing)
        assigned = ", ".join(f"{name} = :{name}" for name in values)
        self._update(
            source_key,
            file,
            f"SET {assigned}, {_TAKEN_AT} = :{_TAKEN_AT} REMOVE {_CLAIM}, {_UNTIL}, {_BY}",
            {f":{name}": value for name, value in {**values, _TAKEN_AT: now.isoformat()}.items()},
            Attr(_GENERATION).not_exists() | Attr(_GENERATION).lte(landing.generation),
        )

    def release(self, source_key: str, file: PartnersFile) -> None:
        """See `TakenIndex.release`."""
        self._update(source_key, file, f"REMOVE {_CLAIM}, {_UNTIL}, {_BY}", {}, Attr(_CLAIM).eq(state_of(file)))

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
            if landing is not None:  # else the item is only claimed
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

    def _update(
        self,
        source_key: str,
        file: PartnersFile,
        expression: str,
        values: Mapping[str, object],
        condition: ConditionBase,
    ) -> bool:
        """Whether the condition held, so that the item was changed."""
        given = {"ExpressionAttributeValues": dict(values)} if values else {}
        with self._explained():
            table = self._table()
            try:
                table.update_item(
                    Key={_SOURCE: self._source(source_key), _FILE: f"{file.day}/{file.name}"},
                    UpdateExpression=expression,
                    ConditionExpression=condition,
                    **given,  # type: ignore[arg-type]
                )
            except table.meta.client.exceptions.ConditionalCheckFailedException:
                return False
        return True

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
                f"The table {self.name} of DynamoDB ({VARIABLE}) cannot be used: {error}{advice}"
            ) from error


def _values(state: str, landing: LandingId) -> dict[str, str | int]:
    return {_STATE: state, _LANDING: str(landing), _GENERATION: landing.generation}
