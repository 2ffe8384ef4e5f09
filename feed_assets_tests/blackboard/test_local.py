"""What a disk adds to the port: links, permissions, and other programs in the same directory."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from feed_assets.blackboard.exchanging import exchange
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.port import (
    AlreadyExistsError,
    ConflictError,
    InvalidKeyError,
    NotFoundError,
    UnavailableError,
)
from feed_assets_tests.blackboard.shown import keys, on_disk


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def blackboard(root: Path) -> LocalBlackboard:
    return LocalBlackboard(root)


# -- the directory as other programs see it --------------------------------------------------------


def test_objects_are_plain_files_and_nothing_else_is_left(root: Path, blackboard: LocalBlackboard, tmp_path: Path):
    (tmp_path / "file").write_bytes(b"uploaded")
    created = blackboard.create("a/created", b"created")
    blackboard.upload("a/uploaded", tmp_path / "file")
    blackboard.copy("a/created", "a/copied")
    blackboard.replace("a/created", b"replaced", tag=created.tag)
    for attempt in (
        lambda: blackboard.create("a/created", b""),
        lambda: blackboard.upload("a/created", tmp_path / "file"),
    ):
        with pytest.raises(AlreadyExistsError):
            attempt()
    with pytest.raises(ConflictError):
        blackboard.replace("a/created", b"", tag=created.tag)
    assert on_disk(root) == ["a", "a/copied", "a/created", "a/uploaded"]
    assert (root / "a/created").read_bytes() == b"replaced"
    assert (root / "a/copied").read_bytes() == b"created"
    assert list((root / ".blackboard").iterdir()) == []


def test_a_file_has_the_permissions_that_other_programs_would_give_it(root: Path, blackboard: LocalBlackboard):
    blackboard.create("a", b"")
    (root / "b").write_bytes(b"")
    assert (root / "a").stat().st_mode == (root / "b").stat().st_mode


def test_directories_go_with_their_last_object_up_to_the_root(root: Path, blackboard: LocalBlackboard):
    blackboard.create("a/b/c/d", b"")
    blackboard.create("a/x", b"")
    blackboard.delete("a/b/c/d")
    assert on_disk(root) == ["a", "a/x"]
    blackboard.delete("a/x")
    assert on_disk(root) == []
    assert root.exists()


def test_empty_directories_are_in_no_listing_and_go_when_something_is_deleted_there(
    root: Path, blackboard: LocalBlackboard
):
    (root / "a/b/c").mkdir(parents=True)
    (root / "full/x/y").mkdir(parents=True)
    (root / "full/x/y/z").write_bytes(b"")
    page = blackboard.page("", folders=True)
    assert (page.entries, page.folders) == ((), ("full/",))
    blackboard.delete("a/b/c/whatever")
    assert not (root / "a").exists()


def test_unfinished_files_are_in_no_listing_and_have_no_key(root: Path, blackboard: LocalBlackboard):
    blackboard.create("feed/x", b"")
    LocalBlackboard(root / "feed").create("y", b"")
    (root / "feed/.blackboard/left").write_bytes(b"")
    assert keys(blackboard) == ["feed/x", "feed/y"]
    assert blackboard.page("", folders=True).folders == ("feed/",)
    assert blackboard.page("feed/", folders=True).folders == ()
    for attempt in (
        lambda: blackboard.read("feed/.blackboard/left"),
        lambda: blackboard.create(".blackboard/x", b""),
        lambda: blackboard.page(".blackboard/"),
        lambda: blackboard.delete("feed/.blackboard/left"),
    ):
        with pytest.raises(InvalidKeyError, match="unfinished"):
            attempt()


def test_hidden_files_are_objects_as_in_a_bucket(root: Path, blackboard: LocalBlackboard):
    (root / "a/_temporary").mkdir(parents=True)
    for name in (".x.crc", "_temporary/0", "_SUCCESS"):
        (root / "a" / name).write_bytes(b"")
    assert keys(blackboard) == ["a/.x.crc", "a/_SUCCESS", "a/_temporary/0"]


def test_names_that_nothing_is_created_under_are_listed_and_can_be_deleted(root: Path, blackboard: LocalBlackboard):
    root.mkdir()
    for name in (b"new\nline", b"back\\slash", b"not unicode \xff\x80", "é".encode(), b"z"):
        (root / os.fsdecode(name)).write_bytes(b"")
    found = keys(blackboard)
    assert [os.fsencode(key) for key in found] == sorted(os.fsencode(path.name) for path in root.iterdir())
    blackboard.delete(*found)
    assert keys(blackboard) == []


@pytest.mark.parametrize("key", ["", ".", "..", "../outside", "/outside", "a/../../outside", "a//b", "a\0b"])
def test_nothing_outside_can_be_deleted(root: Path, blackboard: LocalBlackboard, key: str):
    blackboard.create("a/b", b"")
    outside = root.parent / "outside"
    outside.write_bytes(b"")
    with pytest.raises(InvalidKeyError):
        blackboard.delete(key)
    assert outside.exists()
    assert keys(blackboard) == ["a/b"]


def test_a_name_longer_than_a_disk_takes_is_an_invalid_key(blackboard: LocalBlackboard):
    for attempt in (lambda: blackboard.create("x" * 256, b""), lambda: blackboard.read("x" * 256)):
        with pytest.raises(InvalidKeyError, match="shorter"):
            attempt()


def test_an_object_cannot_have_others_below_it(blackboard: LocalBlackboard):
    blackboard.create("a/b", b"")
    for key in ("a", "a/b/c", "a/b/c/d"):
        with pytest.raises(InvalidKeyError, match="cannot have others below it"):
            blackboard.create(key, b"")
    assert keys(blackboard) == ["a/b"]


def test_two_contents_never_have_one_tag_even_where_size_time_and_inode_could_repeat(
    blackboard: LocalBlackboard,
):
    tags = [blackboard.create("a", b"00").tag]
    for number in range(200):
        tags.append(blackboard.replace("a", b"%02d" % (number % 100), tag=tags[-1]).tag)
    for number in range(200):
        blackboard.delete("a")
        tags.append(blackboard.create("a", b"%02d" % (number % 100)).tag)
    assert len(set(tags)) == len(tags)


def test_a_file_that_another_program_writes_while_it_is_downloaded_is_a_conflict(
    root: Path, blackboard: LocalBlackboard, tmp_path: Path
):
    blackboard.create("a", b"old")

    class Watched(type(tmp_path)):
        def open(self, *arguments, **more):
            (root / "a").write_bytes(b"half of the new")  # the old file was opened just now
            return super().open(*arguments, **more)

    with pytest.raises(ConflictError, match="changed while it was read"):
        blackboard.download("a", Watched(tmp_path / "copy"))
    assert blackboard.download("a", tmp_path / "again").size == len(b"half of the new")


def test_a_file_rewritten_in_place_by_another_program_is_not_replaced(root: Path, blackboard: LocalBlackboard):
    created = blackboard.create("a", b"mine")
    (root / "a").write_bytes(b"not mine")
    with pytest.raises(ConflictError):
        blackboard.replace("a", b"mine again", tag=created.tag)
    assert blackboard.read("a").data == b"not mine"


@pytest.mark.parametrize("moment", ["os.fsync", "feed_assets.blackboard.local.exchange"])
@pytest.mark.parametrize("what", ["removes", "replaces"])
def test_what_another_program_does_to_a_file_while_it_is_replaced_is_not_undone(
    root: Path, blackboard: LocalBlackboard, monkeypatch: pytest.MonkeyPatch, moment: str, what: str
):
    created = blackboard.create("a/_SUCCESS", b"1")
    path = root / "a/_SUCCESS"
    original: Callable[..., object] = os.fsync if moment == "os.fsync" else exchange

    def meanwhile(*arguments: object) -> object:
        monkeypatch.setattr(moment, original)
        path.unlink()
        if what == "replaces":
            path.write_bytes(b"theirs")
        return original(*arguments)

    monkeypatch.setattr(moment, meanwhile)
    with pytest.raises(ConflictError):
        blackboard.replace("a/_SUCCESS", b"-1", tag=created.tag)
    assert path.read_bytes() == b"theirs" if what == "replaces" else not path.exists()
    assert list((root / ".blackboard").iterdir()) == []


def test_where_two_files_cannot_change_places_the_new_one_is_renamed_and_a_removal_is_still_seen(
    root: Path, blackboard: LocalBlackboard, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("feed_assets.blackboard.exchanging._renameat2", lambda: None)
    created = blackboard.create("a/b", b"1")
    replaced = blackboard.replace("a/b", b"2", tag=created.tag)
    assert blackboard.read("a/b").data == b"2"

    def remove_first(*arguments: Any) -> None:
        (root / "a/b").unlink()
        exchange(*arguments)

    monkeypatch.setattr("feed_assets.blackboard.local.exchange", remove_first)
    with pytest.raises(ConflictError):
        blackboard.replace("a/b", b"3", tag=replaced.tag)
    assert not (root / "a/b").exists()


def test_a_lock_that_a_stopped_process_holds_ends_in_an_error_that_names_the_directory(
    root: Path, blackboard: LocalBlackboard, monkeypatch: pytest.MonkeyPatch
):
    created = blackboard.create("a/b", b"1")
    monkeypatch.setattr("feed_assets.blackboard.exchanging.LONGEST_WAIT_SECONDS", 0.05)
    stopped = os.open(root / "a", os.O_RDONLY)
    fcntl.flock(stopped, fcntl.LOCK_EX)
    for attempt in (lambda: blackboard.replace("a/b", b"2", tag=created.tag), lambda: blackboard.delete("a/b")):
        with pytest.raises(UnavailableError, match=rf"lock of {root / 'a'} .*`fuser {root / 'a'}`"):
            attempt()
    assert blackboard.read("a/b").data == b"1"
    blackboard.create("a/c", b"nothing waits to create")
    os.close(stopped)
    blackboard.delete("a/b")
    assert keys(blackboard) == ["a/c"]


def test_what_other_programs_wrote_is_synced_with_the_directories_that_lead_to_it(
    root: Path, blackboard: LocalBlackboard, monkeypatch: pytest.MonkeyPatch
):
    (root / "a/b").mkdir(parents=True)
    for name in ("x", "y"):
        (root / "a/b" / name).write_bytes(b"data")
    synced = []
    monkeypatch.setattr("os.fsync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").readlink()))
    blackboard.flush("a/b/x", "a/b/y")
    assert synced == [root / "a/b/x", root / "a/b/y", root, root / "a", root / "a/b"]
    with pytest.raises(NotFoundError):
        blackboard.flush("a/b/gone")


def test_a_write_waits_for_the_disk_before_others_see_it_and_for_its_name_after_that(
    root: Path, blackboard: LocalBlackboard, monkeypatch: pytest.MonkeyPatch
):
    blackboard.create("first", b"")
    steps: list[str] = []
    originals = {"fsync": os.fsync, "link": os.link, "unlink": os.unlink}

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(root)
        steps.append(f"sync {'new' if path.parts[:1] == ('.blackboard',) else path}")
        originals["fsync"](descriptor)

    def link(source: Any, target: Any, **options: Any) -> None:
        folder = Path(f"/proc/self/fd/{options['dst_dir_fd']}").readlink()
        steps.append(f"link {(folder / target).relative_to(root)}")
        originals["link"](source, target, **options)

    def replace(source: int, file: str, directory: int, name: str) -> None:
        steps.append(f"exchange {name}")
        exchange(source, file, directory, name)

    def unlink(path: Any, **options: Any) -> None:
        if len(path) < 32:  # else it is the unfinished file
            steps.append(f"unlink {path}")
        originals["unlink"](path, **options)

    for name, function in {"os.fsync": fsync, "os.link": link, "os.unlink": unlink}.items():
        monkeypatch.setattr(name, function)
    monkeypatch.setattr("feed_assets.blackboard.local.exchange", replace)

    def taken(act: Callable[[], Any]) -> list[str]:
        steps.clear()
        act()
        return [*steps]

    (root.parent / "file").write_bytes(b"uploaded")
    # The name of a directory that was made for it, too.
    assert taken(lambda: blackboard.create("a/b", b"1")) == ["sync new", "sync .", "link a/b", "sync a"]
    assert taken(lambda: blackboard.upload("a/c", root.parent / "file")) == ["sync new", "link a/c", "sync a"]
    assert taken(lambda: blackboard.copy("a/c", "d/e")) == ["sync a/c", "sync .", "link d/e", "sync d"]
    tag = blackboard.read("a/b").entry.tag
    assert taken(lambda: blackboard.replace("a/b", b"2", tag=tag)) == ["sync new", "exchange b", "sync a"]
    assert taken(lambda: blackboard.delete("a/b")) == ["unlink b", "sync a"]


def test_the_empty_directories_below_a_folder_go_with_its_marker_and_no_file_does(
    root: Path, blackboard: LocalBlackboard
):
    (root / "a/_temporary/0/task").mkdir(parents=True)
    (root / "full/_temporary").mkdir(parents=True)
    (root / "full/x").write_bytes(b"")
    blackboard.delete("a/", "full/", "gone/")
    assert on_disk(root) == ["full", "full/x"]


def test_the_uri_is_one_that_other_programs_understand(root: Path, blackboard: LocalBlackboard):
    blackboard.create("a b/é%", b"")
    assert blackboard.uri("a b/é%") == (root / "a b/é%").as_uri()
    assert blackboard.uri("a/") == (root / "a").as_uri() + "/"


def test_a_root_that_no_disk_can_have_is_refused(tmp_path: Path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for root in (loop, tmp_path / ("n" * 300)):
        with pytest.raises(UnavailableError, match="cannot be a directory"):
            LocalBlackboard(root)


def test_a_root_that_is_a_file_is_refused(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UnavailableError, match="Name a directory"):
        LocalBlackboard(tmp_path / "file")


# -- links -----------------------------------------------------------------------------------------


@pytest.fixture
def links(root: Path, blackboard: LocalBlackboard) -> LocalBlackboard:
    """Links in `l/`: to a file and a directory inside and outside of the root, to nowhere, and in circles."""
    blackboard.create("d/f", b"inside")
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (root / "l").mkdir()
    for name, target in {
        "file": root / "d/f",
        "directory": root / "d",
        "up": root,
        "circle": root / "l/circle",
        "nowhere": root / "nowhere",
        "out-file": outside / "secret",
        "out": outside,
    }.items():
        (root / "l" / name).symlink_to(target)
    return blackboard


def test_a_link_is_listed_as_one_object_wherever_it_leads(root: Path, links: LocalBlackboard):
    assert keys(links, "l/") == [f"l/{name}" for name in sorted(path.name for path in (root / "l").iterdir())]
    assert links.page("l/", folders=True).folders == ()


def test_a_link_to_an_object_inside_the_root_can_be_read(links: LocalBlackboard):
    (entry,) = (entry for entry in links.page("l/").entries if entry.key == "l/file")
    content = links.read("l/file")
    assert content.data == b"inside"
    assert (content.entry.tag, content.entry.size) == (entry.tag, entry.size)


@pytest.mark.parametrize("key", ["l/directory", "l/nowhere", "l/up"])
def test_a_link_to_no_object_is_no_object(links: LocalBlackboard, key: str):
    with pytest.raises(NotFoundError):
        links.read(key)


def test_no_link_leads_out_of_the_root(root: Path, links: LocalBlackboard):
    for attempt in (
        lambda: links.read("l/out-file"),
        lambda: links.read("l/out/secret"),
        lambda: links.page("l/out/"),
        lambda: links.create("l/out/new", b""),
        lambda: links.copy("l/out/secret", "stolen"),
        lambda: links.copy("l/out-file", "stolen"),
        lambda: links.replace("l/out-file", b"", tag=""),
        lambda: links.delete("l/out/secret"),
    ):
        with pytest.raises(InvalidKeyError, match="symbolic link"):
            attempt()
    assert [path.name for path in (root.parent / "outside").iterdir()] == ["secret"]


def test_deleting_a_link_leaves_what_it_leads_to(root: Path, links: LocalBlackboard):
    links.delete(*(entry.key for entry in links.page("l/").entries))
    assert on_disk(root) == ["d", "d/f"]
    assert (root.parent / "outside/secret").exists()


# -- permissions -----------------------------------------------------------------------------------


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A directory of this process's own, which is not run by root meanwhile: root is refused nothing."""
    directory = Path(tempfile.mkdtemp())
    root, nobody = 0, 65534
    privileged = os.geteuid() == root
    if privileged:
        os.chown(directory, nobody, nobody)
        os.seteuid(nobody)
    yield directory
    if privileged:
        os.seteuid(root)
    shutil.rmtree(directory)


