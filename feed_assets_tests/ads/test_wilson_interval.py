from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import pytest
from pyspark.sql import SparkSession, functions

from feed_assets.ads.effectiveness import wilson_interval

PUBLISHED = [
    # R. G. Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17 (1998),
    # table I, method 3.
    (81, 263, 0.2553, 0.3662),
    (15, 148, 0.0624, 0.1605),
    (0, 20, 0.0000, 0.1611),
    (1, 29, 0.0061, 0.1718),
]


def intervals(spark: SparkSession, cases: list[tuple[int, int]]) -> list[tuple[float | None, float | None]]:
    low, high = wilson_interval(functions.col("successes"), functions.col("trials"), functions.sqrt)
    frame = spark.createDataFrame(cases, "successes bigint, trials bigint")
    return [(row[0], row[1]) for row in frame.select(low, high).collect()]


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where an increasing function is zero."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if function(middle) > 0 else (middle, high)
    return high


def by_definition(successes: int, trials: int) -> tuple[float, float]:
    """The shares that a two-sided score test at 5 % would just not reject: what the closed formula solves."""
    observed = successes / trials

    def score(share: float) -> float:
        return (share - observed) / sqrt(share * (1 - share) / trials)

    tiny = 1e-300
    low = 0.0 if successes == 0 else root(lambda share: score(share) + 1.959963984540054, tiny, observed)
    high = (
        1.0
        if successes == trials
        else root(lambda share: score(share) - 1.959963984540054, observed or tiny, 1 - 1e-16)
    )
    return low, high


def test_intervals_are_those_of_the_literature(spark: SparkSession) -> None:
    found = intervals(spark, [(successes, trials) for successes, trials, _, _ in PUBLISHED])

    assert [(round(low or 0, 4), round(high or 0, 4)) for low, high in found] == [
        (low, high) for *_, low, high in PUBLISHED
    ]


def test_intervals_solve_the_score_test_for_small_and_large_numbers(spark: SparkSession) -> None:
    cases = [(k, n) for n in (1, 2, 3, 7, 50) for k in range(n + 1)]
    cases += [(157, 30_000), (1, 5_000_000), (4_999_999, 5_000_000), (0, 5_000_000)]

    for (successes, trials), found in zip(cases, intervals(spark, cases), strict=True):
        assert found == pytest.approx(by_definition(successes, trials), rel=1e-9, abs=1e-12)


def test_nothing_and_everything_touch_the_ends_exactly(spark: SparkSession) -> None:
    cases = [(0, n) for n in range(1, 200)] + [(n, n) for n in range(1, 200)]

    found = intervals(spark, cases)

    assert {low for low, _ in found[:199]} == {0.0}
    assert {high for _, high in found[199:]} == {1.0}


def test_without_trials_there_is_no_interval(spark: SparkSession) -> None:
    assert intervals(spark, [(0, 0)]) == [(None, None)]


def test_the_interval_of_numbers_is_the_same_to_the_last_digit_but_few(spark: SparkSession) -> None:
    cases = [(k, n) for n in (*range(1, 40), 263, 1499, 30_000, 5_000_000) for k in {0, 1, n // 3, n - 1, n}]

    for (successes, trials), found in zip(cases, intervals(spark, cases), strict=True):
        assert found == pytest.approx(wilson_interval(successes, trials, sqrt), rel=1e-13, abs=1e-16)
