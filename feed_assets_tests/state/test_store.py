"""A store on both databases: who asks, what a reader of the event log sees, and what becomes of a crash or an error."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from alembic.script import ScriptDirectory

from feed_assets.starts.attempt import Attempt, State
from feed_assets.starts.attempts import LOG
from feed_assets.starts.tables import newest_attempts, save_attempts
from feed_assets.state import address, event_log, schema, store
from feed_assets.state.address import StoreError, sqlite_url, state_url
from feed_assets.state.store import Store
from feed_assets_tests import ROOT
from feed_assets_tests.state import asking
from feed_assets_tests.state.server import SECRET, new_database
from feed_assets_tests.waiting import until

NOW = datetime(2019, 12, 1, tzinfo=UTC)
BASE, PLACE = "file:///base", ("ads/v1", "2019-11-24")
BRANCH = """
from alembic import op
from sqlalchemy import Column, Integer

revision = "room_0001_of_a_room"
down_revision = None


def upgrade():
    op.create_table("feed_assets_of_a_room", Column("id", Integer, primary_key=True))
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "state.db"


def started(url, what):
    """A process that runs `asking`."""
    command = [sys.executable, "-m", "feed_assets_tests.state.asking", url, what]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def ask(url, state="1", place=PLACE):
    with Store(url).writing() as transaction:
        put(transaction, state, place)


def put(transaction, state, place=PLACE):
    """A row and its event."""
    flow, slot = place
    key = f"{flow}:{slot}:{state[:9]}"
    attempt = Attempt(flow, slot, 1, key, state, State.REQUESTED, tries=1, most=3, requested=NOW)
    save_attempts(transaction, BASE, [attempt], NOW)


def state_of(connection, place=PLACE):
    """The state that is on record."""
    found = newest_attempts(connection, BASE, [place])
    return found[place].digest if found else None


def refused(url, state="1"):
    """What is said of a database that cannot be used, whoever shows the error."""
    with pytest.raises(StoreError) as error:
        ask(url, state)
    shown = "".join(traceback.format_exception(error.value))
    assert SECRET not in shown + repr(Store(url))
    return str(error.value)


def test_threads_and_processes_that_find_an_empty_database_and_the_same_days_ask_once_and_log_without_a_gap(database):
    racing, seen, read = [started(database, "race") for _ in range(2)], [], Store(database)

    def have_ended():
        seen.extend(read.events(len(seen), log=LOG, limit=3))
        assert [event.sequence for event in seen] == list(range(1, len(seen) + 1))
        return all(process.poll() is not None for process in racing)

    try:
        until(have_ended, every=0)
        asked = sorted(day for process in racing for day in process.communicate()[0].split())
    finally:
        for process in racing:
            process.kill()
            process.wait()

    assert [process.returncode for process in racing] == [0, 0]
    assert asked == asking.DAYS
    events = read.events(log=LOG)
    assert [event.sequence for event in events] == list(range(1, 2 * len(asking.DAYS) + 1))
    assert len({(event.details["flow"], event.details["slot"]) for event in events}) == len(events)


def test_writers_wait_for_each_other_in_a_database_whose_transactions_keep_one_view_of_the_data(server):
    url = new_database(server)
    with psycopg.connect(url, autocommit=True) as connection:
        name = url.rpartition("/")[2]
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'".encode())
    shared = Store(url)

    def append(_):
        with shared.writing() as transaction:
            transaction.append("a test", NOW, {})

    append(0)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(append, range(40)))

    assert len(shared.events()) == 41


def test_a_database_without_an_encoding_can_be_used(server):
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE of_any_bytes ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE 'C'")
    url, place = f"{server}/of_any_bytes", ("file:///広告", "2019-11-24")
    ask(url, place=place)

    assert Store(url).events()[0].details["flow"] == place[0]


def test_a_process_that_dies_before_its_commit_leaves_nothing_and_holds_up_nobody(database):
    assert started(database, "before").wait() == 9

    ask(database)

    (event,) = Store(database).events()
    assert (event.sequence, event.kind, event.at) == (1, "attempt requested", NOW)
    assert (event.details["flow"], event.details["slot"], event.details["digest"]) == (*PLACE, "1")


def test_what_a_process_had_committed_when_it_died_is_asked_for(database):
    assert started(database, "after").wait() == 9

    assert asking.tick(database, asking.DAYS[0]) == []
    assert asking.tick(database, asking.DAYS[1]) == [asking.DAYS[1]]


def test_an_error_undoes_the_change_and_its_events(database):
    ask(database)

    def mistaken():
        with Store(database).writing() as transaction:
            put(transaction, "2")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        mistaken()
    with Store(database).reading() as connection:
        assert state_of(connection) == "1"
    ask(database, "3")
    assert [(event.sequence, event.details["digest"]) for event in Store(database).events()] == [(1, "1"), (2, "3")]
    assert [event.sequence for event in Store(database).events(after=1)] == [2]


