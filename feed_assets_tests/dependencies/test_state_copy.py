"""The copy of the state on the blackboard: written in few objects, healed after kills, restored after a loss."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from feed_assets.blackboard.location import open_blackboard
from feed_assets.blackboard.port import Blackboard, BlackboardError, UnavailableError
from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies import tables
from feed_assets.dependencies.errors import DependencyError, EventsGoneError, StateCopyError
from feed_assets.dependencies.facts import Ends, Listed, Number, Part, Published, Read, Status
from feed_assets.dependencies.quality.marks import Author, QualityError
from feed_assets.dependencies.rules import Basis, Declared
from feed_assets.dependencies.service import Dependencies
from feed_assets.dependencies.state_copy import AREA, StateCopy
from feed_assets.state.store import Store
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.blackboard.sized import SizedStore
from feed_assets_tests.dependencies.datasets import DAY, at, feed, raw, topic

ANN = Author.person("ann")
FIVE = Grain.FIVE_MINUTES
NOON = at(f"{DAY}T12:00")


def declared() -> dict[str, Declared]:
    """Raw data, a counted topic by 5 minutes, one that is covered, and two feeds."""
    covered = topic(basis=Basis.COVERED, base=Grain.HOUR)
    named = [raw("a", "b"), topic("x", "y"), feed(), feed("revenue/v1.0")]
    named.append(
        Declared(type(covered.dataset)("raw/bar", covered.dataset.grains, covered.dataset.hierarchy), covered.rule)
    )
    return {each.dataset.name: each for each in named}


def service_at(url: str, board: Blackboard) -> Dependencies:
    return Dependencies(Store(url), board.uri(""), declared())


@pytest.fixture
def board(tmp_path: Path) -> RecordingBlackboard:
    base = tmp_path / "base"
    base.mkdir()
    return RecordingBlackboard(open_blackboard(str(base)))


@pytest.fixture
def new_url(tmp_path: Path):
    """The URL of a database that does not exist yet, another one each time."""
    numbers = iter(range(100))
    return lambda: f"sqlite:///{tmp_path}/state-{next(numbers)}/state.db"


def objects(board: Blackboard) -> list[str]:
    return [each.key for each in board.page(AREA).entries]


def marked(states: Dependencies, mark_id: str = "m") -> Slot:
    """A slot of a feed that was published, and marked."""
    slot = states.dataset("clean-ads/v1.0").slot(DAY)
    states.published([Published(slot, "1", "one")], now=NOON)
    states.quality.mark(slot, reason="bots", author=ANN, now=NOON, mark_id=mark_id)
    return slot


class Acts:
    """Random facts and commands about a few slots."""

    def __init__(self, seed: int, states: Dependencies) -> None:
        self.chance, self.states, self.now = random.Random(seed), states, NOON
        hours = [f"{DAY}T{hour:02}" for hour in (9, 10, 11)]
        self.fives = [
            states.dataset("raw/foo").slot(f"{DAY}T10:{minute:02}Z", member, FIVE)
            for member in "xy"
            for minute in range(0, 60, 5)
        ]
        self.hours = [states.dataset("raw/ads").slot(hour, member) for hour in hours for member in "ab"]
        self.bars = [states.dataset("raw/bar").slot(hour) for hour in hours]
        self.days = [states.dataset(name).slot(DAY) for name in ("clean-ads/v1.0", "revenue/v1.0")]
        foo = states.dataset("raw/foo")
        self.coarse = [
            *(foo.slot(f"{DAY}T10", member) for member in ("x", "y", "-")),
            *(states.dataset(name).slot(DAY) for name in declared()),
        ]
        self.targets = [*self.fives, *self.hours, *self.bars, *self.days, *self.coarse]
        self.slots = [*self.targets, *(states.dataset(name).slot(DAY[:7]) for name in declared())]
        self.done = 0

    def act(self) -> None:
        """One act. Those that are refused change nothing."""
        self.done += 1
        self.now += timedelta(minutes=self.chance.choice([0, 1, 30]))
        with suppress(DependencyError, QualityError, DatasetError):
            self.chance.choice(
                [self._publish, self._list, self._report, self._fill, self._expect, self._cover, self._mark, self._wave,
                 self._reopen, self._backfill, self._check, lambda: self.states.tick(self.now)]
            )()  # fmt: skip

    def _publish(self) -> None:
        slot, update = self.chance.choice(self.days), self.chance.choice([None, "1", "2", "3"])
        read = (Read(self.hours[0]._replace(member="-")),) if self.chance.random() < 0.5 else ()
        self.states.published([Published(slot, update, update or "", read)], now=self.now)

    def _list(self) -> None:
        facts = [Listed(slot, self.chance.randint(0, 9), 1, str(self.chance.randint(0, 2))) for slot in self.hours[:3]]
        self.states.listed(facts, now=self.now)

    def _report(self) -> None:
        slot, name = self.chance.choice(self.fives), f"p{self.chance.randint(0, 30)}"
        first = self.chance.randint(0, 50)
        part = Part("raw/foo", slot.member, name, name, "0", ((first, first + 5),), {slot.start: 5})
        if self.chance.random() < 0.2:
            self.states.replace("raw/foo", slot.member, [f"p{self.chance.randint(0, 30)}"], [part], now=self.now)
        else:
            self.states.report([part._replace(writer="w", epoch=self.chance.randint(0, 2))], now=self.now)

    def _fill(self) -> None:
        """Complete an hour of a member."""
        member = self.chance.choice("xy")
        mine = [slot for slot in self.fives if slot.member == member]
        self.states.expect([Number("source", slot, 0) for slot in mine], now=self.now)

    def _expect(self) -> None:
        slot = self.chance.choice(self.fives)
        self.states.expect([Number("source", slot, 5, version=self.chance.randint(0, 2))], now=self.now)

    def _cover(self) -> None:
        number = self.chance.randrange(3)
        slot, first = self.bars[number], number * 10
        part = Part("raw/bar", "-", f"b{number}", "b", "0", ((first, first + 10),), {slot.start: 10})
        self.states.report([part], now=self.now)
        self.states.expect([Ends(slot, {"0": first + 10}, self.now)], now=self.now)

    def _mark(self) -> None:
        quality = self.states.quality
        if (known := quality.marks()) and self.chance.random() < 0.3:
            quality.unmark(self.chance.choice(known).id, reason="no", author=ANN, now=self.now)
        else:
            slot = self.chance.choice(self.targets)
            quality.mark(slot, reason="bots", author=ANN, now=self.now, mark_id=f"m{self.done}")

    def _wave(self) -> None:
        found = [each for name in declared() for each in self.states.kept.view(name).waivers.values()]
        known = sorted(found, key=lambda each: (each.at, *map(str, each.slots)))  # ids are random
        if known and self.chance.random() < 0.4:
            self.states.unwaive(self.chance.choice(known).id, reason="no", by="ann", now=self.now)
        else:
            self.states.waive([self.chance.choice(self.targets)], reason="cut", by="ann", now=self.now)

    def _reopen(self) -> None:
        self.states.reopen([self.chance.choice(self.targets)], reason="late", now=self.now)

    def _backfill(self) -> None:
        opened = sorted(self.states.quality.open_backfills(), key=lambda each: (each.opened.at, str(each.slots[0])))
        if opened and self.chance.random() < 0.6:
            one = self.chance.choice(opened)
            self.states.close_backfill(
                one.id, reason="done", author=ANN, now=self.now, abandoned=self.chance.random() < 0.3
            )
        else:
            self.states.open_backfill([self.chance.choice(self.targets)], reason="again", author=ANN, now=self.now)

    def _check(self) -> None:
        slot = self.chance.choice(self.targets)
        self.states.quality.checked(slot, "rows", passed=self.chance.random() < 0.7, now=self.now)

    def answers(self, states: Dependencies) -> list[object]:
        """All that is known of the slots."""
        return [
            [(states.answer(slot), states.quality.answer(slot), states.why(slot)) for slot in self.slots],
            states.quality.marks(removed=True),
            states.quality.backfills(),
            [(name, states.kept.view(name).waivers, states.kept.view(name).streams) for name in declared()],
        ]


@pytest.mark.parametrize("seed", range(6))
def test_after_a_loss_all_answers_are_those_of_the_lost_database_and_so_is_what_follows(board, new_url, seed) -> None:
    states = service_at(new_url(), board)
    acts, copy = Acts(seed, states), StateCopy(states, board)
    for _ in range(50):
        acts.act()
        if acts.chance.random() < 0.3:  # else a later writer does it
            copy.write()
    copy.write()
    assert copy.differences() == []

    restored = service_at(new_url(), board)
    StateCopy(restored, board).rebuild(now=acts.now)
    assert acts.answers(restored) == acts.answers(states)
    assert acts.answers(service_at(str(restored.kept.store.url), board)) == acts.answers(states)
    assert StateCopy(restored, board).differences() == []

    twin = Acts(seed + 1000, states)
    after = Acts(seed + 1000, restored)
    twin.now = after.now = acts.now
    twin.done = after.done = 1000  # other ids of marks
    for _ in range(20):
        twin.act()
        after.act()
    assert [states.answer(slot) for slot in acts.slots if slot not in waived(states, acts)] == [
        restored.answer(slot) for slot in acts.slots if slot not in waived(states, acts)
    ]


def waived(states: Dependencies, acts: Acts) -> set[Slot]:
    """The slots whose answers name ids, which are random."""
    return {slot for slot in acts.slots if states.answer(slot).waived}


def test_a_part_that_was_reported_before_the_loss_counts_once(board, new_url) -> None:
    states = service_at(new_url(), board)
    slot = states.dataset("raw/foo").slot(f"{DAY}T10:00Z", "x", FIVE)
    part = Part("raw/foo", "x", "one", "one", records={slot.start: 5})
    states.report([part], now=NOON)
    StateCopy(states, board).write()
    restored = service_at(new_url(), board)
    StateCopy(restored, board).rebuild(now=NOON)
    (outcome,) = restored.report([part], now=NOON)
    assert (outcome.status, restored.answer(slot).accounted) == (Status.KNOWN, 5)


def test_without_news_nothing_is_asked_of_storage_and_a_batch_of_facts_is_one_object(board, new_url) -> None:
    states = service_at(new_url(), board)
    copy = StateCopy(states, board)
    assert not copy.write()
    days = [states.dataset("clean-ads/v1.0").slot(f"2026-11-{day}") for day in (25, 26, 27)]
    states.published([Published(day, "1") for day in days], now=NOON)
    copy.write()
    board.forget()
    assert not copy.write()
    assert sum(board.counts().values()) == 0
    marked(states)
    copy.write()
    assert board.counts() == {"create": 1}
    assert len(objects(board)) == 2


def test_many_objects_are_folded_into_few(board, new_url) -> None:
    states = service_at(new_url(), board)
    slot = states.dataset("clean-ads/v1.0").slot(DAY)
    for number in range(30):
        states.published([Published(slot, str(number))], now=NOON)
        StateCopy(states, board, most_objects=8).write()  # as many processes do, each once
        assert len(objects(board)) <= 8
    assert StateCopy(states, board).differences() == []
    restored = service_at(new_url(), board)
    StateCopy(restored, board).rebuild(now=NOON)
    assert restored.answer(slot) == states.answer(slot)
    assert (restored.answer(slot).revision, len(objects(board))) == (30, 1)


def test_slots_that_are_folded_into_their_hour_stay_folded_after_a_loss(board, new_url) -> None:
    states = service_at(new_url(), board)
    fives = [states.dataset("raw/foo").slot(f"{DAY}T10:{minute:02}Z", "x", FIVE) for minute in range(0, 60, 5)]
    states.expect([Number("source", slot, 0) for slot in fives], now=NOON)
    StateCopy(states, board).write()
    states.tick(NOON + timedelta(days=40))
    copy = StateCopy(states, board)
    copy.write()
    assert copy.differences() == []
    restored = service_at(new_url(), board)
    StateCopy(restored, board).rebuild(now=NOON + timedelta(days=40))
    hour = states.dataset("raw/foo").slot(f"{DAY}T10", "x")
    assert restored.answer(hour) == states.answer(hour)
    assert restored.answer(fives[0]).flags == ("folded",)


def test_a_writer_that_could_not_write_leaves_it_to_the_next_one(board, new_url) -> None:
    states = service_at(new_url(), board)
    slot = marked(states)

    class Broken(RecordingBlackboard):
        def create(self, key, data):  # noqa: ARG002 - as a Blackboard
            raise UnavailableError("no answer")

    with pytest.raises(BlackboardError):
        StateCopy(states, Broken(board)).write()
    assert objects(board) == []
    (said,) = StateCopy(states, board).differences()
    assert "are not copied yet" in said
    StateCopy(states, board).write()
    restored = service_at(new_url(), board)
    StateCopy(restored, board).rebuild(now=NOON)
    assert restored.quality.answer(slot) == states.quality.answer(slot)


def test_a_writer_that_was_killed_between_its_object_and_its_note_changes_nothing(board, new_url) -> None:
    states = service_at(new_url(), board)
    marked(states)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "save_copied", lambda *_: sys.exit("killed"))
        with pytest.raises(SystemExit):
            StateCopy(states, board).write()
    states.quality.mark(states.dataset("raw/ads").slot(DAY), reason="x", author=ANN, now=NOON, mark_id="n")
    StateCopy(states, board).write()
    assert len(objects(board)) == 2
    assert StateCopy(states, board).differences() == []


def test_another_database_leaves_the_copy_as_it_is_until_it_is_restored(board, new_url) -> None:
    lost = service_at(new_url(), board)
    marked(lost)
    StateCopy(lost, board).write()
    before = objects(board)

    other = service_at(new_url(), board)
    marked(other, "other")
    with pytest.raises(StateCopyError, match="has the copy of another state database"):
        StateCopy(other, board).write()
    with pytest.raises(StateCopyError, match=r"has facts of .* already, and stays as it is"):
        StateCopy(other, board).rebuild(now=NOON)
    assert objects(board) == before
    assert "another state database" in StateCopy(other, board).differences()[0]
    assert [each.id for each in other.quality.marks()] == ["other"]


def test_an_old_backup_of_the_database_leaves_the_newer_copy_as_it_is(board, new_url, tmp_path: Path) -> None:
    url = new_url()
    states = service_at(url, board)
    slot = marked(states)
    StateCopy(states, board).write()
    states.kept.store.close()
    file = tmp_path / "state-0" / "state.db"
    backup = file.read_bytes()
    states.reopen([slot], reason="prices", now=NOON)
    StateCopy(states, board).write()
    before = objects(board)

    states.kept.store.close()
    file.unlink()
    file.write_bytes(backup)
    old = service_at(url, board)
    old.published([Published(old.dataset("revenue/v1.0").slot(DAY), "1")], now=NOON)
    with pytest.raises(StateCopyError, match=r"as an old backup does, so nothing of .* is copied"):
        StateCopy(old, board).write()
    assert "it is an old one" in StateCopy(old, board).differences()[0]
    assert objects(board) == before


def test_forced_starts_stay_on_record(board, new_url) -> None:
    states = service_at(new_url(), board)
    marked(states)
    root = board.uri("")
    for forced in ("ann", ""):
        details = {"base": root, "flow": "f", "slot": "s", "number": 1, "forced": forced}
        states.transact(lambda each, details=details: each.append("attempt started", NOON, details), now=NOON)
    StateCopy(states, board).write()
    restored = service_at(new_url(), board)
    assert StateCopy(restored, board).rebuild(now=NOON).counts["forced starts"] == 1
    (event,) = [each for each in restored.events(restored.newest() - 2) if each.kind == "attempt started"]
    assert (event.at, event.details["forced"]) == (NOON, "ann")


def test_subscribers_of_the_lost_database_are_told_to_look_at_the_answers(board, new_url) -> None:
    states = service_at(new_url(), board)
    marked(states)
    StateCopy(states, board).write()
    cursor = states.newest() + 3  # events that were never copied
    restored = service_at(new_url(), board)
    StateCopy(restored, board).rebuild(now=NOON)
    with pytest.raises(EventsGoneError):
        restored.events(cursor)
    assert {each.kind for each in restored.events(restored.newest() - 1)} == {"restored"}


def test_a_process_that_follows_sees_what_was_restored(board, new_url) -> None:
    states = service_at(new_url(), board)
    slot = marked(states)
    StateCopy(states, board).write()
    restored = service_at(new_url(), board)
    follower = service_at(str(restored.kept.store.url), board)
    assert not follower.answer(slot).complete
    StateCopy(restored, board).rebuild(now=NOON)
    follower.refresh()
    assert (follower.answer(slot).complete, str(follower.quality.state(slot))) == (True, "bad")


def test_check_names_what_is_missing_and_what_differs(board, new_url) -> None:
    states = service_at(new_url(), board)
    marked(states)
    StateCopy(states, board).write()
    states.published([Published(states.dataset("revenue/v1.0").slot(DAY), "1")], now=NOON)
    StateCopy(states, board).write()
    board.delete(objects(board)[-1])
    found = "\n".join(StateCopy(states, board).differences())
    assert f"revenue/v1.0 - day {DAY}" in found or "not copied yet" in found
    board.delete(*objects(board))
    assert StateCopy(states, board).differences() != []


def test_a_damaged_object_and_a_link_out_of_the_base_are_refused_by_name(board, new_url, tmp_path: Path) -> None:
    states = service_at(new_url(), board)
    marked(states)
    StateCopy(states, board).write()
    (key,) = objects(board)
    file = tmp_path / "base" / key
    content = file.read_bytes()
    file.write_bytes(content[:-9])
    with pytest.raises(StateCopyError, match=r"cannot be read: .* Get it back from a backup; or delete it"):
        StateCopy(service_at(new_url(), board), board).rebuild(now=NOON)
    (tmp_path / "elsewhere").write_bytes(content)
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BlackboardError, match="symbolic link"):
        StateCopy(service_at(new_url(), board), board).rebuild(now=NOON)


@pytest.mark.parametrize("store", ["s3"], indirect=True)
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_database_on_a_server_is_copied_to_a_bucket_and_restored(store: SizedStore, database: str, new_url) -> None:
    board = store.holding({})
    states = service_at(database, board)
    acts = Acts(3, states)
    for _ in range(30):
        acts.act()
        StateCopy(states, board, most_objects=8).write()
    assert StateCopy(states, board).differences() == []
    restored = service_at(new_url(), board)
    StateCopy(restored, board).rebuild(now=acts.now)
    assert acts.answers(restored) == acts.answers(states)


def test_a_restored_base_shares_its_database_with_another_one(board, database: str, new_url) -> None:
    states = service_at(new_url(), board)
    slot = marked(states)
    StateCopy(states, board).write()
    other = Dependencies(Store(database), "file:///other/", declared())
    for number in range(5):
        other.published([Published(slot, str(number))], now=NOON)
    follower = service_at(database, board)
    assert not follower.answer(slot).complete

    restored = service_at(database, board)
    StateCopy(restored, board).rebuild(now=NOON)
    follower.refresh()
    for each in (restored, follower, service_at(database, board)):
        assert (each.answer(slot), str(each.quality.state(slot))) == (states.answer(slot), "bad")
    other.refresh()
    assert (other.answer(slot).revision, str(other.quality.state(slot))) == (5, "unchecked")


def test_a_process_that_is_killed_at_any_time_leaves_a_copy_that_the_next_one_completes(board, new_url) -> None:
    url, root = new_url(), board.uri("")
    chance = random.Random(1)
    for _ in range(4):
        process = subprocess.Popen([sys.executable, "-c", WRITER, url, root], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.random() / 4)
        process.kill()
        process.wait()
        process.stdout.close()
        states = service_at(url, board)
        StateCopy(states, board).write()
        assert StateCopy(states, board).differences() == []
    restored = service_at(new_url(), board)
    StateCopy(restored, board).rebuild(now=NOON)
    acts = Acts(0, restored)
    assert acts.answers(restored) == acts.answers(states)


WRITER = """
import sys
from feed_assets.blackboard.location import open_blackboard
from feed_assets_tests.dependencies.test_state_copy import Acts, StateCopy, service_at
board = open_blackboard(sys.argv[2])
states = service_at(sys.argv[1], board)
acts, copy = Acts(states.newest(), states), StateCopy(states, board, most_objects=5)
while True:
    acts.act()
    copy.write()
    print("done", flush=True)
"""


def test_there_is_nothing_to_restore_without_a_copy(board, new_url) -> None:
    with pytest.raises(StateCopyError, match="There is nothing to restore"):
        StateCopy(service_at(new_url(), board), board).rebuild(now=NOON)
