"""Masters and candidates that share a workflow, for searches through the orders of their requests.

Here: the programs, where they begin, what must hold, and mistakes that a search must find. Each master writes into
storage what it remembers and what it acknowledges, so that a check of storage sees both, also of who was killed. Not
here: the searches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from threading import local
from types import SimpleNamespace
from unittest.mock import patch

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, UnavailableError
from feed_assets.journal import numbered
from feed_assets.journal.numbered import NumberedEntries
from feed_assets.workflow import epochs, reigns, snapshots
from feed_assets.workflow.entries import checksum
from feed_assets.workflow.epochs import Heart, newest_epoch, own_address
from feed_assets.workflow.errors import JournalDamagedError
from feed_assets.workflow.history import Cursor
from feed_assets.workflow.places import Place
from feed_assets.workflow.reigns import Candidate, Patience, Reign, take_over
from feed_assets.workflow.snapshots import Load, snapshot_once, truncate
from feed_assets_tests.blackboard.replay import Failed
from feed_assets_tests.workflow.states import Mutations

TOKEN = "00112233445566778899aabbccddeeff"
_running = local()
_truncated = truncate


def place_on(board: Blackboard) -> Place:
    return Place(board, "revenue", TOKEN)


def _patience() -> Patience:
    return Patience(lambda: 0.0, lambda _: None)


def _serve(place: Place, reign: Reign, state: Mutations, plan: str) -> None:
    """Do what the plan says: `w` writes a mutation, `s` makes a snapshot and truncates, `r` resigns."""
    for at, act in enumerate(plan):
        if act == "w":
            mutation = f"{_running.name}{at}".encode()
            reign.append(state.position + 1, [mutation])
            state.replay(mutation)
            acknowledge(place, reign.epoch, mutation)
        elif act == "s":
            made = snapshot_once(place, Mutations)
            if made is not None:
                _truncated(place, made, epoch=reign.epoch)
        else:
            reign.resign()


def acknowledge(place: Place, epoch: int, mutation: bytes) -> None:
    key = f"acknowledged/{epoch}-{mutation.decode()}"
    try:
        place.board.create(key, b"")
    except (AlreadyExistsError, UnavailableError):
        return  # an answer that the test itself has lost


def remember(place: Place, epoch: int, state: Mutations) -> None:
    try:
        place.board.create(f"memory/{epoch}", state.dump())
    except (AlreadyExistsError, UnavailableError):
        return


def candidate(name: str, plan: str, board: Blackboard) -> int:
    """Takes over, at any time that the search chooses, and serves."""
    _running.name = name
    place = place_on(board)
    reign, state = take_over(
        place,
        Mutations,
        address=name,
        failover_after=0,
        clock=lambda: 0.0,
        sleep=lambda _: None,
        start_heart=lambda _: None,
    )
    remember(place, reign.epoch, state)
    _serve(place, reign, state, plan)
    return reign.epoch


def late_reader(name: str, plan: str, board: Blackboard) -> int:
    """A mistaken candidate, which creates its epoch after it has read."""
    _running.name = name
    place = place_on(board)
    each = _candidate(place, name)
    each._address = own_address(newest_epoch(place) + 1, name, name)
    end = each.sealed()
    state, cursor = each.replayed(end)
    epoch = each.claimed(0)
    reign = each.started(end, state.position, cursor, Heart(place, epoch, 1))
    remember(place, epoch, state)
    _serve(place, reign, state, plan)
    return epoch


def _candidate(place: Place, name: str) -> Candidate[Mutations]:
    load: Load[Mutations] = Mutations
    return Candidate(
        place, load, address=name, stop=SimpleNamespace(is_set=lambda: False), said=lambda _: None, patience=_patience()
    )


def master(plan: str, stored: Mapping[str, bytes], board: Blackboard) -> int:
    """The master of epoch 1, which has stood still in the middle of its reign, and goes on when the search chooses."""
    _running.name = "a"
    place = place_on(board)
    objects = NumberedEntries(MemoryBlackboard(stored), place.journal(1).prefix).listed()
    last = max(objects, key=lambda each: each.key).key
    state = Mutations(stored["memory/now"])
    cursor = Cursor(1, int(last.rpartition("/")[2]), checksum(stored[last]))
    reign = Reign(place, own_address(1, "a", "a".zfill(32)), cursor, state.position, Heart(place, 1, 1), _patience())
    _serve(place, reign, state, plan)
    return 1


def begun(plan: str = "wsw") -> dict[str, bytes]:
    """Storage in the middle of the first reign, after this plan. It has a snapshot, so that a second one deletes."""
    board = MemoryBlackboard()
    with ordered():
        candidate("first", plan, board)
    there = snapshots.listed(place_on(board))
    state, cursor, _ = snapshots.load_newest(place_on(board), Mutations, there)
    snapshots.follow(place_on(board), state, cursor)
    return {**board.objects(), "memory/now": state.dump()}


@contextmanager
def ordered() -> Iterator[None]:
    """Let each program be a function of what storage answers."""

    def named(_: int) -> str:
        return _running.name.zfill(32)

    with (
        patch.object(reigns, "secrets", SimpleNamespace(token_hex=named)),
        # One request at a time: a pool of one thread would read in the same order, at the cost of a thread each time.
        patch.object(numbered, "_AT_ONCE", 1),
        patch.object(numbered, "ThreadPoolExecutor", lambda _: nullcontext(SimpleNamespace(map=map))),
        # All programs are this process, which lives: asked once, not in each of ten thousand runs.
        patch.object(epochs, "this_process", cache(epochs.this_process)),
        patch.object(epochs, "is_dead", cache(epochs.is_dead)),
        # When a candidate stops waiting is the search's choice.
        patch.object(Candidate, "waited", lambda self, _: newest_epoch(self._place)),
    ):
        yield


def faults_of(objects: Mapping[str, bytes], results: Mapping[str, object]) -> list[str]:
    """What is wrong in this state."""
    memories = {
        int(key.removeprefix("memory/")): json.loads(data)
        for key, data in objects.items()
        if key.startswith("memory/") and key != "memory/now"
    }
    found = [
        f"{name} takes the journal for damaged: {result.message}"
        for name, result in results.items()
        if isinstance(result, Failed) and issubclass(result.kind, JournalDamagedError)
    ]
    for key in objects:
        if key.startswith("acknowledged/"):
            epoch, _, mutation = key.removeprefix("acknowledged/").partition("-")
            found += [
                f"{mutation} was acknowledged in epoch {epoch}, and epoch {later} does not know it"
                for later, memory in memories.items()
                if later > int(epoch) and mutation not in memory
            ]
    for epoch, memory in memories.items():
        for later, longer in memories.items():
            if later > epoch and longer[: len(memory)] != memory:
                found.append(f"epochs {epoch} and {later} remember different histories")
            if len(set(memory)) != len(memory):
                found.append(f"epoch {epoch} remembers a mutation twice")
    return found


def check(reached) -> None:
    found = faults_of(reached.objects, reached.results)
    assert not found, found[0]


def _store_guessing(self, entry) -> None:
    """A mistaken master, which takes a lost answer for a refusal, and writes the same under the next number."""
    data = reigns.encode(entry)
    try:
        self._place.journal(self.epoch).append(entry.number, data)
    except reigns.UndecidedError:
        entry = reigns.Entry(
            entry.format,
            entry.token,
            entry.epoch,
            entry.number + 1,
            entry.position,
            entry.nonce,
            checksum(data),
            None,
            entry.mutations,
        )
        _store_guessing(self, entry)
        return
    except reigns.FencedError as error:
        raise reigns.SupersededError(str(error)) from error
    self._last = Cursor(self.epoch, entry.number, checksum(data))


def _append_later(append: Callable[..., None], self, first_position: int, mutations) -> None:
    """A mistaken master, which answers before its entry is stored."""
    acknowledge(self._place, self.epoch, mutations[0])
    append(self, first_position, mutations)


def _delete_seals(delete: Callable[..., int], place: Place, made, *, epoch: int) -> int:
    """A mistaken truncation, which deletes past epochs whole."""
    deleted = delete(place, made, epoch=epoch)
    past = [each.key for number in range(1, epoch) for each in place.journal(number).listed()]
    place.board.delete(*past)
    return deleted + len(past)


def _nothing_behind(self, epoch: int) -> int:
    """A mistaken candidate, which does not look behind its seal."""
    journal = self._place.journal(epoch)
    return self._decided(lambda: journal.seal(reigns._seal_of(self._address.epoch)))


def truncate_early(place: Place, made: snapshots.Made, *, epoch: int) -> int:
    """Deletes what the newest snapshot covers, with no second one: not a mistake, as long as the other rules hold."""
    return truncate(place, replace(made, before=made.newest), epoch=epoch)


def _all_but_seals(objects):
    return [each for each in objects if each.size > snapshots._LARGEST_SEAL]


def mistakes() -> dict[str, list]:
    """Patches that switch a rule off."""
    here = f"{__name__}._truncated"
    no_look = partial(patch.object, snapshots, "_look", lambda *_: None)
    return {
        "seals are deleted": [partial(patch, here, partial(_delete_seals, truncate))],
        "deleted without a look, and the seal not looked behind": [
            no_look,
            partial(patch.object, Candidate, "_sealed", _nothing_behind),
        ],
        "the newest entry is deleted": [
            partial(patch, f"{__name__}._truncated", truncate_early),
            partial(patch.object, snapshots, "_deletable", _all_but_seals),
        ],
        "a lost answer is taken for a refusal": [partial(patch.object, Reign, "_store", _store_guessing)],
        "answered before it is stored": [
            partial(patch.object, Reign, "append", lambda *arguments: _append_later(_append, *arguments))
        ],
    }


_append = Reign.append
