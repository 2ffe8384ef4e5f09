"""Symbolic links in a feed and in its control area: commands refuse them, name them, and touch nothing behind them."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.port import InvalidKeyError
from feed_assets.cli.main import main
from feed_assets.file_feed import Feed, pin, publish_files, require_latest, tag

DAY = "2018-05-20"
NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
AREAS = ("claims", "records", "changes", "tags", "pins")
LONG_AGO = time.time() - 3 * 24 * 60 * 60


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "part-0.csv"
    source.write_text("id\n1\n")
    return source


@pytest.fixture
def feed(tmp_path: Path, source: Path) -> Feed:
    """Two updates of a day, the older of them tagged and pinned."""
    feed = Feed(LocalBlackboard(tmp_path / "base"), "made/v1.0")
    publish_files(feed, DAY, [source], now=NOW.replace(hour=15), owner="me")
    held = require_latest(feed, DAY, now=NOW)
    tag(feed, DAY, held.name, "kept")
    pin(feed, DAY, held.name, until=datetime(2100, 1, 1, tzinfo=UTC), holder="me")
    publish_files(feed, DAY, [source], now=NOW, owner="me")
    return feed


def moved_aside(place: Path, victim: Path) -> dict[str, bytes]:
    """Move a folder to where another user could have it, leave a link to it, and return what is in it."""
    place.rename(victim)
    place.symlink_to(victim)
    for path in victim.rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO))
    return {str(path): path.read_bytes() for path in victim.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "folder",
    [".blackboard", "made", "made/v1.0", "made/v1.0/.blackboard", "made/v1.0/.feed", f"made/v1.0/{DAY}"]
    + [f"made/v1.0/.feed/{area}" for area in AREAS]
    + [f"made/v1.0/.feed/{area}/{DAY}" for area in ("claims", "records", "tags", "pins")],
)
@pytest.mark.parametrize("inside", [False, True], ids=["out of the base", "inside the base"])
def test_no_command_that_writes_follows_a_link_in_the_place_of_a_folder(
    feed: Feed, source: Path, tmp_path: Path, folder: str, inside: bool
) -> None:
    base = tmp_path / "base"
    (base / "made/v1.0/.blackboard").mkdir()
    victim = base / "theirs" if inside else tmp_path / "victim"
    before = moved_aside(base / folder, victim)
    uri, update = f"{base}/made/v1.0", "20180521.150000"
    commands = (
        ("publish", uri, "--partition", DAY, source),
        ("invalidate", uri, "--partition", DAY, "--update", update, "--reason", "wrong"),
        ("tag", uri, "more", "--partition", DAY, "--update", update),
        ("pin", uri, "--partition", DAY, "--update", update, "--until", "7d"),
        ("gc", uri, "--keep", "1", "--younger-than", "1d", "--yes"),
    )
    if folder in {".blackboard", "made", "made/v1.0"}:
        # Whoever names the feed by its own path may name a link: so name the base above.
        with pytest.raises(InvalidKeyError, match="is a symbolic link, to"):
            publish_files(Feed(LocalBlackboard(base), "made/v1.0"), DAY, [source], now=NOW, owner="me")
    else:
        results = [run("feed", *command) for command in commands]
        assert any("is a symbolic link, to" in each.stderr and each.exit_code == 1 for each in results)
        assert not any("Traceback" in each.output for each in results)
    after = {str(path): path.read_bytes() for path in victim.rglob("*") if path.is_file()}
    assert before.items() <= after.items()


@pytest.mark.parametrize("what", ["file", "twice", "nowhere", "folder"])
def test_verify_names_the_links_of_an_update_and_no_reader_gets_their_uris(
    feed: Feed, tmp_path: Path, what: str
) -> None:
    base = tmp_path / "base"
    update = base / "made/v1.0" / DAY / "20180521.160000"
    secret = tmp_path / "theirs/secret.csv"
    secret.parent.mkdir()
    secret.write_text("id\n2\n")
    (tmp_path / "between").symlink_to(secret)
    targets = {"file": secret, "twice": tmp_path / "between", "nowhere": tmp_path / "nowhere", "folder": secret.parent}
    (update / "part-0.csv").unlink()
    (update / "part-0.csv").symlink_to(targets[what])

    verified = run("feed", "verify", f"{base}/made/v1.0", "--json")

    assert verified.exit_code == 1
    (link,) = [each for each in json.loads(verified.stdout) if each["kind"] == "link"]
    assert (link["weight"], link["partition"], link["update"]) == ("fault", DAY, "20180521.160000")
    leads_to = secret if what == "twice" else targets[what]
    assert f"part-0.csv is a symbolic link out of the feed's base, to {leads_to}: readers refuse it" in link["message"]
    assert "part-0.csv is a symbolic link" in run("feed", "verify", f"{base}/made/v1.0").stdout
    files = run("feed", "files", f"{base}/made/v1.0", "--partition", DAY)
    assert files.exit_code == 1
    assert f"part-0.csv is reached over a symbolic link, to {leads_to}, and is not read" in files.stderr
    diff = run("feed", "diff", f"{base}/made/v1.0", "--partition", DAY, "--key", "id")
    assert diff.exit_code == 1
    assert "reached over a symbolic link" in diff.stderr


@pytest.mark.parametrize(
    "key", [f"{DAY}/20180521.160000/_SUCCESS", f"{DAY}/20180521.160000", ".feed/claims", ".feed/records"]
)
def test_verify_names_links_in_the_place_of_a_manifest_an_update_a_claim_and_a_record(
    feed: Feed, tmp_path: Path, key: str
) -> None:
    place = tmp_path / "base/made/v1.0" / key
    if key.startswith(".feed"):
        place = next((place / DAY).glob("20180521.160000*"))
    place.rename(tmp_path / "theirs")
    place.symlink_to(tmp_path / "theirs")

    verified = run("feed", "verify", f"{tmp_path}/base/made/v1.0", "--json")

    assert verified.exit_code == 1
    links = [each["message"] for each in json.loads(verified.stdout) if each["kind"] == "link"]
    assert len(links) == 1
    assert place.name in links[0]
    assert f"to {tmp_path}/theirs: readers refuse it" in links[0]


def test_a_base_and_a_feed_that_somebody_names_over_a_link_are_used_as_any_other(
    feed: Feed, source: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").symlink_to(tmp_path / "base")
    (tmp_path / "feed").symlink_to(tmp_path / "data/made/v1.0")
    for uri in (tmp_path / "data/made/v1.0", tmp_path / "feed"):
        assert run("feed", "publish", uri, "--partition", DAY, source).exit_code == 0
        assert run("feed", "verify", uri).exit_code == 0
        assert run("feed", "files", uri, "--partition", DAY).exit_code == 0