def test_old_events_go_when_newer_ones_come_and_the_rest_keep_their_numbers_and_their_order(database):
    log = Store(database)
    # An event may be dated before the event that precedes it: it stays behind that one.
    for days in (0, 40, 2, 41, 50):
        with log.writing() as transaction:
            transaction.append("tested", (NOW + timedelta(days=days)).astimezone(timezone(timedelta(hours=9))), {})

    assert [event.sequence for event in log.events()] == [2, 3, 4, 5]
    with log.writing() as transaction:
        assert transaction.append("tested", NOW + timedelta(days=71), {}) == 6
    assert [event.sequence for event in log.events()] == [4, 5, 6]
    assert [event.sequence for event in log.events(after=4)] == [5, 6]


def test_a_reader_sees_the_last_commit_while_somebody_writes(database):
    ask(database)

    with Store(database).writing() as transaction:
        put(transaction, "2")
        with Store(database).reading() as connection:
            assert state_of(connection) == "1"
        assert state_of(transaction.connection) == "2"


def test_many_places_are_a_query_for_each_thousand(database):
    places = [(feed, str(number)) for feed in ("ads/v1", "clicks/v1") for number in range(1200)]
    known = [places[0], places[-1]]
    for place in known:
        ask(database, place=place)
    queries = []

    def count(_connection, _cursor, statement, *_more):
        queries.extend([statement] if "feed_assets_attempts" in statement else [])

    sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", count)
    try:
        with Store(database).reading() as connection:
            found = newest_attempts(connection, BASE, places)
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", count)

    assert (sorted(found), len(queries)) == (sorted(known), 3)


def test_a_database_of_a_newer_program_is_refused_and_left_as_it_is(database):
    ask(database)
    with closing(sqlalchemy.create_engine(state_url(database)).connect()) as connection:
        connection.execute(sqlalchemy.text("INSERT INTO feed_assets_version VALUES ('9999')"))
        connection.commit()

    assert "has the schema 9999, made by a newer feed_assets: update feed_assets" in refused(database)
    with pytest.raises(StoreError, match="9999"):
        Store(database).events()


def test_the_newest_schemas_have_the_names_of_their_modules():
    folders = [str(folder) for folder in schema.branches().values()]
    script = ScriptDirectory(str(schema.ENVIRONMENT), version_locations=folders)

    assert set(script.get_heads()) == schema.newest()


def test_a_room_with_tables_has_a_branch_of_migrations_of_its_own(database, tmp_path, monkeypatch):
    ask(database)
    branch = tmp_path / "room" / "migrations" / "versions"
    branch.mkdir(parents=True)
    (branch / "v0001_of_a_room.py").write_text(BRANCH, encoding="utf-8")
    monkeypatch.setattr(schema, "branches", lambda found=schema.branches: {**found(), "room": branch})
    schema.newest.cache_clear()
    try:
        with Store(database).writing() as transaction:
            transaction.connection.execute(sqlalchemy.text("INSERT INTO feed_assets_of_a_room VALUES (1)"))
        assert Store(database).is_current()
        assert len(Store(database).events()) == 1
    finally:
        schema.newest.cache_clear()


def test_who_uses_a_database_of_the_newest_schema_loads_no_alembic(database):
    ask(database)
    code = """
import sys
from feed_assets.state.store import Store
assert len(Store(sys.argv[1]).events()) == 1
assert "alembic" not in sys.modules
"""

    assert subprocess.run([sys.executable, "-c", code, database], cwd=ROOT, check=False).returncode == 0


def test_a_database_that_other_programs_use_is_shared(database):
    url = state_url(database)
    if url.drivername == "sqlite":
        Path(url.database).parent.mkdir()
    with closing(sqlalchemy.create_engine(url).connect()) as connection:
        for table in ("alembic_version (version_num text)", "events (id int)"):
            connection.execute(sqlalchemy.text(f"CREATE TABLE {table}"))
        connection.execute(sqlalchemy.text("INSERT INTO alembic_version VALUES ('dagster')"))
        connection.commit()

    ask(database)

    assert len(Store(database).events()) == 1


def test_a_file_that_is_deleted_while_a_store_is_open_is_made_again(file):
    held = Store(sqlite_url(file))
    ask(sqlite_url(file))
    assert len(held.events()) == 1
    file.unlink()

    assert (held.events(), file.exists()) == ([], False)
    ask(sqlite_url(file))
    assert len(held.events()) == 1


def test_a_file_is_made_again_without_the_log_that_a_killed_process_left_of_the_deleted_one(file):
    log = file.with_name("state.db-wal")
    ask(sqlite_url(file))
    with Store(sqlite_url(file)).reading() as connection:
        connection.execute(sqlalchemy.select(event_log.EVENTS))  # so that the log is not emptied
        for _ in range(10):
            ask(sqlite_url(file), "1" * 1000)
        left = log.read_bytes()
    file.unlink()
    log.write_bytes(left)

    ask(sqlite_url(file))
    ask(sqlite_url(file), "2")
    assert [event.sequence for event in Store(sqlite_url(file)).events()] == [1, 2]


