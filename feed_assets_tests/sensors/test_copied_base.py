"""A base that was copied, restored or moved on a disk runs nothing again, but what really differs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, timedelta
from importlib import import_module
from pathlib import Path

import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.datasets.days import hour_name
from feed_assets.late_data import raw_growth
from feed_assets.late_data.complete_hours import due_hours
from feed_assets.sources import known_contents
from feed_assets.sources.known_contents import known_by_tags, remembered
from feed_assets.sources.loading import load_sources
from feed_assets.sources.raw import changed_raw_files, evening, read_set
from feed_assets_tests.harness import ADS, DAY, NEXT_DAY, SHOP_ADS, Installation, ads, write_sources

LATE_GROWTH = import_module("feed_assets.sensors.late_growth")
DIGESTS = known_contents.digests

Desk = Installation


@pytest.fixture(autouse=True)
def _as_in_a_new_process() -> Iterator[None]:
    for cache in (known_contents._RECOGNIZED, known_contents._REMEMBERED, raw_growth._ANSWERS):
        cache.clear()
    return


@pytest.fixture
def processed(desk: Desk) -> Desk:
    """Two days of ads, the second with the evening of the first, processed; and a tick."""
    for day in (DAY, NEXT_DAY):
        desk.raw_bytes(day, {"a": 1000, "b": 1000})
        desk.raw_bytes(day, {"evening": 500}, hour="23")
    desk.process(DAY)
    first, second = (read_set(desk.board, "ads/shop_ads", date.fromisoformat(day)) for day in (DAY, NEXT_DAY))
    desk.make(ADS, NEXT_DAY, [second, evening(first, 1)])
    assert desk.tick("late_growth").asked == {}
    return desk


def copied(desk: Desk, copy: Callable[[Path, Path], object]) -> Desk:
    """The same installation on a copy of its base, with a Dagster and a state database that know nothing."""
    to = desk.base.with_name("copy")
    copy(desk.base, to)
    shutil.rmtree(to / ".state", ignore_errors=True)
    settings = replace(desk.settings, base=str(to), state=f"sqlite:///{to}/.state/state.db")
    return replace(desk, settings=settings, cursors={}, _definitions=None)


def by(*command: str) -> Callable[[Path, Path], object]:
    return lambda old, new: subprocess.run([*command, old, new], check=True)


def restored_from_a_tar(old: Path, new: Path) -> None:
    new.mkdir()
    subprocess.run(["tar", "-cf", new.with_suffix(".tar"), "-C", old, "."], check=True)
    subprocess.run(["tar", "-xf", new.with_suffix(".tar"), "-C", new], check=True)


def read_bytes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of the files whose content is read from now on."""
    read: list[str] = []

    def noted(board, keys, **more):
        read.extend(keys)
        return DIGESTS(board, keys, **more)

    monkeypatch.setattr(known_contents, "digests", noted)
    return read


@pytest.mark.parametrize("copy", [by("cp", "-r"), by("cp", "-a"), restored_from_a_tar], ids=["cp -r", "cp -a", "tar"])
def test_a_copied_base_runs_nothing_again(processed: Desk, copy) -> None:
    new = copied(processed, copy)

    tick = new.tick("late_growth")

    assert tick.asked == {}
    assert "unchanged" in tick.skipped


def test_a_copied_file_is_read_once_whoever_looks(processed: Desk, monkeypatch) -> None:
    new = copied(processed, by("cp", "-r"))
    read = read_bytes(monkeypatch)

    for _ in range(2):
        assert new.tick("late_growth").asked == {}
    assert len(read) == 6
    known_contents._RECOGNIZED.clear()
    known_contents._REMEMBERED.clear()
    assert new.tick("late_growth").asked == {}  # another process

    assert len(read) == 6


@pytest.mark.parametrize("keeps_time", [False, True])
def test_of_a_copy_only_the_day_of_a_file_that_differs_runs_again(processed: Desk, keeps_time: bool) -> None:
    new = copied(processed, by("cp", "-a"))
    (path,) = (new.base / f"raw/ads/shop_ads/{DAY}").rglob("a.parquet")
    before = path.stat()
    path.write_bytes(b"y" * 1000)
    if keeps_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert new.tick("late_growth").asked == {DAY: ("clean_ads",)}


def test_late_data_in_a_copy_counts_against_what_was_read(processed: Desk) -> None:
    new = copied(processed, by("cp", "-r"))
    new.raw_bytes(DAY, {"late": 100})

    tick = new.tick("late_growth")

    assert tick.asked == {}
    assert "below threshold" in tick.skipped
    new.raw_bytes(DAY, {"later": 100})
    assert new.tick("late_growth").asked == {DAY: ("clean_ads",)}


def test_a_state_that_was_rejected_is_not_tried_again_in_a_copy(processed: Desk) -> None:
    processed.raw_bytes(DAY, {"late": 1000})
    remembered(processed.board, read_set(processed.board, "ads/shop_ads", date.fromisoformat(DAY)))
    processed.process(good=False)

    assert copied(processed, by("cp", "-r")).tick("late_growth").asked == {}


def test_a_base_that_is_copied_again_and_one_that_goes_back_run_nothing_again(processed: Desk) -> None:
    new = copied(processed, by("cp", "-r"))
    assert new.tick("late_growth").asked == {}
    shutil.rmtree(processed.base)
    new.base.rename(processed.base)
    assert processed.tick("late_growth").asked == {}
    (path,) = (processed.base / f"raw/ads/shop_ads/{DAY}").rglob("a.parquet")
    path.write_bytes(b"y" * 1000)
    assert processed.tick("late_growth").asked == {DAY: ("clean_ads",)}
    path.write_bytes(b"x" * 1000)

    assert processed.at(processed.now + timedelta(hours=1)).tick("late_growth").asked == {}


