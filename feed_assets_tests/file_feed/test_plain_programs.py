"""Programs with nothing but a shell take part: they write for the library, and read what it wrote."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.file_feed import (
    Feed,
    begun,
    invalidate,
    is_latest,
    latest,
    latest_of_all,
    open_feed,
    partitions,
    publish_files,
    read_file,
    require_latest,
)

NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
DAY = "2018-05-20"

WRITE = r"""
# usage: write <partition folder> <update> <line>...: one file for each line
folder=$1/$2; shift 2
mkdir -p "$folder"
number=0
for line in "$@"; do
  printf '%s\n' "$line" > "$folder/part-$number"
  number=$((number + 1))
done
printf '%s' "$number" > "$folder/../.manifest.$$"
mv "$folder/../.manifest.$$" "$folder/_SUCCESS"
"""

READ = r"""
# usage: read <partition folder>: the latest update's name, then its content
cd "$1" || exit
for update in $(ls | grep -E '^[0-9]{8}\.[0-9]{6}$' | sort -r); do
  stated=$(cat "$update/_SUCCESS" 2>/dev/null || echo none)
  there=$(find "$update" -type f ! -path "$update/_SUCCESS" | wc -l)
  if [ "$stated" = "$((there))" ]; then
    echo "$update"
    for file in $(ls -A "$update" | sort); do
      [ "$file" = _SUCCESS ] || cat "$update/$file"
    done
    exit
  fi
done
echo none
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "ads" / "v1.0"


@pytest.fixture
def feed(root: Path) -> Feed:
    return open_feed(str(root))


