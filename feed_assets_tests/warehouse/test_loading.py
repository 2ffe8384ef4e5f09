"""A load makes a partition's rows those of the update in force: once, as a whole, and never those of an older one."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from feed_assets.blackboard.location import open_blackboard
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import NotFoundError
from feed_assets.file_feed import NoValidUpdateError, UpdateChangedError
from feed_assets.warehouse import loading as module
from feed_assets.warehouse.address import open_warehouse
from feed_assets.warehouse.loading import difference, standings
from feed_assets.warehouse.port import Warehouse, WarehouseError
from feed_assets_tests.harness import Interposed
from feed_assets_tests.state.server import new_database
from feed_assets_tests.warehouse.feeds import DAY, NEXT_DAY, Source, counts, rows

pytestmark = pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result")
"""As the emulator of Snowflake reads its DuckDB."""


def test_the_rows_of_a_new_update_replace_those_of_the_day_and_of_no_other_day(warehouse: Warehouse) -> None:
    source = Source()
    old, other = source.publish(3), source.publish(5, NEXT_DAY)
    source.load(warehouse)
    source.load(warehouse, NEXT_DAY)
    assert counts(warehouse, [DAY, NEXT_DAY]) == {old: 3, other: 5}

    new = source.publish(4, files=2)
    loaded, wrote = source.load(warehouse)

    assert wrote
    assert (loaded.update, loaded.rows, loaded.number, loaded.partition) == (new, 4, 2, DAY)
    assert counts(warehouse, [DAY, NEXT_DAY]) == {new: 4, other: 5}
    assert sorted(rows(warehouse, f"SELECT ad, shown FROM effect WHERE _update = '{new}'")) == [
        (f"ad {each}", each) for each in range(4)
    ]


def test_loading_an_update_twice_changes_nothing(warehouse: Warehouse) -> None:
    source = Source()
    source.publish(3)
    first = source.load(warehouse)

    assert source.load(warehouse) == (first[0], False)
    assert len(rows(warehouse, "SELECT * FROM feed_assets_loads")) == 1


def test_rows_that_somebody_deleted_come_back_with_the_next_load(warehouse: Warehouse) -> None:
    source = Source()
    update = source.publish(3)
    source.load(warehouse)
    with warehouse.open(writes=True) as connection:
        warehouse.execute(connection, "DELETE FROM effect WHERE shown = 1")
    assert difference(warehouse, source.declaration, source.feed, DAY) == (
        f"it has 2 rows of {update}, and should have 3 rows of {update}"
    )

    assert source.load(warehouse)[1]
    assert counts(warehouse) == {update: 3}
    assert difference(warehouse, source.declaration, source.feed, DAY) == ""


def test_after_a_table_was_dropped_each_partition_is_still_to_be_loaded(warehouse: Warehouse) -> None:
    source = Source()
    update = source.publish(3)
    source.publish(5, NEXT_DAY)
    source.load(warehouse)
    source.load(warehouse, NEXT_DAY)
    with warehouse.open(writes=True) as connection:
        warehouse.execute(connection, "DROP TABLE effect")

    source.load(warehouse)

    found = standings(warehouse, source.declaration, source.feed, now=source.now())
    assert [(each.partition, each.state) for each in found] == [(DAY, "loaded"), (NEXT_DAY, "not loaded")]
    assert counts(warehouse, [DAY, NEXT_DAY]) == {update: 3}


def test_an_invalidation_brings_the_update_before_back_and_in_the_end_no_row(warehouse: Warehouse) -> None:
    source = Source()
    old = source.publish(3)
    new = source.publish(4)
    source.load(warehouse)

    source.invalidate(new)
    assert source.load(warehouse)[0].update == old
    assert counts(warehouse) == {old: 3}

    source.invalidate(old)
    assert source.load(warehouse)[0].update is None
    assert counts(warehouse) == {}
    assert not source.load(warehouse)[1]
    history = rows(warehouse, "SELECT update_name, row_count FROM feed_assets_loads ORDER BY number")
    assert history == [(new, 4), (old, 3), (None, 0)]


def test_a_feed_without_partitions_an_empty_update_and_the_standing_of_each_day(duckdb: Warehouse) -> None:
    whole = Source(location="catalog", table="catalog")
    update = whole.publish(2, None)
    assert whole.load(duckdb, None)[0].partition == ""
    assert duckdb.count("catalog", "") == {update: 2}
    (only,) = standings(duckdb, whole.declaration, whole.feed, now=whole.now())
    assert (only.partition, only.in_force, only.state) == ("", update, "loaded")

    source = Source()
    empty, first, gone = source.publish(0, files=0), source.publish(1, "2019-11-20"), source.publish(1, "2019-11-21")
    for day in (DAY, "2019-11-20", "2019-11-21"):
        source.load(duckdb, day)
    source.invalidate(gone, "2019-11-21")
    second, unseen = source.publish(1, "2019-11-20"), source.publish(1, "2019-11-22")

    found = standings(duckdb, source.declaration, source.feed, now=source.now())
    assert [(each.partition, each.in_force, each.loaded and each.loaded.update, each.state) for each in found] == [
        ("2019-11-20", second, first, "behind"),
        ("2019-11-21", None, gone, "to be removed"),
        ("2019-11-22", unseen, None, "not loaded"),
        (DAY, empty, empty, "loaded"),
    ]


def test_nothing_to_load_is_an_error_that_names_the_feed(warehouse: Warehouse) -> None:
    with pytest.raises(NoValidUpdateError, match=r"effect/v1.0 2019-11-24 has no valid update"):
        Source().load(warehouse)


def test_a_table_takes_the_rows_of_one_feed_only(warehouse: Warehouse) -> None:
    mine, other = Source(), Source(location="other/v1.0")
    mine.publish(1)
    other.publish(1, NEXT_DAY)
    mine.load(warehouse)

    with pytest.raises(WarehouseError, match=r"has rows of .*effect/v1.0, and not of .*other/v1.0"):
        other.load(warehouse, NEXT_DAY)


def test_a_table_with_rows_that_no_load_has_logged_is_left_alone(warehouse: Warehouse) -> None:
    source = Source()
    source.publish(2)
    source.load(warehouse)
    with warehouse.open(writes=True) as connection:
        warehouse.execute(connection, "DELETE FROM feed_assets_loads")

    with pytest.raises(WarehouseError, match="has rows that no load has logged"):
        source.load(warehouse)
    assert len(rows(warehouse, "SELECT * FROM effect")) == 2


def test_a_storage_whose_listing_lags_takes_no_newer_update_out_of_the_table(duckdb: Warehouse) -> None:
    source = Source()
    source.publish(3)
    new = source.publish(4)
    source.load(duckdb)
    real = source.board
    # The listing of the whole partition has not seen the newer update yet; the one that starts at it has.
    source.board = Lagging(real, new)

    with pytest.raises(WarehouseError, match=f"has the update {new}.*in force.*not replaced"):
        source.load(duckdb)
    assert counts(duckdb) == {new: 4}


def test_an_update_that_is_replaced_while_it_is_loaded_never_gets_in(warehouse: Warehouse) -> None:
    source = Source()
    kept = source.publish(2)
    source.load(warehouse)
    real, loaded = source.board, source.publish(3)
    newer: list[str] = []

    def publish_newer(operation: str, key: str) -> None:
        if operation == "download" and loaded in key and not newer:
            source.board = real
            newer.append(source.publish(5))
            source.board = board

    source.board = board = Downloading(real, publish_newer)
    result, _ = source.load(warehouse)

    assert result.update == newer[0]
    assert counts(warehouse) == {newer[0]: 5}
    assert [each[0] for each in rows(warehouse, "SELECT update_name FROM feed_assets_loads ORDER BY number")] == [
        kept,
        newer[0],
    ]


def test_a_feed_that_never_rests_leaves_the_table_as_it_was(duckdb: Warehouse) -> None:
    source = Source()
    kept = source.publish(2)
    source.load(duckdb)
    source.publish(3)

    def lose(operation: str, key: str) -> None:
        if operation == "download":
            raise NotFoundError(key)

    source.board = Downloading(source.board, lose)
    with pytest.raises(UpdateChangedError, match="changed during each of 3 loads"):
        source.load(duckdb)
    assert counts(duckdb) == {kept: 2}


def test_of_a_bucket_only_some_files_are_on_this_machine_at_a_time(
    duckdb: Warehouse, versitygw, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in versitygw.environment.items():
        monkeypatch.setenv(variable, value)
    versitygw.client().create_bucket(Bucket="warehouse")
    monkeypatch.setattr(module, "BATCH_BYTES", 1)
    source = Source(board=open_blackboard("s3://warehouse"))
    update = source.publish(12, files=3)
    seen: list[int] = []
    insert = duckdb.insert

    def counting(*arguments: object) -> int:
        (folder,) = {each.parent for each in arguments[3]}
        seen.append(len(list(folder.iterdir())))
        return insert(*arguments)

    monkeypatch.setattr(duckdb, "insert", counting)
    source.load(duckdb)

    assert counts(duckdb) == {update: 12}
    assert seen == [1, 1, 1]


@pytest.mark.parametrize("name", ["duckdb", "postgresql"])
def test_loads_of_one_partition_wait_for_each_other(name: str, request: pytest.FixtureRequest) -> None:
    warehouse, source = request.getfixturevalue(name), Source()
    update = source.publish(100)

    with ThreadPoolExecutor(6) as threads:
        outcomes = [wrote for _, wrote in threads.map(lambda _: source.load(warehouse), range(6))]

    assert sorted(outcomes) == [False] * 5 + [True]
    assert counts(warehouse) == {update: 100}


def test_loads_wait_for_each_other_in_a_database_whose_transactions_keep_one_view_of_the_data(server: str) -> None:
    url, source = new_database(server), Source()
    warehouse, database = open_warehouse(url), url.rpartition("/")[2]
    with warehouse.open(writes=True) as connection:
        default = f"ALTER DATABASE {database} SET default_transaction_isolation = 'repeatable read'"
        warehouse.execute(connection, default)
    source.publish(1, NEXT_DAY)
    source.load(warehouse, NEXT_DAY)
    update = source.publish(100_000)

    with ThreadPoolExecutor(4) as threads:
        outcomes = [wrote for _, wrote in threads.map(lambda _: source.load(warehouse), range(4))]

    assert sorted(outcomes) == [False] * 3 + [True]
    assert counts(warehouse) == {update: 100_000}


def test_tables_can_be_made_at_the_same_time(postgresql: Warehouse) -> None:
    sources = [Source(location=f"feed-{number}/v1.0", table=f"table_{number}") for number in range(6)]
    for source in sources:
        source.publish(10)

    with ThreadPoolExecutor(6) as threads:
        assert all(wrote for _, wrote in threads.map(lambda source: source.load(postgresql), sources))


def test_a_file_of_duckdb_that_another_process_has_open_is_waited_for_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "warehouse.db"
    program = f"import duckdb, sys; c = duckdb.connect({str(path)!r}); print('open', flush=True); sys.stdin.read()"
    other = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    warehouse = open_warehouse(f"duckdb:///{path}")
    source = Source()
    source.publish(1)
    assert other.stdout.readline() == "open\n"
    monkeypatch.setattr("feed_assets.warehouse.duckdb_file.WAIT_SECONDS", 0)

    with pytest.raises(WarehouseError, match=f"Only one process.*{path}|{path}.*Only one process") as error:
        source.load(warehouse)
    assert error.value.transient
    assert f"PID {other.pid}" in str(error.value)

    monkeypatch.setattr("feed_assets.warehouse.duckdb_file.WAIT_SECONDS", 60)
    threading.Timer(0.2, lambda: other.communicate("")).start()
    assert source.load(warehouse)[1]


@pytest.mark.parametrize("place", ["notes.txt", "notes.txt/warehouse.db"])
def test_a_file_of_duckdb_that_cannot_be_opened_is_no_matter_of_waiting(tmp_path: Path, place: str) -> None:
    (tmp_path / "notes.txt").write_text("no database " * 1000)
    source = Source()
    source.publish(1)

    with pytest.raises(WarehouseError, match=f"duckdb:///{tmp_path}/{place} cannot be opened: ") as error:
        source.load(open_warehouse(f"duckdb:///{tmp_path}/{place}"))

    assert not error.value.transient
    assert "Only one process" not in str(error.value)


class Downloading(Interposed):
    """Calls `before` ahead of downloads, too."""

    def __getattr__(self, operation: str) -> object:
        if operation != "download":
            return super().__getattr__(operation)

        def download(key: str, target: Path) -> object:
            self._before("download", key)
            return self._inner.download(key, target)

        return download


class Lagging(Interposed):
    """A store whose listings show nothing of an update, unless they start at it."""

    def __init__(self, inner: MemoryBlackboard, hidden: str) -> None:
        super().__init__(inner, lambda *_: None)
        self._hidden = hidden

    def page(self, prefix: str, *, after: str = "", folders: bool = False) -> object:
        page = self._inner.page(prefix, after=after, folders=folders)
        if after.endswith(self._hidden):
            return page
        kept = tuple(entry for entry in page.entries if f"/{self._hidden}/" not in entry.key)
        return type(page)(kept, page.folders, page.next_after)
