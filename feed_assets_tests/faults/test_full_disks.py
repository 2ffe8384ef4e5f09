"""Full disks: each write fails with a message, leaves nothing half-done, and is done again when there is room."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.port import UnavailableError
from feed_assets.cli.main import main
from feed_assets.file_feed import Feed, history, latest, publish_files
from feed_assets.state.address import StoreError, sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests.harness import ADS, DAY, SHOP_ADS, Interposed, ads, write_sources

NOW = datetime(2019, 12, 1, 12, tzinfo=UTC)
PUTS = {
    "the claim": ("create", ".feed/claims/"),
    "a data file": ("upload", f"{DAY}/"),
    "the record": ("create", ".feed/records/"),
    "the manifest": ("create", f"{DAY}/"),
}


@pytest.mark.parametrize(("operation", "prefix"), PUTS.values(), ids=PUTS)
def test_a_publication_that_finds_the_disk_full_leaves_the_update_before_and_is_done_again(
    small_disk, tmp_path, operation, prefix
):
    source = tmp_path / "part-0.json"
    source.write_bytes(bytes(5000))
    board = LocalBlackboard(small_disk.path / "base")
    before = publish_files(Feed(board, "made/v1.0"), DAY, [source], now=NOW, owner="test")
    full = []

    def fill(asked: str, key: str) -> None:
        if asked == operation and key.startswith(f"made/v1.0/{prefix}") and not full:
            full.append(key)
            small_disk.fill()

    feed = Feed(Interposed(board, fill), "made/v1.0")

    with pytest.raises(UnavailableError, match=r"No space left on device.*Make room on the disk") as error:
        publish_files(feed, DAY, [source], now=NOW + timedelta(minutes=1), owner="test")

    assert full[0] in str(error.value)
    assert not error.value.transient
    assert latest(feed, DAY, now=NOW).name == before.name
    assert not list((small_disk.path / "base/.blackboard").iterdir())

    small_disk.make_room()
    again = publish_files(feed, DAY, [source], now=NOW + timedelta(minutes=2), owner="test")

    found = history(feed, DAY, now=NOW)
    assert [each.name for each in found if each.state == "valid"] == [again.name, before.name]


def test_gc_on_a_full_disk_says_how_little_it_needs_and_removes_when_it_has_that(small_disk, tmp_path, monkeypatch):
    source = tmp_path / "part-0.json"
    source.write_bytes(bytes(2**20))
    feed = Feed(LocalBlackboard(small_disk.path / "base"), "made/v1.0")
    for hour in range(2):
        publish_files(feed, DAY, [source], now=NOW + timedelta(hours=hour), owner="test")
    monkeypatch.setenv("FEED_ASSETS_AS_OF", "2020-02-01")
    small_disk.fill()
    command = ["feed", "gc", feed.uri, "--keep", "1", "--yes"]

    full = CliRunner().invoke(main, command)

    assert full.exit_code == 1
    assert "No space left on device" in full.stderr
    assert "gc needs a few kB to begin: free them outside the feed." in full.stderr
    with small_disk.ballast.open("ab") as ballast:
        ballast.truncate(small_disk.ballast.stat().st_size - 32 * 1024)
    assert CliRunner().invoke(main, command).exit_code == 0
    assert small_disk.free > 2**20
    assert len(history(feed, DAY, now=NOW)) == 1


def test_a_picture_that_finds_the_disk_full_leaves_the_one_before(small_disk, desk, monkeypatch):
    monkeypatch.setenv("FEED_ASSETS_BASE", str(desk.base))
    monkeypatch.setenv("FEED_ASSETS_SOURCES", str(desk.settings.sources_directory))
    monkeypatch.setenv("FEED_ASSETS_AS_OF", "2019-12-01T12:00:00")
    desk.raw_bytes(DAY, {"x": 1000})
    picture = small_disk.path / "late.png"
    picture.write_bytes(b"the picture before")
    small_disk.fill()

    full = CliRunner().invoke(main, ["late", "--picture", str(picture)])

    assert full.exit_code == 1
    assert "No space left on device" in full.stderr
    assert picture.read_bytes() == b"the picture before"
    assert set(small_disk.path.iterdir()) == {picture, small_disk.ballast}
    small_disk.make_room()
    assert CliRunner().invoke(main, ["late", "--picture", str(picture)]).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def program(monkeypatch, tmp_path, small_disk, spark):
    """Runs a command in this process, on a base and a Dagster home of which one is on the small disk."""
    del spark

    def run(*arguments: object, base: Path = tmp_path / "base", home: Path = tmp_path / "home") -> Result:
        home.mkdir(exist_ok=True)
        values = {
            "FEED_ASSETS_BASE": base,
            "DAGSTER_HOME": home,
            "FEED_ASSETS_SOURCES": write_sources(tmp_path / "sources", SHOP_ADS),
            "FEED_ASSETS_FIRST_DAY": "2019-11-20",
            "FEED_ASSETS_AS_OF": "2019-12-01T12:00:00",
        }
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))
        return CliRunner().invoke(main, [str(each) for each in arguments])

    return run


@pytest.fixture
def sent(tmp_path):
    """A partner's file of one day."""
    path = tmp_path / "sent.csv"
    columns = ["id", "time", "ad", "campaign", "user", "place", "cost"]
    rows = [",".join(str(row[each]) for each in columns) for row in ads(3000)]
    path.write_text("\n".join([",".join(columns), *rows, ""]))
    return path


