"""The account that is kept of requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import NotFoundError
from feed_assets_tests.blackboard.recording import RecordingBlackboard, Request


def test_every_request_is_kept_with_its_key_in_its_order(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"uploaded")
    inner = MemoryBlackboard()
    blackboard = RecordingBlackboard(inner)
    created = blackboard.create("a", b"1")
    blackboard.replace("a", b"2", tag=created.tag)
    blackboard.upload("b", tmp_path / "file")
    blackboard.copy("a", "c")
    assert blackboard.page("", after="a").entries == inner.page("", after="a").entries
    assert blackboard.read("a", limit=1).data == b"2"
    blackboard.delete("a", "b")
    assert blackboard.requests == (
        Request("create", "a"),
        Request("replace", "a"),
        Request("upload", "b"),
        Request("copy", "c"),
        Request("page", ""),
        Request("read", "a"),
        Request("delete", "a"),
    )
    assert blackboard.deleted == ["a", "b"]
    assert inner.objects() == {"c": b"2"}


def test_a_request_that_fails_counts_and_what_is_no_request_does_not():
    blackboard = RecordingBlackboard(MemoryBlackboard())
    with pytest.raises(NotFoundError):
        blackboard.read("missing")
    assert blackboard.tag_of(b"") == MemoryBlackboard().tag_of(b"")
    assert blackboard.uri("a") == MemoryBlackboard().uri("a")
    blackboard.flush("a", "b")
    assert blackboard.flushed == ["a", "b"]
    assert blackboard.requests == (Request("read", "missing"),)


def test_an_account_can_be_started_anew():
    blackboard = RecordingBlackboard(MemoryBlackboard())
    blackboard.create("a", b"")
    blackboard.forget()
    assert blackboard.requests == ()
    assert blackboard.counts() == {}
