"""Listings that are remembered: large directories are read once, and what changed is always seen."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets_tests.blackboard.shown import keys

DAY = 24 * 60 * 60


def test_a_large_directory_that_did_not_change_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    root = tmp_path
    (root / "a").mkdir()
    for number in range(200):
        (root / f"a/{number:03}").write_bytes(b"")
    os.utime(root / "a", (time.time() - DAY,) * 2)
    read: list[bytes] = []
    scandir = os.scandir

    def counted(path: bytes) -> object:
        read.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counted)
    blackboard = LocalBlackboard(root)
    for _ in range(5):
        assert len(blackboard.page("a/", after="a/100").entries) == 99
    assert len(read) == 1
    blackboard.delete("a/150")
    assert len(blackboard.page("a/", after="a/100").entries) == 98
    assert len(read) == 2


class Interleaved(RuleBasedStateMachine):
    """Objects come and go, through the port and past it, while blackboards that remember listings look on.

    Directories are made to look old as time would make them, so that listings are remembered at all.
    """

    names = st.sampled_from([f"{folder}{name}" for folder in ("p/", "p/q/", "r/") for name in ("a", "m", "z")])

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.model: set[str] = set()
        for folder, number in itertools.product(("p", "p/q", "r"), range(105)):
            path = self.root / folder / f"filler-{number:03}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
            self.model.add(str(path.relative_to(self.root)))
        self.writer, self.onlooker = LocalBlackboard(self.root), LocalBlackboard(self.root)
        self.seconds = itertools.count()

    @rule(name=names)
    def create(self, name: str) -> None:
        if name not in self.model:
            self.writer.create(name, b"")
            self.model.add(name)

    @rule(name=names)
    def delete(self, name: str) -> None:
        self.writer.delete(name)
        self.model.discard(name)

    @rule(name=names)
    def create_past_the_port(self, name: str) -> None:
        (self.root / name).write_bytes(b"")
        self.model.add(name)

    @rule(name=names)
    def delete_past_the_port(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)
        self.model.discard(name)

    @rule()
    def make_again(self) -> None:
        (self.root / "r").rename(self.root / "old")
        (self.root / "r").mkdir()
        for path in (self.root / "old").iterdir():
            path.rename(self.root / "r" / path.name)
        (self.root / "old").rmdir()

    @rule()
    def age(self) -> None:
        long_ago = time.time() - DAY + next(self.seconds)
        for folder in ("p/q", "p", "r", "."):
            os.utime(self.root / folder, (long_ago, long_ago))

    @invariant()
    def listings_show_what_is_there(self) -> None:
        expected = sorted(self.model)
        for blackboard in (self.writer, self.onlooker):
            assert keys(blackboard) == expected
            assert keys(blackboard, "p/q/") == [name for name in expected if name.startswith("p/q/")]
            files = [name for name in expected if name.startswith("p/") and name.count("/") == 1]
            assert [entry.key for entry in blackboard.page("p/", folders=True).entries] == files

    def teardown(self) -> None:
        shutil.rmtree(self.root)


TestARememberedListingIsNeverStale = Interleaved.TestCase
TestARememberedListingIsNeverStale.settings = settings(max_examples=15, stateful_step_count=20)
