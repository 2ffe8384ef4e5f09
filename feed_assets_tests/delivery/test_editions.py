"""Runners that begin, resume and end editions in every order, while updates come and go: the store ends right.

The real code of the ledger and of beginnings runs, request by request. What is staged is a dictionary here, and a
record of the stream is an object under `stream/`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, BlackboardError
from feed_assets.delivery import delivering, ledger
from feed_assets.delivery.delivering import Deliverer, Delivery
from feed_assets.delivery.destination import Destination
from feed_assets.delivery.errors import AbandonedError, DeliveryError
from feed_assets.delivery.ledger import Begun, Edition, Ended, StagedFile
from feed_assets.delivery.staging import Comparison, Staged
from feed_assets.file_feed import Feed, FeedError, Update
from feed_assets_tests.blackboard.interleavings import Actor, Reached, ViolationError, explore

LOCATION, DAY = "prices/v1.0", "2019-11-24"
BEGINNING = datetime(2026, 11, 1, tzinfo=UTC)
ROWS: Mapping[str, Mapping[str, int]] = {
    "20261101.000000": {"tea": 1, "milk": 1},
    "20261101.000100": {"tea": 2, "salt": 2},
    "20261101.000200": {"tea": 1, "milk": 3},
}
OLD, NEW, NEWEST = ROWS
TO = Destination.model_validate(
    {"name": "d", "feed": LOCATION, "stream": "local://d", "key": ["product"], "columns": ["product", "price"]}
)


@dataclass(frozen=True, slots=True)
class Runner(Deliverer):
    """A deliverer to a stream of objects."""

    def _staged(self, comparison: Comparison, *_: object) -> Staged:
        new = ROWS[comparison.update.name] if comparison.update else {}
        base = ROWS[comparison.base.name] if comparison.base else {}
        gone = {key for each in comparison.gone for key in ROWS[each.name]} - set(new)
        changes: dict[str, int | None] = {key: price for key, price in new.items() if base.get(key) != price}
        changes |= dict.fromkeys(gone)
        return Staged((StagedFile(json.dumps(changes), len(changes)),), len(changes) - len(gone), len(gone))

    def _send(self, begun: Begun) -> Delivery:
        for key, price in sorted(json.loads(begun.files[0].key).items()):
            put(self.feed.blackboard, begun.edition, key, price)
        ended = self.ledger.end(begun, Ended(outcome="delivered", at=BEGINNING))
        if ended.outcome == "abandoned":
            raise AbandonedError("abandoned")
        self._release(begun)
        return Delivery(begun, ended)


def put(board: Blackboard, edition: int, key: str, price: int | None) -> None:
    with suppress(AlreadyExistsError):
        board.create(f"stream/{edition:012}/{key}", json.dumps(price).encode())


def deliver(seconds: int) -> Callable[[Blackboard], Hashable]:
    """A runner whose clock shows this second."""

    def program(board: Blackboard) -> Hashable:
        found = Runner(Feed(board, LOCATION), TO, Path(), lambda: BEGINNING + timedelta(seconds=seconds)).deliver(DAY)
        return found.begun.edition if found else None

    return program


def complete(update: str) -> Callable[[Blackboard], Hashable]:
    """A publisher that writes the manifest of an update whose file is there."""

    def program(board: Blackboard) -> Hashable:
        board.create(f"{LOCATION}/{DAY}/{update}/_SUCCESS", b"1")
        return update

    return program


def invalidate(update: str) -> Callable[[Blackboard], Hashable]:
    def program(board: Blackboard) -> Hashable:
        key = f"{LOCATION}/{DAY}/{update}/_SUCCESS"
        board.replace(key, b"-2", tag=board.read(key).entry.tag)
        return update

    return program


def before(*complete_updates: str, delivered: bool = True) -> Mapping[str, bytes]:
    """A base with the files of all updates, of which these have a manifest, and the first was delivered."""
    board = MemoryBlackboard()
    for each in ROWS:
        board.create(f"{LOCATION}/{DAY}/{each}/part-0.parquet", b"")
    for number, each in enumerate(complete_updates):
        complete(each)(board)
        if number == 0 and delivered:
            deliver(10)(board)
    return board.objects()


def ends_right(reached: Reached) -> None:
    """Whoever comes last makes the store equal to what is in force."""
    board = MemoryBlackboard(dict(reached.objects))
    for seconds in range(10_000, 10_010):
        if deliver(seconds)(board) is None:
            break
    else:
        raise AssertionError("it is never delivered")
    values: dict[str, int | None] = {}
    for key in sorted(key for key in board.objects() if key.startswith("stream/")):
        values[key.rpartition("/")[2]] = json.loads(board.objects()[key])
    valid = [each for each in ROWS if board.objects().get(f"{LOCATION}/{DAY}/{each}/_SUCCESS") == b"1"]
    expected = ROWS[valid[-1]] if valid else {}
    assert {key: price for key, price in values.items() if price is not None} == expected


EXPECTED = (DeliveryError, FeedError, BlackboardError)


class Forgetful(dict[Any, Any]):
    """A cache that keeps nothing: a program is run again from its start for each further request."""

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


@pytest.fixture(autouse=True)
def _as_programs_that_are_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_known", Forgetful())
    monkeypatch.setattr(delivering, "ATTEMPTS", 2)
    # Pins only keep files from retention, and nothing is removed here: each further request multiplies the states.
    monkeypatch.setattr(delivering, "pin", lambda *_, **__: None)
    monkeypatch.setattr(Runner, "_release", lambda *_: None)


TWO = (Actor("a", deliver(20), may_crash=True), Actor("b", deliver(21)))
PUBLISHER = Actor("publisher", complete(NEW))


@pytest.mark.parametrize(
    ("objects", "actors"),
    [
        pytest.param(before(OLD, NEW), TWO, id="two begin"),
        pytest.param(before(OLD, NEW, delivered=False), TWO, id="nothing before"),
        pytest.param(before(OLD), (*TWO, PUBLISHER), id="an update comes"),
        pytest.param(before(OLD, NEW), (TWO[0], Actor("o", invalidate(NEW))), id="the update is invalidated"),
        pytest.param(before(OLD), (*TWO, Actor("o", invalidate(OLD))), id="nothing valid is left"),
    ],
)
def test_in_every_order_the_last_delivery_makes_the_store_what_is_in_force(
    objects: Mapping[str, bytes], actors: tuple[Actor, ...]
) -> None:
    found = explore(objects, actors, check=ends_right, expected=EXPECTED)

    assert len(found) > 100


def resume_any(self: Deliverer, editions: Sequence[Edition], _: Update | None) -> Begun | None:
    return next((self.ledger.began(each) for each in editions if not each.has_ended), None)


@pytest.mark.parametrize(
    ("rule", "broken", "third"),
    [
        ("_is_beside_another", lambda *_: False, Actor("publisher", complete(NEWEST))),
        ("_sends_all", lambda *_: False, Actor("operator", invalidate(NEW))),
        ("_resumable", resume_any, Actor("publisher", complete(NEWEST))),
    ],
)
def test_without_a_rule_the_store_ends_wrong_in_some_order(
    rule: str, broken: Callable[..., object], third: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deliverer, rule, broken)

    with pytest.raises(ViolationError):
        explore(before(OLD, NEW), (*TWO, third), check=ends_right, expected=EXPECTED)
