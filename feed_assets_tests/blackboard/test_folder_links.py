"""No folder of a blackboard may be a symbolic link: whoever may write there would lead others to delete elsewhere."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.location import outside, readable_uris
from feed_assets.blackboard.port import BlackboardError, InvalidKeyError, NotFoundError

LONG_AGO = time.time() - 3 * 24 * 60 * 60


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def board(root: Path) -> LocalBlackboard:
    board = LocalBlackboard(root)
    board.create("mine/x", b"mine")
    return board


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of another user, with an old file of a name as unfinished files have, a file in a folder, and none."""
    victim = tmp_path / "victim"
    (victim / "folder").mkdir(parents=True)
    (victim / "empty/empty").mkdir(parents=True)
    for path in (victim / ("0" * 32), victim / "x", victim / "folder/x"):
        path.write_bytes(b"theirs")
        os.utime(path, (LONG_AGO, LONG_AGO))
    return victim


def seen(folder: Path) -> dict[str, bytes | None]:
    return {str(each.relative_to(folder)): each.read_bytes() if each.is_file() else None for each in folder.rglob("*")}


def link(place: Path, victim: Path, how: str) -> None:
    """Put a link to the victim's folder, or to nowhere, into this place."""
    match how:
        case "a link":
            place.symlink_to(victim)
        case "a link to a link":
            between = victim.with_name("between")
            between.symlink_to(victim)
            place.symlink_to(between)
        case "a relative link":
            place.symlink_to(os.path.relpath(victim, place.parent))
        case "a link inside the root":
            moved = place.with_name("moved")
            victim.rename(moved)
            victim.symlink_to(moved)  # so that the test still finds it
            place.symlink_to(moved)
        case "a link to nowhere":
            place.symlink_to(victim.with_name("nowhere"))


LINKS = ("a link", "a link to a link", "a relative link", "a link inside the root", "a link to nowhere")


@pytest.mark.parametrize("how", LINKS)
def test_the_folder_of_unfinished_files_is_no_link_and_nothing_is_removed_where_one_leads(
    root: Path, board: LocalBlackboard, victim: Path, how: str
) -> None:
    tag = board.read("mine/x").entry.tag
    (root / ".blackboard").rmdir()
    link(root / ".blackboard", victim, how)
    before = seen(victim)
    later = LocalBlackboard(root)
    for write in (
        lambda: later.create("y", b""),
        lambda: later.replace("mine/x", b"", tag=tag),
        lambda: later.upload("y", root / "mine/x"),
    ):
        with pytest.raises(InvalidKeyError, match=r"\.blackboard is a symbolic link, to .*Remove the link"):
            write()
    assert seen(victim) == before
    assert not victim.with_name("nowhere").exists()
    assert later.read("mine/x").data == b"mine"


@pytest.mark.parametrize("how", LINKS)
@pytest.mark.parametrize("above", ["", "a/"], ids=["at the root", "below a folder"])
def test_no_request_passes_through_a_folder_that_is_a_link(
    root: Path, board: LocalBlackboard, victim: Path, how: str, above: str
) -> None:
    if above:
        board.create("a/b", b"")
    link(root / above / "there", victim, how)
    before, there = seen(victim), f"{above}there"
    for request in (
        lambda: board.page(f"{there}/"),
        lambda: board.page(f"{there}/folder/", folders=True),
        lambda: board.read(f"{there}/folder/x"),
        lambda: board.read(f"{there}/x"),
        lambda: board.download(f"{there}/x", victim.with_name("copy")),
        lambda: board.create(f"{there}/y", b""),
        lambda: board.create(f"{there}/new/y", b""),
        lambda: board.upload(f"{there}/y", root / "mine/x"),
        lambda: board.copy("mine/x", f"{there}/y"),
        lambda: board.copy(f"{there}/x", "stolen"),
        lambda: board.replace(f"{there}/x", b"", tag=""),
        lambda: board.delete(f"{there}/x"),
        lambda: board.delete(f"{there}/folder/x"),
        lambda: board.delete(f"{there}/empty/"),
        lambda: board.flush(f"{there}/x"),
    ):
        with pytest.raises(InvalidKeyError, match=r"there is a symbolic link, to "):
            request()
    board.delete(f"{there}/")
    assert seen(victim) == before
    assert not victim.with_name("nowhere").exists()


