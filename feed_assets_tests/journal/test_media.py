"""Segments on both media: what was appended is there, what was cut off is not, and a sealed segment never changes."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import AlreadyExistsError
from feed_assets.journal import on_blackboard, on_disk
from feed_assets.journal.on_blackboard import BlackboardSegments
from feed_assets.journal.on_disk import DiskSegments
from feed_assets.journal.records import JournalError, frame
from feed_assets_tests.blackboard.recording import RecordingBlackboard

HERE = "journals/here/"


def record(number, rest=b'\n{"id":1}\n'):
    return b"record-%d" % number + rest


@pytest.fixture(params=["disk", "blackboard"])
def opened(request, tmp_path):
    """Opens the journal again, as the next process does."""
    board = MemoryBlackboard()

    def open_():
        return DiskSegments(tmp_path / "journal") if request.param == "disk" else BlackboardSegments(board, HERE)

    return open_


def numbers(journal, segment):
    return [int(each.partition(b"\n")[0].removeprefix(b"record-")) for each in journal.records(segment)]


def test_what_was_appended_is_there_in_order_for_the_next_process_until_it_is_removed(opened):
    journal = opened()
    journal.claim()
    first = journal.begin()
    journal.append([frame(record(1)), frame(record(2, b""))])
    journal.append([frame(record(3))])
    journal.seal(first)
    second = journal.begin()
    journal.append([frame(record(4))])

    later = opened()

    assert later.segments() == [first, second]
    for segment in later.segments():
        later.seal(segment)
    assert list(later.records(first)) == [record(1), record(2, b""), record(3)]
    assert numbers(later, second) == [4]
    later.remove(first)
    later.remove(first)
    assert later.segments() == [second]
    assert numbers(later, first) == []


def test_every_cut_of_the_last_entry_is_recognized_and_nothing_before_it_is_lost(tmp_path):
    whole, last = frame(record(1)), frame(record(2))
    for kept in range(len(last)):
        for rest in (b"", b"\0" * (len(last) - kept)):
            journal = DiskSegments(tmp_path)
            segment = journal.begin()
            journal.append([whole])
            path = tmp_path / f"{segment}.segment"
            with path.open("ab") as file:
                file.write(last[:kept] + rest)

            later = DiskSegments(tmp_path)
            later.seal(segment)
            assert numbers(later, segment) == [1]
            assert path.read_bytes() == whole
            cut = last[:kept] + rest
            assert (path.with_suffix(".cut").read_bytes() if cut else b"") == cut
            later.remove(segment)


@pytest.mark.parametrize("broken", ["write", "fdatasync"])
def test_an_append_that_fails_leaves_nothing_once_the_segment_is_sealed(tmp_path, monkeypatch, broken):
    journal = DiskSegments(tmp_path)
    segment = journal.begin()
    journal.append([frame(record(1))])
    write = os.write

    def fail(*arguments):
        if broken == "write":
            write(arguments[0], bytes(arguments[1])[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(on_disk.os, broken, fail)
        with pytest.raises(OSError, match="No space"):
            journal.append([frame(record(2))])
    journal.seal(segment)

    assert numbers(journal, segment) == [1]
    assert numbers(DiskSegments(tmp_path), segment) == [1]


def test_a_segment_and_its_name_and_its_end_wait_for_the_disk_and_only_the_owner_reads_it(tmp_path, monkeypatch):
    synced = []
    for name in ("fsync", "fdatasync"):
        wait = getattr(os, name)

        def noting(descriptor, name=name, wait=wait):
            wait(descriptor)
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            synced.append((name, path, path.stat().st_size if path.is_file() else 0))

        monkeypatch.setattr(on_disk.os, name, noting)
    whole = frame(record(1))
    journal = DiskSegments(tmp_path / "journal")
    journal.claim()
    segment = journal.begin()
    journal.append([whole])
    path = tmp_path / "journal" / f"{segment}.segment"
    mode = path.stat().st_mode & 0o777
    with path.open("ab") as file:
        file.write(whole[:10])
    journal.seal(segment)
    journal.remove(segment)

    folder, size = ("fsync", tmp_path / "journal", 0), len(whole)
    assert synced == [
        ("fsync", tmp_path, 0),
        folder,
        ("fdatasync", path, size),
        ("fsync", path, size),
        folder,
    ]
    assert mode == 0o600


def test_damage_inside_a_sealed_segment_is_an_error_and_not_its_end(tmp_path):
    journal = DiskSegments(tmp_path)
    segment = journal.begin()
    journal.append([frame(record(number)) for number in range(3)])
    journal.seal(segment)
    path = tmp_path / f"{segment}.segment"
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)

    with pytest.raises(JournalError, match=f"{segment}.segment is damaged at byte"):
        list(journal.records(segment))


def test_a_directory_has_one_writer_at_a_time(tmp_path):
    first = DiskSegments(tmp_path)
    first.claim()

    with pytest.raises(JournalError, match="--journal"):
        DiskSegments(tmp_path).claim()
    os.close(first._lock)
    DiskSegments(tmp_path).claim()


def test_nothing_is_appended_to_a_segment_that_another_writer_of_the_prefix_has_sealed_or_removed():
    board = MemoryBlackboard()
    journal, other = BlackboardSegments(board, HERE), BlackboardSegments(board, HERE)
    for removed in (False, True):
        segment = journal.begin()
        journal.append([frame(record(1))])
        other.seal(segment)
        if removed:
            other.remove(segment)

        with pytest.raises(JournalError, match="is of another writer, or a seal"):
            journal.append([frame(record(2))])
        journal.seal(segment)
        assert numbers(journal, segment) == ([] if removed else [1])
    assert journal.segments() == [journal.segments()[0]]


def test_an_append_whose_answer_was_lost_is_recognized_as_its_own(monkeypatch):
    board = MemoryBlackboard()
    journal = BlackboardSegments(board, HERE)
    segment = journal.begin()
    create = board.create

    def answer_lost(key, data):
        create(key, data)
        raise AlreadyExistsError(key)

    with monkeypatch.context() as patch:
        patch.setattr(board, "create", answer_lost)
        journal.append([frame(record(1))])
    journal.append([frame(record(2))])
    journal.seal(segment)

    assert numbers(journal, segment) == [1, 2]


def test_a_removal_that_was_killed_leaves_nothing_that_would_be_read_and_goes_on_later(monkeypatch):
    board = MemoryBlackboard()
    journal = BlackboardSegments(board, HERE)
    segment = journal.begin()
    for number in range(3):
        journal.append([frame(record(number))])
    journal.seal(segment)
    delete = board.delete

    def killed(*keys):
        delete(keys[-1])  # of the keys of one request, any may be deleted first
        raise KeyboardInterrupt

    monkeypatch.setattr(board, "delete", killed)
    with pytest.raises(KeyboardInterrupt):
        journal.remove(segment)
    monkeypatch.setattr(board, "delete", delete)

    assert journal.segments() == []
    assert numbers(journal, segment) == []
    monkeypatch.setattr(on_blackboard, "SEALS_STAY", -on_blackboard.SEALS_STAY)
    assert journal.segments() == []
    assert board.page("").entries == ()


def test_a_writer_whose_name_another_name_begins_with_does_not_see_its_segments():
    board = MemoryBlackboard()
    journals = {name: BlackboardSegments(board, f"journals/{name}/") for name in ("eu", "eu/1")}
    written = {name: journal.begin() for name, journal in journals.items()}
    for each in journals.values():
        each.append([frame(record(1))])

    assert {name: journal.segments() for name, journal in journals.items()} == {
        name: [segment] for name, segment in written.items()
    }


def test_the_requests_of_a_journal_on_the_blackboard_are_one_for_each_append():
    board = RecordingBlackboard(MemoryBlackboard())
    journal = BlackboardSegments(board, HERE)
    journal.begin()
    for _ in range(3):
        journal.append([frame(record(1)), frame(record(2))])

    assert len(board.requests) == 3


@pytest.mark.parametrize("leads_to", ["theirs", "nowhere"])
def test_a_link_is_no_journal_and_nothing_changes_where_it_leads(tmp_path, leads_to):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / f"{'0' * 40}.segment").write_bytes(b"theirs")
    (tmp_path / "journal").symlink_to(tmp_path / leads_to)
    journal = DiskSegments(tmp_path / "journal")

    attempts = [journal.claim, journal.begin]
    if leads_to == "theirs":
        attempts += [journal.segments, *(partial(act, "0" * 40) for act in (journal.seal, journal.remove))]
        attempts.append(lambda: list(journal.records("0" * 40)))
    for attempt in attempts:
        with pytest.raises(JournalError, match=rf"{tmp_path}/journal is a symbolic link, to {tmp_path}/{leads_to}"):
            attempt()

    assert [each.read_bytes() for each in theirs.iterdir()] == [b"theirs"]
    assert not (tmp_path / "nowhere").exists()


def test_a_link_in_the_place_of_a_segment_or_of_the_lock_is_not_followed(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.write_bytes(b"theirs")
    folder = tmp_path / "journal"
    folder.mkdir()
    for name in ("lock", "1.segment", "2.cut"):
        (folder / name).symlink_to(theirs)
    journal = DiskSegments(folder)

    for attempt in (journal.claim, lambda: journal.seal("1"), lambda: list(journal.records("1"))):
        with pytest.raises(OSError, match="symbolic link"):
            attempt()
    (folder / "2.segment").write_bytes(b"half of a record")
    journal.seal("2")

    assert theirs.read_bytes() == b"theirs"