BACKFILL = ("backfill", "--from", DAY, "--to", DAY, "--select", "clean_ads")


def shown(result):
    """What a command says when it fails, without a stack trace."""
    assert isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    assert "\tat " not in result.output
    return result.stderr


@pytest.mark.parametrize("part", [0.5, 1.05], ids=["copying the file", "Spark's write"])
def test_a_landing_that_finds_the_disk_full_adds_nothing_and_lands_all_when_there_is_room(
    small_disk, program, sent, part
):
    base = small_disk.path / "base"
    program("feeds", base=base)
    small_disk.fill(left=int(sent.stat().st_size * part))

    failed = program("land", "shop_ads", sent, base=base)

    assert failed.exit_code == 1
    assert re.search(rf"Error: {sent}: .*No space left on device.* again\.", shown(failed))
    assert [each for each in base.rglob("*") if each.is_file()] == []

    small_disk.make_room()
    landed = program("land", "shop_ads", sent, "--json", base=base)

    (landing,) = json.loads(landed.stdout)
    assert (landing["landed"], landing["already_landed"]) == (3000, False)
    assert sum(len(pq.read_table(each)) for each in base.glob("raw/ads/shop_ads/*/*/*.parquet")) == 3000
    (again,) = json.loads(program("land", "shop_ads", sent, "--json", base=base).stdout)
    assert again["already_landed"]


def test_a_backfill_whose_results_find_the_disk_full_says_what_is_needed_and_publishes_once_when_there_is_room(
    small_disk, program, sent
):
    base = small_disk.path / "base"
    assert program("land", "shop_ads", sent, base=base).exit_code == 0
    small_disk.fill(left=24 * 1024)

    failed = program(*BACKFILL, base=base)

    assert failed.exit_code == 1
    assert "No space is left. Free are 0.0 MiB for the data" in shown(failed)
    assert "then run the same backfill again" in failed.stderr
    feed = Feed(LocalBlackboard(base), ADS)
    assert latest(feed, DAY, now=NOW) is None

    small_disk.make_room()
    assert program(*BACKFILL, base=base).exit_code == 0
    (update,) = [each for each in history(feed, DAY, now=NOW) if each.state == "valid"]
    assert update.latest


def test_a_backfill_that_dagster_cannot_store_says_so_and_publishes_once_when_there_is_room(
    small_disk, program, sent, tmp_path
):
    base, home = tmp_path / "base", small_disk.path / "home"
    assert program("land", "shop_ads", sent).exit_code == 0
    home.mkdir()
    shutil.copy(Path(__file__).parents[2] / "dagster.yaml", home)
    small_disk.fill(left=16 * 1024)

    failed = program(*BACKFILL, home=home)

    assert failed.exit_code == 1
    assert f"which {home} configures, cannot be used: database or disk is full. Free space" in shown(failed)
    assert latest(Feed(LocalBlackboard(base), ADS), DAY, now=NOW) is None

    small_disk.make_room()
    assert program(*BACKFILL, home=home).exit_code == 0
    (update,) = [each for each in history(Feed(LocalBlackboard(base), ADS), DAY, now=NOW) if each.state == "valid"]
    assert update.latest


@pytest.mark.parametrize("there", [True, False], ids=["a database that is there", "a new database"])
def test_a_tick_that_cannot_record_its_requests_says_so_and_the_next_tick_requests_each_run_once(
    desk, small_disk, there
):
    file = small_disk.path / "state.db"
    store = Store(sqlite_url(file))
    if there:
        with store.writing():
            pass
    desk = replace(desk, settings=replace(desk.settings, state=sqlite_url(file)))
    desk.raw_bytes(DAY, {"x": 100})
    small_disk.fill()

    with pytest.raises(StoreError, match=rf"{file}.*Check.*that the disk has room"):
        desk.tick("late_growth")

    small_disk.make_room()
    assert desk.tick("late_growth").asked == {DAY: ("clean_ads",)}
    assert desk.tick("late_growth").asked == {}