def shell(script: str, *arguments: object) -> str:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    done = subprocess.run(
        [bash, "-eu", "-c", script, "plain", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def plainly(root: Path) -> tuple[str, str]:
    name, _, content = shell(READ, root / DAY).partition("\n")
    return name, content


def by_library(feed: Feed) -> tuple[str, str]:
    update = latest(feed, DAY, now=NOW)
    if update is None:
        return "none", ""
    return update.name, "".join(read_file(update, file).decode() for file in update.files)


def publish_lines(feed: Feed, folder: Path, *lines: str, now: datetime = NOW) -> str:
    folder.mkdir()
    for number, line in enumerate(lines):
        (folder / f"part-{number}").write_text(f"{line}\n")
    return publish_files(feed, DAY, sorted(folder.iterdir()), now=now, owner="test").name


def test_the_library_reads_what_a_shell_wrote(root: Path, feed: Feed) -> None:
    shell(WRITE, root / DAY, "20180521.150000", "one", "two")
    assert by_library(feed) == plainly(root) == ("20180521.150000", "one\ntwo\n")
    shell(WRITE, root / DAY, "20180521.150001", "three")
    assert by_library(feed) == plainly(root) == ("20180521.150001", "three\n")
    assert partitions(feed) == [DAY]


def test_a_shell_reads_what_the_library_wrote(root: Path, feed: Feed, tmp_path: Path) -> None:
    name = publish_lines(feed, tmp_path / "new", "one", "two")
    assert plainly(root) == by_library(feed) == (name, "one\ntwo\n")


def test_both_take_turns(root: Path, feed: Feed, tmp_path: Path) -> None:
    shell(WRITE, root / DAY, "20180521.160000", "by shell")
    name = publish_lines(feed, tmp_path / "a", "by library")
    assert name == "20180521.160001"
    assert plainly(root) == by_library(feed) == (name, "by library\n")
    shell(WRITE, root / DAY, "20180521.160002")
    assert plainly(root) == by_library(feed) == ("20180521.160002", "")
    assert publish_lines(feed, tmp_path / "b", "again") == "20180521.160003"


def test_a_shell_invalidates_what_the_library_published(root: Path, feed: Feed, tmp_path: Path) -> None:
    shell(WRITE, root / DAY, "20180521.150000", "before")
    name = publish_lines(feed, tmp_path / "new", "wrong")
    held = require_latest(feed, DAY, now=NOW)
    shell('touch "$1/$2/extra"', root / DAY, name)
    assert plainly(root) == by_library(feed) == ("20180521.150000", "before\n")
    assert not is_latest(held)
    shell('rm "$1/$2/extra"', root / DAY, name)
    assert plainly(root) == by_library(feed) == (name, "wrong\n")
    shell('rm "$1/$2/_SUCCESS"', root / DAY, name)
    assert plainly(root) == by_library(feed) == ("20180521.150000", "before\n")


@pytest.mark.parametrize("author", ["shell", "library"])
def test_the_library_invalidates_for_a_shell(root: Path, feed: Feed, tmp_path: Path, author: str) -> None:
    shell(WRITE, root / DAY, "20180521.150000", "before")
    if author == "shell":
        shell(WRITE, root / DAY, "20180521.160000", "wrong")
    else:
        publish_lines(feed, tmp_path / "new", "wrong")
    invalidate(feed, DAY, "20180521.160000", reason="wrong", author="me", now=NOW)
    assert plainly(root) == by_library(feed) == ("20180521.150000", "before\n")


@pytest.mark.parametrize(
    "spoil",
    [
        'rm "$1/20180521.160000/_SUCCESS"',
        'printf "" > "$1/20180521.160000/_SUCCESS"',
        'printf "+1" > "$1/20180521.160000/_SUCCESS"',
        'printf "1.0" > "$1/20180521.160000/_SUCCESS"',
        'printf \'{"files": 1}\' > "$1/20180521.160000/_SUCCESS"',
        'mkdir "$1/20180521.160000/_temporary"; touch "$1/20180521.160000/_temporary/part-0"',
        'touch "$1/20180521.160000/.part-0.crc"',
        'rm "$1/20180521.160000/part-0"',
        'mv "$1/20180521.160000" "$1/20180230.000000"',
        'mv "$1/20180521.160000" "$1/20180521.160000.bak"',
    ],
)
def test_both_pass_over_what_is_not_whole(root: Path, feed: Feed, spoil: str) -> None:
    shell(WRITE, root / DAY, "20180521.150000", "before")
    shell(WRITE, root / DAY, "20180521.160000", "wrong")
    shell(spoil, root / DAY)
    assert plainly(root) == by_library(feed) == ("20180521.150000", "before\n")


@pytest.mark.parametrize("manifest", ["1\\n", "1"])
def test_a_shell_may_end_the_manifest_with_a_newline(root: Path, feed: Feed, manifest: str) -> None:
    shell(WRITE, root / DAY, "20180521.160000", "one")
    shell(f'printf "{manifest}" > "$1/20180521.160000/_SUCCESS"', root / DAY)
    assert plainly(root) == by_library(feed) == ("20180521.160000", "one\n")


def test_without_the_control_area_everything_is_read_and_written_as_before(
    root: Path, feed: Feed, tmp_path: Path
) -> None:
    first = publish_lines(feed, tmp_path / "a", "one", now=NOW - timedelta(hours=1))
    second = publish_lines(feed, tmp_path / "b", "two")
    everything = latest_of_all(feed, now=NOW)
    shutil.rmtree(root / ".feed")
    assert by_library(feed) == plainly(root) == (second, "two\n")
    assert latest_of_all(feed, now=NOW) == everything
    assert require_latest(feed, DAY, now=NOW, as_of=begun(first)).name == first
    third = publish_lines(feed, tmp_path / "c", "three")
    assert third > second
    invalidate(feed, DAY, second, reason="wrong", author="me", now=NOW)
    assert by_library(feed) == plainly(root) == (third, "three\n")


def test_ls_shows_an_update_as_people_expect(root: Path, feed: Feed, tmp_path: Path) -> None:
    publish_lines(feed, tmp_path / "new", "one", "two")
    assert shell('ls "$1"', root / DAY / "20180521.160000") == "_SUCCESS\npart-0\npart-1\n"
    assert shell('cat "$1"', root / DAY / "20180521.160000" / "_SUCCESS") == "2"
    assert shell('ls "$1"', root) == f"{DAY}\n"


def test_a_version_beside_another_is_its_own_feed(root: Path, feed: Feed, tmp_path: Path) -> None:
    shell(WRITE, root / DAY, "20180521.150000", "v1.0")
    for other in ("v1.0-beta", "v2.0", "v1.0.1"):
        shell(WRITE, root.parent / other / DAY, "20180521.160000", other)
    assert by_library(feed) == plainly(root) == ("20180521.150000", "v1.0\n")
    beta = Feed(LocalBlackboard(tmp_path), "ads/v1.0-beta")
    assert by_library(beta) == ("20180521.160000", "v1.0-beta\n")
