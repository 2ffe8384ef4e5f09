"""What is SQLite's own: the file, who else uses it, and files of others."""

from __future__ import annotations

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from feed_assets.delivery.errors import StoreUnusableError
from feed_assets.delivery.stores import sqlite
from feed_assets.delivery.stores.port import Change, Value
from feed_assets.delivery.stores.sqlite import SqliteStore

VERSION = b"1"


def test_a_writer_waits_for_another_process_and_a_lookup_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sqlite, "WAIT_SECONDS", 0.1)
    file = tmp_path / "stores.db"
    with SqliteStore(file) as store, closing(sqlite3.connect(file, isolation_level=None)) as other:
        store.apply("a", [Change("k", VERSION, b"x")])
        other.execute("BEGIN IMMEDIATE")
        assert store.get_many("a", ["k"], now=0) == {"k": Value(b"x", VERSION)}
        with pytest.raises(StoreUnusableError, match=f"^{store.title}: database is locked. Another process held"):
            store.apply("a", [Change("j", VERSION, b"x")])
        other.execute("ROLLBACK")
        assert store.apply("a", [Change("j", VERSION, b"x")]) == ["applied"]


def test_stores_that_are_opened_at_once_make_one_file(tmp_path: Path):
    def write(number: int) -> None:
        with SqliteStore(tmp_path / "stores.db") as store:
            store.apply("a", [Change(f"k{number}", VERSION, b"x")])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(8)))
    with SqliteStore(tmp_path / "stores.db") as store:
        assert len(store.get_many("a", [f"k{number}" for number in range(8)], now=0)) == 8


def test_a_store_waits_for_another_one_that_makes_the_file(tmp_path: Path):
    file = tmp_path / "stores.db"
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(1) as threads:
            opening = threads.submit(SqliteStore, file)
            with pytest.raises(TimeoutError):
                opening.result(0.1)
            other.execute("ROLLBACK")
            with opening.result() as store:
                assert store.apply("a", [Change("k", VERSION, b"x")]) == ["applied"]


def test_a_sweep_of_many_is_several_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with SqliteStore(tmp_path / "stores.db") as store:
        store.apply("a", [Change(f"k{number}", VERSION, None) for number in range(2 * sqlite.SWEPT_AT_ONCE + 1)])
        store.apply("b", [Change("k", VERSION, b"x")])
        assert store.sweep(before=time.time() - 60) == 0
        assert store.sweep(before=time.time() + 1) == 2 * sqlite.SWEPT_AT_ONCE + 1
        assert store.get_many("b", ["k"], now=0) == {"k": Value(b"x", VERSION)}


def test_a_repeated_delete_does_not_make_its_tombstone_younger(tmp_path: Path):
    with SqliteStore(tmp_path / "stores.db") as store:
        store.apply("a", [Change("k", VERSION, None)])
        time.sleep(0.01)  # the clock goes on
        later = time.time()
        store.apply("a", [Change("k", VERSION, None)])
        assert store.sweep(before=later) == 1


def test_a_store_after_its_block_says_so(tmp_path: Path):
    with SqliteStore(tmp_path / "stores.db") as store:
        pass
    with pytest.raises(StoreUnusableError, match=r"stores.db: Cannot operate on a closed database\. It is used after"):
        store.get_many("a", ["k"], now=0)


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("PRAGMA user_version = 2", "is no store of this feed_assets .schema 2, expected 1.: update feed_assets, or"),
        ("CREATE TABLE theirs (x)", "is no store of this feed_assets .schema 0, expected 1.: .*name another file"),
    ],
)
def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path, statement: str, shown: str):
    file = tmp_path / "theirs.db"
    with closing(sqlite3.connect(file)) as theirs:
        theirs.execute(statement)
        before = theirs.execute("SELECT * FROM sqlite_schema").fetchall()
        with pytest.raises(StoreUnusableError, match=shown):
            SqliteStore(file)
        assert theirs.execute("SELECT * FROM sqlite_schema").fetchall() == before


def test_what_is_no_database_and_a_missing_directory_are_named(tmp_path: Path):
    text = tmp_path / "text.db"
    text.write_text("no database " * 100)
    with pytest.raises(StoreUnusableError, match=f"{text}: file is not a database. Name another file"):
        SqliteStore(text)
    missing = tmp_path / "missing" / "stores.db"
    with pytest.raises(StoreUnusableError, match=f"{missing}: unable to open database file. Check that the directory"):
        SqliteStore(missing)