@pytest.mark.parametrize("folders", [False, True])
def test_a_directory_that_cannot_be_read_is_an_error_not_an_empty_listing(unprivileged: Path, folders: bool):
    blackboard = LocalBlackboard(unprivileged)
    blackboard.create("a/locked/x", b"")
    (unprivileged / "a/locked").chmod(0)
    try:
        for prefix in ("a/", "a/locked/"):
            with pytest.raises(UnavailableError, match=r"locked.*Give the user who runs this access"):
                blackboard.page(prefix, folders=folders)
    finally:
        (unprivileged / "a/locked").chmod(0o700)


def test_what_may_not_be_read_or_written_says_so(unprivileged: Path):
    blackboard = LocalBlackboard(unprivileged)
    tag = blackboard.create("a/x", b"").tag
    (unprivileged / "a/x").chmod(0)
    (unprivileged / "a").chmod(0o500)
    try:
        for attempt in (
            lambda: blackboard.read("a/x"),
            lambda: blackboard.create("a/y", b""),
            lambda: blackboard.create("a/b/y", b""),
            lambda: blackboard.replace("a/x", b"", tag=tag),
            lambda: blackboard.delete("a/x"),
        ):
            with pytest.raises(UnavailableError, match="Permission denied"):
                attempt()
    finally:
        (unprivileged / "a").chmod(0o700)
    assert list((unprivileged / ".blackboard").iterdir()) == []


def test_a_copy_whose_source_is_deleted_meanwhile_is_whole(
    blackboard: LocalBlackboard, monkeypatch: pytest.MonkeyPatch
):
    blackboard.create("a/source", b"content")
    link = os.link

    def delete_first(*arguments: Any, **options: Any) -> None:
        blackboard.delete("a/source")
        link(*arguments, **options)

    monkeypatch.setattr("os.link", delete_first)
    blackboard.copy("a/source", "b/copy")

    monkeypatch.setattr("os.link", link)
    assert blackboard.read("b/copy").data == b"content"
    assert [entry.key for entry in blackboard.page("").entries] == ["b/copy"]