@pytest.mark.parametrize(("local", "journal"), [(True, "wal"), (False, "delete")])
def test_a_write_ahead_log_is_kept_on_disks_of_this_machine_only(file, monkeypatch, local, journal):
    monkeypatch.setattr(store, "on_local_disk", lambda _: local)

    ask(sqlite_url(file))

    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == (journal,)


def test_linux_tells_which_disks_are_local(tmp_path, monkeypatch):
    kinds = {line.split()[2] for line in Path("/proc/mounts").read_text().splitlines()}
    monkeypatch.setattr(address, "LOCAL_FILE_SYSTEMS", kinds)
    assert address.on_local_disk(tmp_path)
    monkeypatch.setattr(address, "LOCAL_FILE_SYSTEMS", {"proc"})
    assert address.on_local_disk(Path("/proc/self"))
    assert not address.on_local_disk(tmp_path)


def test_a_file_that_somebody_keeps_locked_is_named(file, monkeypatch):
    monkeypatch.setattr(store, "WAIT_SECONDS", 0.1)
    ask(sqlite_url(file))

    with closing(sqlite3.connect(file)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        message = refused(sqlite_url(file))

    assert f"{file} cannot be used: database is locked. " in message
    assert "no program locks the file" in message


def test_a_full_disk_is_named_and_nothing_is_damaged(file):
    ask(sqlite_url(file))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16384, hard))
    try:
        message = refused(sqlite_url(file), state="x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))

    assert "state.db cannot be used: " in message
    assert "that the disk has room" in message
    count = len(Store(sqlite_url(file)).events())
    ask(sqlite_url(file))
    assert len(Store(sqlite_url(file)).events()) == count + 1


def test_a_file_that_this_user_may_not_write_is_named():
    folder = Path(tempfile.mkdtemp())  # where another user gets, who is not root, for whom everything is allowed
    try:
        ask(sqlite_url(folder / "state.db"))
        folder.chmod(0o555)
        (folder / "state.db").chmod(0o444)
        os.seteuid(os.geteuid() or 65534)
        assert f"{folder}/state.db cannot be used: " in refused(sqlite_url(folder / "state.db"))
    finally:
        os.seteuid(os.getuid())
        folder.chmod(0o700)
        shutil.rmtree(folder)


def test_a_file_and_its_log_can_be_written_by_a_group_that_the_mask_of_new_files_lets_write(file):
    before = os.umask(0o002)
    try:
        ask(sqlite_url(file))
        with Store(sqlite_url(file)).writing():
            modes = {each.name: f"{each.stat().st_mode & 0o777:o}" for each in file.parent.glob("state.db*")}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("state.db", "state.db-shm", "state.db-wal"), "664")


def test_a_file_that_is_no_database_and_a_path_that_is_none_are_named(file):
    file.write_text("no database, but long enough to be looked at" * 100, encoding="utf-8")

    assert f"{file} cannot be used: file is not a database" in refused(sqlite_url(file))
    assert "cannot be used: [Errno" in refused(sqlite_url(file / "below" / "state.db"))


def test_a_server_that_cannot_be_used_is_named_without_the_password(server):
    url, place = new_database(server), server.rpartition("@")[2]

    assert f"postgresql://owner@{place}/none cannot be used" in refused(f"{server}/none")
    assert 'database "none" does not exist' in refused(f"{server}/none")
    assert "password authentication failed" in refused(url.replace("owner", "other"))
    assert "password authentication failed" in refused(f"postgresql://owner@{place}/postgres?password={SECRET}2")
    assert "that the server answers" in refused(f"postgresql://me:{SECRET}@127.0.0.1:1/db")


def test_a_server_that_somebody_keeps_locked_is_named(server, monkeypatch):
    monkeypatch.setattr(store, "WAIT_SECONDS", 1)
    url = new_database(server)

    with Store(url).writing():
        assert "lock timeout" in refused(url)


def test_a_driver_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(StoreError, match=r"needs the package psycopg: pip install 'feed_assets\[postgres\]'"):
        Store(f"postgresql://me:{SECRET}@host/db")


@pytest.mark.parametrize("linked", ["the directory", "the file", "a file that is not there"])
def test_a_link_is_no_state_database_and_nothing_changes_where_it_leads(tmp_path, linked):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name in ("state.db-wal", "state.db-shm"):
        (theirs / name).write_bytes(b"theirs")
    state = tmp_path / ".state"
    if linked == "the directory":
        state.symlink_to(theirs)
    else:
        state.mkdir()
        (state / "state.db").symlink_to(theirs / ("state.db-wal" if linked == "the file" else "state.db"))
    store = Store(sqlite_url(state / "state.db"))

    for attempt in (store.writing, store.reading):
        with pytest.raises(StoreError, match=r"is a symbolic link, to .*remove the link, or name the file"), attempt():
            pass

    assert {each.name: each.read_bytes() for each in theirs.iterdir()} == {
        "state.db-wal": b"theirs",
        "state.db-shm": b"theirs",
    }
