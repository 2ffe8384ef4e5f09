"""The events that describe what is in force, for partitions and updates of every kind."""

from __future__ import annotations

import dagster as dg

from feed_assets.feed_events.materializations import is_shown, published, still_in_force
from feed_assets.feed_events.metadata import published_metadata
from feed_assets.file_feed import Facts, FeedInput, RawFile, RawInput, Rows, latest, publish_files, read_record
from feed_assets_tests.harness import ADS, DAY

KEY = dg.AssetKey("clean_ads")


def in_force(desk):
    desk.make(ADS, DAY, [])
    return latest(desk.feed(ADS), DAY, now=desk.now)


def report(desk, event):
    desk.instance.report_runless_asset_event(event)
    return {name: value.value for name, value in event.metadata.items()}


def test_an_update_that_dagster_never_heard_of_is_described_from_storage(desk):
    update = in_force(desk)

    event = still_in_force(desk.instance, KEY, DAY, update, why="X was rejected.", metadata={"rejected update": "X"})

    shown = report(desk, event)
    assert list(shown)[:3] == ["state", "reason", "rejected update"]
    assert (shown["state"], shown["update"], shown["path"], shown["files"]) == ("in force", update.name, update.uri, 1)
    assert event.tags["dagster/data_version"] == update.name
    assert is_shown(desk.instance, KEY, update)


def test_what_happened_before_is_replaced_by_what_happened_last(desk):
    update = in_force(desk)
    report(desk, still_in_force(desk.instance, KEY, DAY, update, why="A.", metadata={"invalidated update": "X"}))

    shown = report(desk, still_in_force(desk.instance, KEY, DAY, update, why="B.", metadata={"rejected update": "Y"}))

    assert (shown["reason"], shown["rejected update"]) == ("B.", "Y")
    assert "invalidated update" not in shown


def test_an_update_is_shown_only_while_the_latest_event_is_about_it(desk):
    update = in_force(desk)
    assert not is_shown(desk.instance, KEY, update)

    report(desk, published(desk.instance, KEY, update, None, None))
    assert is_shown(desk.instance, KEY, update)

    report(desk, still_in_force(desk.instance, KEY, DAY, None, why="It was invalidated."))
    assert not is_shown(desk.instance, KEY, update)


def test_a_partition_of_several_dimensions_keeps_them(desk):
    partition = dg.MultiPartitionKey({"country": "de", "day": DAY})
    dimensions = {"dagster/partition/country": "de", "dagster/partition/day": DAY}
    # As a step reports it.
    report(desk, dg.AssetMaterialization(KEY, partition=partition, tags=dimensions))

    event = still_in_force(desk.instance, KEY, str(partition), None, why="X was rejected.")

    assert event.tags == dimensions
    assert event.partition == partition


def test_rows_read_are_shown_only_of_an_update_that_counted_them(desk):
    rows = Rows(read=149, published=149, quarantined=0, duplicates=0)
    shown = {}
    for quarantine in ({"quarantine": f"quarantine/{ADS}"}, {}):
        facts = Facts(rows=rows, details=quarantine)
        update = publish_files(desk.feed(ADS), DAY, [], now=desk.now, owner="me", facts=facts)
        record = read_record(update.feed, DAY, update.name)
        shown[bool(quarantine)] = {name for name in published_metadata(update, record, None) if "row" in name}

    assert shown == {
        True: {"dagster/row_count", "rows read", "rows quarantined", "rows duplicate"},
        False: {"dagster/row_count"},
    }


def test_the_table_of_inputs_states_no_files_of_a_feed_as_a_record_names_its_update_only(desk):
    raw = RawInput("ads/shop_ads", DAY, (RawFile("12/x.parquet", 7, "tag"),))
    facts = Facts(inputs=(raw, FeedInput("catalog/v1", None, "20191130.120000")))
    update = publish_files(desk.feed(ADS), DAY, [], now=desk.now, owner="me", facts=facts)

    shown = published_metadata(update, read_record(update.feed, DAY, update.name), None)

    rows = {row.data["input"]: (row.data["files"], row.data["bytes"]) for row in shown["read set"].records}
    assert rows == {"raw/ads/shop_ads": (1, 7), "catalog/v1": ("", "")}
