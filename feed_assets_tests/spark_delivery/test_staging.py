"""Spark stages what DuckDB stages: the same rows, byte for byte, and the same refusals."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.delivery import staging as in_this_process
from feed_assets.delivery.encoding import Encoder
from feed_assets.delivery.errors import DeliveryError
from feed_assets.delivery.staging import Comparison, Staged, read_staged
from feed_assets.delivery.streams.port import Limits
from feed_assets.file_feed import Update
from feed_assets.file_feed.reading import require_latest
from feed_assets.spark_delivery.backend import SparkBackend
from feed_assets_tests.warehouse.feeds import DAY, Source

PRODUCTS = Encoder(("product", "price"), ("product",), ("product",))
LIMITS = Limits()


@dataclass
class Shelf:
    """A feed, and what both ways of staging make of its updates."""

    source: Source
    spark: Any
    staged: int = 0

    def publish(self, *, files: int = 1, **columns: Any) -> Update:
        self.source.publish(pa.table(columns), DAY, files=files)
        return require_latest(self.source.feed, DAY, now=self.source.time)

    def stage(self, stage: Callable[..., Staged], *given: Any) -> tuple[Staged, list[tuple[Any, ...]]]:
        """What was staged, and its rows."""
        self.staged += 1
        board = self.source.board
        staged = stage(*given, board, f"{self.source.feed.control('test')}{self.staged}/")
        batches = [batch for file in staged.files for batch in read_staged(board, file)]
        assert [each.rows for each in staged.files] == [
            sum(each.num_rows for each in read_staged(board, file)) for file in staged.files
        ]
        return staged, sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())

    def both(
        self, comparison: Comparison, encoder: Encoder = PRODUCTS, limits: Limits = LIMITS
    ) -> tuple[Staged, list[tuple[Any, ...]]]:
        """What both have staged, which is the same."""
        backend = SparkBackend(lambda: self.spark)
        expected, rows = self.stage(in_this_process.stage, comparison, encoder, limits)
        found, by_spark = self.stage(backend.stage, comparison, encoder, limits)
        assert by_spark == rows
        assert (found.puts, found.deletes) == (expected.puts, expected.deletes)
        return found, by_spark

    def refused(self, comparison: Comparison, encoder: Encoder = PRODUCTS, limits: Limits = LIMITS) -> str:
        """The error of both, which is the same. Nothing is staged then."""
        messages = []
        for stage in in_this_process.stage, SparkBackend(lambda: self.spark).stage:
            with pytest.raises(DeliveryError) as caught:
                self.stage(stage, comparison, encoder, limits)
            messages.append((type(caught.value), str(caught.value)))
        assert messages[0] == messages[1]
        assert list(list_all(self.source.board, self.source.feed.control("test"))) == []
        return messages[0][1]


@pytest.fixture
def shelf(tmp_path: Path, spark: Any) -> Shelf:
    return Shelf(Source(LocalBlackboard(tmp_path / "a base"), location="prices/v1.0"), spark)


def only(update: Update) -> Comparison:
    return Comparison(update, None, ())


def since(base: Update, update: Update | None) -> Comparison:
    return Comparison(update, base, (base,))


EVERY_TYPE: Mapping[str, pa.Array] = {
    "product": pa.array(["tea", 'a "quote" / é', None, "\u0000"][:2]),
    "flag": pa.array([True, None]),
    "small": pa.array([-5, 7], pa.int8()),
    "large": pa.array([2**63 - 1, -(2**63)], pa.int64()),
    "real": pa.array([0.1, 1e300]),
    "single": pa.array([0.1, None], pa.float32()),
    "money": pa.array([Decimal("1.50"), Decimal("-0.01")], pa.decimal128(12, 2)),
    "day": pa.array([date(1, 1, 1), date(9999, 12, 31)]),
    "at": pa.array([datetime(2020, 2, 29, 1, 2, 3, 4, UTC), None], pa.timestamp("us", "UTC")),
    "wall": pa.array([-1, None], pa.int64()).cast(pa.timestamp("us")),
    "raw": pa.array([b"\x00\xff", b""]),
    "inner": pa.array([{"a": 1, "b": Decimal("0.10")}, None], pa.struct({"a": pa.int32(), "b": pa.decimal128(5, 2)})),
    "names": pa.array([[("a", b"\x01"), ("b", None)], []], pa.map_(pa.string(), pa.binary())),
    "list": pa.array([[date(2020, 1, 1), None], None], pa.list_(pa.date32())),
}


def test_each_type_has_the_same_bytes(shelf: Shelf) -> None:
    update = shelf.publish(**EVERY_TYPE)

    _, rows = shelf.both(only(update), Encoder(tuple(EVERY_TYPE), ("product",), ("day", "small")))

    assert len(rows) == 2
    assert b'"large":9223372036854775807' in rows[1][3]


def test_new_and_changed_rows_are_puts_and_vanished_keys_are_deletes_of_their_keys(shelf: Shelf) -> None:
    numbers = range(5_000)
    base = shelf.publish(product=[f"p{each}" for each in numbers], price=[each / 8 for each in numbers], files=4)
    kept = [each for each in numbers if each % 10]
    prices = [None if each % 7 == 0 else each / 8 for each in kept]
    update = shelf.publish(product=[f"p{each}" for each in kept], price=pa.array(prices, pa.float64()), files=2)

    staged, rows = shelf.both(since(base, update))

    assert (staged.puts, staged.deletes) == (sum(each % 7 == 0 for each in kept), 500)
    assert rows[0] == ("delete", "p0", "p0", b'{"product":"p0"}')


def test_nothing_in_force_deletes_all_keys_and_equal_updates_send_nothing(shelf: Shelf) -> None:
    base = shelf.publish(product=["tea", "milk"], price=[1.0, 2.0])
    again = shelf.publish(product=["milk", "tea"], price=[2.0, 1.0])

    assert shelf.both(since(base, None))[0].deletes == 2
    assert shelf.both(since(base, again))[0] == Staged((), 0, 0)


def test_all_rows_are_sent_and_keys_of_any_earlier_update_are_deleted(shelf: Shelf) -> None:
    first = shelf.publish(product=["tea", "milk"], price=[1.0, 2.0])
    second = shelf.publish(product=["tea", "salt"], price=[1.0, 2.0])
    third = shelf.publish(product=["tea"], price=[1.0])

    _, rows = shelf.both(Comparison(third, None, (first, second)))

    assert [row[:2] for row in rows] == [("delete", "milk"), ("delete", "salt"), ("put", "tea")]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"product": ["tea", None], "price": [1.0, 2.0]}, "of row 1 of .*part-0.parquet .the first is row 0. is"),
        ({"product": ["tea", "x" * 257], "price": [1.0, 2.0]}, "is longer than 256 characters"),
        ({"product": ["tea", "milk"], "price": [1.0, float("nan")]}, "price of row 1 .* is NaN or infinite"),
        ({"product": ["tea", "tea"], "price": [1.0, 2.0]}, "has 2 rows of one key .product., so nobody could say"),
        ({"product": ["tea"], "cost": [1.0]}, "The feed has no price; it has product, cost"),
        ({"product": ["tea"], "price": ["x" * 1_050_000]}, "has 1,050,028 bytes as a record"),
    ],
)
def test_bad_rows_are_refused_with_the_same_words_and_nothing_is_left(
    shelf: Shelf, columns: Mapping[str, Any], expected: str
) -> None:
    assert re.search(expected, shelf.refused(only(shelf.publish(**columns))))


def test_the_bad_row_is_named_by_its_place_in_its_file(shelf: Shelf) -> None:
    prices = [float(each) for each in range(40_000)]
    prices[31_000] = float("inf")
    update = shelf.publish(product=[f"p{each}" for each in range(40_000)], price=prices, files=2)
    backend = SparkBackend(lambda: shelf.spark)

    with pytest.raises(
        DeliveryError, match=r"price of row 11,000 of .*/a%20base/.*part-1.parquet .the first is row 0."
    ):
        shelf.stage(backend.stage, only(update), PRODUCTS, LIMITS)