def test_after_a_day_of_a_copy_ran_the_day_that_read_its_evening_does_not_run(processed: Desk) -> None:
    new = copied(processed, by("cp", "-r"))
    assert new.tick("late_growth").asked == {}
    new.raw_bytes(DAY, {"late": 1000})
    assert new.tick("late_growth").asked == {DAY: ("clean_ads",)}
    new.process()

    assert new.tick("late_growth").asked == {}


def test_a_large_copy_is_compared_over_several_ticks_and_decided_when_that_is_done(
    processed: Desk, monkeypatch
) -> None:
    new = copied(processed, by("cp", "-r"))
    read = read_bytes(monkeypatch)
    monkeypatch.setattr(LATE_GROWTH, "TICK_SECONDS", -1)
    monkeypatch.setattr(known_contents, "BYTES_AT_ONCE", 1)

    ticks = [new.tick("late_growth") for _ in range(10)]

    assert all(tick.asked == {} for tick in ticks)
    assert "copied files are compared, the next tick goes on" in ticks[0].skipped
    assert len(read) == 6
    assert "unchanged" in ticks[-1].skipped


def test_a_step_that_reads_copied_files_reads_them_under_the_tags_that_stand_for_them(processed: Desk) -> None:
    before = read_set(processed.board, "ads/shop_ads", date.fromisoformat(DAY))
    new = copied(processed, by("cp", "-r"))
    now = read_set(new.board, "ads/shop_ads", date.fromisoformat(DAY))
    assert now != before

    as_known = remembered(new.board, now)

    assert as_known == before
    assert known_by_tags(new.board, now) == before
    assert changed_raw_files(new.board, [as_known]) == []
    (path,) = (new.base / f"raw/ads/shop_ads/{DAY}").rglob("a.parquet")
    path.write_bytes(b"y" * 1000)
    assert changed_raw_files(new.board, [as_known]) == [path.as_uri()]


def test_without_known_contents_a_copied_file_counts_as_replaced(processed: Desk) -> None:
    shutil.rmtree(processed.base / "raw/.contents")

    new = copied(processed, by("cp", "-r"))

    assert set(new.tick("late_growth").asked) == {DAY, NEXT_DAY}


def test_contents_that_are_damaged_are_replaced(processed: Desk) -> None:
    (kept,) = (processed.base / "raw/.contents").rglob(f"{DAY}.json")
    kept.write_text("{")
    known_contents._REMEMBERED.clear()
    assert processed.tick("late_growth").asked == {}

    assert copied(processed, by("cp", "-r")).tick("late_growth").asked == {}


def test_a_new_source_and_a_copy_hold_up_nothing(processed: Desk) -> None:
    write_sources(processed.settings.sources_directory / "more", SHOP_ADS.replace("shop_ads", "new_ads"))
    (processed.settings.sources_directory / "more/0.yaml").rename(processed.settings.sources_directory / "new.yaml")

    assert copied(processed, by("cp", "-r")).tick("late_growth").asked == {}


def test_a_run_keeps_what_it_read_so_that_a_copy_right_after_it_runs_nothing_again(shop: Desk) -> None:
    for day in (DAY, NEXT_DAY):
        shop.land(ads(20, day), "ads/shop_ads", f"of {day}")
        assert shop.run("clean_ads", day=day).success
    new = copied(shop, by("cp", "-r"))

    assert new.tick("late_growth").asked == {}
    (path,) = (new.base / f"raw/ads/shop_ads/{NEXT_DAY}").rglob("*.parquet")
    content = bytearray(path.read_bytes())
    content[10] ^= 1
    path.write_bytes(content)
    assert new.tick("late_growth").asked == {NEXT_DAY: ("clean_ads",)}


def test_hours_of_a_copy_that_were_checked_are_not_due_and_one_that_differs_is(desk: Desk) -> None:
    day, checked = str(desk.now.date() - timedelta(days=1)), "checked/ads/shop_ads/v1"
    for hour in ("11", "12"):
        desk.raw_bytes(day, {"x": 1000}, hour=hour)
    read = remembered(desk.board, read_set(desk.board, "ads/shop_ads", date.fromisoformat(day)))
    for hour in ("11", "12"):
        desk.make(checked, hour_name(day, hour), [read.during([hour])])
    new = copied(desk, by("cp", "-r"))
    (source,) = (each for each in load_sources(desk.settings.sources_directory, KINDS) if each.key == "ads/shop_ads")

    def due() -> list[str]:
        found = due_hours(new.board, source, [source], new.feed(checked), now=new.now)
        return [each.partition for each in found]

    assert due() == []
    (path,) = (new.base / f"raw/ads/shop_ads/{day}/12").iterdir()
    path.write_bytes(b"y" * 1000)
    assert due() == [hour_name(day, "12")]


def test_a_copied_base_asks_for_no_run_of_a_flow_with_a_trigger_either(desk: Desk) -> None:
    gated = replace(desk, settings=replace(desk.settings, gate=True), _definitions=None)
    gated.raw_bytes(DAY, {"a": 1000, "b": 1000})
    gated.process(DAY)
    assert gated.tick("starts").asked == {}

    new = copied(gated, by("cp", "-r"))
    assert new.tick("starts").asked == {}
