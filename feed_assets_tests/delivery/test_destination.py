"""The YAML of a destination: each mistake is named with its file, line and field, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from feed_assets.delivery.destination import load_destination, load_destinations
from feed_assets.delivery.errors import DestinationError

GOOD = """\
name: prices
feed: revenue/v1.0
stream: local://prices?shards=2
key: [product_id]
columns: [product_id, revenue]
store: sqlite
"""


def written(folder: Path, text: str, name: str = "prices.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_description_is_read_with_its_defaults(tmp_path: Path) -> None:
    to = load_destination(written(tmp_path, GOOD))

    assert (to.name, to.shard_columns, to.store_space, to.mode) == ("prices", ("product_id",), "prices", "changes")
    assert (to.since, to.who_settles, to.records_a_second) == ("all", "consumer", 1_000)


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("store: sqlite", "stor: sqlite", r"prices.yaml:6: stor: there is no such field; did you mean store\?"),
        ("feed: revenue/v1.0\n", "", r"prices.yaml:1: feed: is missing; add it"),
        ("[product_id]", "[product]", r"prices.yaml:4: key: .*product, which is not among `columns`; add it there"),
        ("local://prices?shards=2", "kafka://x", r"prices.yaml:3: stream: .*write kinesis://REGION/NAME, or local://"),
        ("local://prices?shards=2", "local://../x", r"prices.yaml:3: stream: .*is no stream"),
        ("local://prices?shards=2", "local://prices?shards=0", r"prices.yaml:3: stream: .*is no stream"),
        ("store: sqlite", "store: redis://:secret@", r"prices.yaml:6: store: .*not shown"),
        ("name: prices", "name: a/b", r"prices.yaml:1: name: "),
        ("[product_id, revenue]", "[product_id, product_id]", r"prices.yaml:5: columns: .*names a column twice"),
        ("store: sqlite", "settled_by: consumer", r"settled_by is for a destination with a store"),
        ("feed: revenue/v1.0", "feed: s3://base/revenue/v1.0", r"prices.yaml:2: feed: .*Use a relative path such as"),
        ("store: sqlite", "from: yesterday", r"prices.yaml:6: from: is 'yesterday'; write all, now, or a date such as"),
        (GOOD, "- prices", r"prices.yaml:1: is \['prices'\], not fields; write `field: value` on a line for each"),
        ("name: prices", "name: [", r"prices.yaml:\d+: this is not YAML"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, wrong: str, right: str, message: str) -> None:
    path = written(tmp_path, GOOD.replace(wrong, right))

    with pytest.raises(DestinationError, match=message) as raised:
        load_destination(path)
    assert "secret" not in str(raised.value)


def test_two_of_one_name_or_one_space_are_refused(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    written(tmp_path, GOOD.replace("name: prices", "name: others\nspace: prices"), "others.yaml")
    written(tmp_path, GOOD, "twice.yaml")

    with pytest.raises(DestinationError) as raised:
        load_destinations(tmp_path)
    assert "twice.yaml:1: name: prices.yaml describes prices too" in str(raised.value)
    assert "others and prices would write into the space prices" in str(raised.value)
