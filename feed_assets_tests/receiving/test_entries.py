"""What a journal keeps of a request, also that of an earlier version, and for how long. Not here: journals."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.journal.on_blackboard import BlackboardSegments
from feed_assets.journal.on_disk import DiskSegments
from feed_assets.journal.records import JournalError, frame
from feed_assets.receiving.entries import PREFIX, Entry, Header, entries, framed
from feed_assets.receiving.limits import Limits

AT = datetime(2019, 12, 1, 12, 0, 0, 5, tzinfo=UTC)
KEPT = {
    Entry(Header("ads/shop_ads", "r-1", 1, ((1, "is not UTF-8"),), "k", "c", AT), b'{"id":1}\n\xff\n'): (
        b'fa01\xa0\x00\x00\x00(\xcc\x04\x7f{"source":"ads/shop_ads","request_id":"r-1","accepted":1,"rejected":'
        b'[[1,"is not UTF-8"]],"key":"k","content":"c","at":"2019-12-01T12:00:00.000005Z"}\n{"id":1}\n\xff\n'
    ),
    Entry(Header("a/b", "r-2", 0), b""): (
        b'fa01q\x00\x00\x00\xd1#\x13\x8d{"source":"a/b","request_id":"r-2","accepted":0,"rejected":[],"key":"",'
        b'"content":"","at":"0001-01-01T00:00:00Z"}\n'
    ),
}
"""Entries, and their bytes on the disk of every version."""


def test_the_journal_of_an_earlier_version_is_read_and_its_bytes_are_written_still(tmp_path):
    (tmp_path / "1.segment").write_bytes(b"".join(KEPT.values()))

    journal = DiskSegments(tmp_path)
    journal.seal("1")

    assert list(entries(journal, "1")) == list(KEPT)
    assert [framed(entry) for entry in KEPT] == list(KEPT.values())


def test_a_seal_stays_for_longer_than_any_receiver_appends_to_a_segment():
    (roll,) = (each for each in fields(Limits) if each.name == "roll_seconds")
    longest = timedelta(seconds=roll.metadata["most"])
    moments = [datetime.now(UTC) - 1.5 * longest]
    board = MemoryBlackboard(clock=lambda: moments[0])
    journal, other = BlackboardSegments(board, f"{PREFIX}here/"), BlackboardSegments(board, f"{PREFIX}here/")
    segment = journal.begin()
    journal.append([frame(b"1")])
    other.seal(segment)
    other.remove(segment)

    moments[0] = datetime.now(UTC)
    assert other.segments() == []
    with pytest.raises(JournalError, match="is of another writer, or a seal"):
        journal.append([frame(b"2")])