def test_a_link_that_is_put_there_between_two_steps_leads_nowhere(
    root: Path, board: LocalBlackboard, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = seen(victim)
    for name in ("link", "unlink", "rmdir", "mkdir", "stat"):
        board.create("late/keep", b"mine")
        board.create("late/folder/x", b"mine")
        step = getattr(os, name)

        def swap(*arguments: object, step: Callable[..., object] = step, name: str = name, **more: object) -> object:
            monkeypatch.setattr(os, name, step)
            (root / "late").rename(root / f"late {name}")
            (root / "late").symlink_to(victim)
            return step(*arguments, **more)

        monkeypatch.setattr(os, name, swap)
        with suppress(BlackboardError):
            board.delete("late/folder/x")
        with suppress(BlackboardError):
            board.create("late/x", b"new")
        with suppress(BlackboardError):
            board.create("late/new/y", b"new")
        monkeypatch.setattr(os, name, step)
        assert (root / "late").is_symlink(), f"{name} was not called"
        assert seen(victim) == before
        (root / "late").unlink()


def test_whoever_exchanges_a_folder_and_a_link_all_the_time_gets_nobody_to_write_or_delete_elsewhere(
    root: Path, board: LocalBlackboard, victim: Path
) -> None:
    before, over = seen(victim), threading.Event()
    (root / "beside").symlink_to(victim)

    def exchange() -> None:
        while not over.is_set():
            with suppress(OSError):
                (root / "folder").rename(root / "aside")
                (root / "beside").rename(root / "folder")
                (root / "folder").rename(root / "beside")
                (root / "aside").rename(root / "folder")

    attacker = threading.Thread(target=exchange)
    attacker.start()
    try:
        for number in range(150):
            with suppress(BlackboardError):
                board.create(f"folder/{number}", b"mine")
            for key in ("folder/x", "folder/folder/x", "folder/empty/"):
                with suppress(BlackboardError):
                    board.delete(key)
            with suppress(BlackboardError):
                assert board.read("folder/x").data != b"theirs"
    finally:
        over.set()
        attacker.join()
    assert seen(victim) == before


def test_only_old_files_with_the_names_of_unfinished_files_are_removed_from_their_folder(
    root: Path, board: LocalBlackboard, victim: Path
) -> None:
    (root / ".blackboard").rmdir()
    victim.rename(root / ".blackboard")
    (root / ".blackboard" / ("1" * 32)).mkdir()
    (root / ".blackboard" / ("2" * 32)).symlink_to(root / "mine/x")
    LocalBlackboard(root).create("y", b"")
    left = {each.name for each in (root / ".blackboard").iterdir()}
    assert left == {"folder", "empty", "x", "1" * 32, "2" * 32}


def test_a_root_that_is_reached_over_links_works_as_any_other(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "disk/base").mkdir(parents=True)
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    (tmp_path / "base").symlink_to(tmp_path / "data/base")
    for number, place in enumerate((tmp_path / "data/base", tmp_path / "base")):
        board = LocalBlackboard(place)
        tag = board.create(f"a/{number}", b"1").tag
        board.replace(f"a/{number}", b"2", tag=tag)
        board.copy(f"a/{number}", f"b/{number}")
        board.delete(f"a/{number}")
        assert board.read(f"b/{number}").data == b"2"
        assert readable_uris(board, [f"b/{number}"]) == [(tmp_path / f"disk/base/b/{number}").as_uri()]
    assert [entry.key for entry in list_all(board, "")] == ["b/0", "b/1"]


def test_programs_that_read_by_uri_get_none_that_a_link_leads_out_of_the_root(
    root: Path, board: LocalBlackboard, victim: Path
) -> None:
    board.create("d/y", b"")
    for name, target in {
        "out": victim / "x",
        "nowhere": victim / "nowhere",
        "twice": root / "d/out",
        "in": root / "mine/x",
    }.items():
        (root / "d" / name).symlink_to(target)
    (root / "folder").symlink_to(victim)
    found = {"d/out": victim / "x", "d/nowhere": victim / "nowhere", "d/twice": victim / "x", "folder/x": victim / "x"}
    assert outside(board, ["d/y", "d/in", *found]) == {key: str(path) for key, path in found.items()}
    assert readable_uris(board, ["d/y", "d/in"]) == [board.uri("d/y"), board.uri("d/in")]
    for key in found:
        with pytest.raises(InvalidKeyError, match=rf"{key} is reached over a symbolic link, to {victim}"):
            readable_uris(board, ["d/y", key])
        with pytest.raises((InvalidKeyError, NotFoundError)):
            board.read(key)
