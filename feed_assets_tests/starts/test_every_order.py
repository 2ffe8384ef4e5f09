"""In every order of two daemons, their runs, crashes, deleted runs and a lost database, a slot is published once."""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from feed_assets.blackboard.port import Blackboard
from feed_assets.file_feed.claims import claim
from feed_assets.file_feed.control import StoredRecord
from feed_assets.file_feed.errors import StartTakenError
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.quarantine import publish_both
from feed_assets.file_feed.reading import latest
from feed_assets.file_feed.record import Facts, Record
from feed_assets.file_feed.staging import stage, staged_of
from feed_assets.file_feed.start_objects import START
from feed_assets.leases.port import Lease
from feed_assets.starts.attempt import Attempt, AttemptRefusedError, State
from feed_assets.starts.attempts import Wanted
from feed_assets_tests.starts.requesting import requested
from feed_assets_tests.starts.worlds import LOCATION, NOW, Access, Budget, Over, Phase, Search

FLOW = "clean_ads"
DAY, NEXT_DAY = "2019-11-27", "2019-11-28"

_current: list[Search] = []


@pytest.fixture(autouse=True)
def _the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # Programs are run again from their start for each access: what they draw must be the same each time.
    def drawn() -> SimpleNamespace:
        return SimpleNamespace(hex=_current[-1].actor)

    monkeypatch.setattr("feed_assets.file_feed.claims.uuid4", drawn)
    monkeypatch.setattr("feed_assets.leases.in_database.uuid4", drawn)
    # For the same reason a process remembers no manifest that it has read.
    monkeypatch.setattr("feed_assets.file_feed.reading.TICK", timedelta(days=36500))
    # The change log comes after each act, and nothing here reads it.
    for module in ("publishing", "withdrawal"):
        monkeypatch.setattr(f"feed_assets.file_feed.{module}.log_act", lambda *_, **__: None)


@pytest.fixture
def folder() -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


# --- a daemon ---------------------------------------------------------------------------------------------------------


def look(access: Access, _: None) -> Hashable:
    """What `Attempts.end_lost` does before its transaction."""
    return access.look(lambda attempts, known_run: tuple(attempts.known(known_run).items())) or ()


def end_lost(access: Access, known: tuple[Any, ...]) -> Hashable:
    access.attempts.end_lost(dict(known))
    return "ended"


def request(slots: tuple[str, ...]) -> Phase:
    def requests(access: Access, _: None) -> Hashable:
        answers = requested(access.attempts, *(Wanted(FLOW, slot, "inputs", most=100) for slot in slots))
        keys = tuple(each.key for each in answers if isinstance(each, Attempt))
        return keys or Over("nothing to start")

    return requests


def launch(access: Access, keys: tuple[str, ...]) -> Hashable:
    for key in keys:
        access.launch(key)
    return "launched"


# --- a run ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Taken:
    """What a run has after its start."""

    key: str
    slot: str
    lease: Lease | None = None
    failed: bool = False


def take(access: Access, key: str) -> Hashable:
    try:
        running = access.attempts.start([key], run=access.actor, root=access.actor)
    except AttemptRefusedError:
        return Over("refused")
    ((place, lease),) = running.leases.items()
    return Taken(key, place[1], lease)


def publishes(*, fenced: bool) -> Phase:
    """Write and stage an update, and publish it."""

    def publish(access: Access, taken: Taken) -> Hashable:
        def staged(board: Blackboard) -> Hashable:
            claimed = claim(Feed(board, LOCATION), taken.slot, now=NOW, owner=access.actor)
            made = stage(claimed, (), Facts(details={START: ""} if fenced else {}), now=NOW)
            return made.record.to_json(), made.key, made.tag

        record, key, tag = access.atomic("writes and stages an update", staged)
        if fenced and access.may_fail():
            return replace(taken, failed=True)
        stored = StoredRecord(Record.from_json(record, origin=key), key, tag)
        with suppress(StartTakenError):  # the other one is published
            publish_both(staged_of(Feed(access.board, LOCATION), stored), now=NOW)
        return taken

    return publish


def end(access: Access, taken: Taken) -> Hashable:
    state = State.FAILED if taken.failed else State.PUBLISHED
    access.attempts.end(taken.key, state, lease=taken.lease)
    return state


RIGHT = (take, publishes(fenced=True), end)


def search(
    folder: Path,
    run: tuple[Phase, ...] = RIGHT,
    slots: tuple[str, ...] = (DAY,),
    daemon: tuple[tuple[Phase, ...], ...] | None = None,
    **options: Any,
) -> Search:
    made = Search(
        folder, daemon=daemon or ((look, end_lost), (request(slots), launch)), run=run, slots=slots, **options
    )
    _current[:] = [made]
    return made


ONE = {"daemons": 1}
HISTORIES: dict[str, tuple[Budget, dict[str, Any]]] = {
    "two daemons, and a person deletes a run": (Budget(deletions=1), {}),
    "two daemons that die or are slow": (Budget(daemon_deaths=1, slow_daemons=1), {}),
    "a process stands still, and a person deletes its run": (Budget(standstills=1, deletions=1), ONE),
    "a run fails, and a process is killed": (Budget(failures=1, run_deaths=1), ONE),
    "the database is lost": (Budget(losses=1), {}),
    "two slots and a pool with one place": (Budget(deletions=1), {**ONE, "slots": (DAY, NEXT_DAY), "pool": 1}),
}


@pytest.mark.parametrize(("budget", "options"), HISTORIES.values(), ids=HISTORIES)
def test_a_slot_is_published_once_and_can_be_from_every_state(
    folder: Path, budget: Budget, options: dict[str, Any]
) -> None:
    searched = search(folder, **options)
    found = searched.explore(budget)

    assert found.twice is None, "\n".join(found.twice)
    stuck = searched.stuck(found)
    assert stuck is None, "\n".join(found.way(stuck))
    assert searched.most_runs < 6  # else the search left something out
    if not (budget.standstills or budget.losses):
        assert found.most_at_work == 1


# --- mistakes ---------------------------------------------------------------------------------------------------------


def test_attempts_and_leases_without_the_object_publish_twice(folder: Path) -> None:
    found = search(folder, (take, publishes(fenced=False), end), daemons=1).explore(Budget(standstills=1, deletions=1))
    assert found.twice is not None


def check_then(access: Access, taken: Taken) -> Hashable:
    """Go on only if the attempt is the newest: a check in the database, not decided by storage."""
    newest = access.attempts.newest(FLOW, [taken.slot])[taken.slot]
    return taken if newest.key == taken.key and newest.alive else Over("it is not the newest")


def test_a_check_in_the_database_before_the_manifest_publishes_twice(folder: Path) -> None:
    run = (take, check_then, publishes(fenced=False), end)
    found = search(folder, run, daemons=1).explore(Budget(standstills=1, deletions=1))
    assert found.twice is not None


def due(access: Access, _: None) -> Hashable:
    """Whether the slot is not published yet."""

    def is_due(board: Blackboard) -> bool:
        return latest(Feed(board, LOCATION), DAY, now=NOW + timedelta(days=1)) is None

    return (f"key:{FLOW}:{DAY}",) if access.atomic("looks at the slot", is_due) else Over("published")


def begin(_: Access, key: str) -> Hashable:
    return Taken(key, DAY)


def test_a_run_key_alone_publishes_twice(folder: Path) -> None:
    run = (begin, publishes(fenced=False))
    found = search(folder, run, daemon=((due, launch),)).explore(Budget(deletions=1))
    assert found.twice is not None
    assert any("a person deletes run 0 (started)" in step for step in found.twice)
