"""The decision about late data, on the numbers of the case it comes from and on arbitrary read sets."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feed_assets.file_feed import RawFile, RawInput
from feed_assets.sources.growth import GrowthKind, decide

GB = 10**9
FIVE = Decimal(5)


def day(**files):
    """A read set of files given as `name=size`, `name=(size, tag)` or `name=(size, tag, records)`."""
    listed = [
        RawFile(name, *(content if isinstance(content, tuple) else (content, "first")))
        for name, content in files.items()
    ]
    return RawInput("ads/partner", "2020-02-27", tuple(listed))


@pytest.mark.parametrize(
    ("name", "before", "now", "kind"),
    [
        ("2/29", 100 * GB, 102 * GB, GrowthKind.BELOW_THRESHOLD),
        ("2/28", 100 * GB, 104 * GB, GrowthKind.BELOW_THRESHOLD),
        ("2/27", 100 * GB, 110 * GB, GrowthKind.GROWN),
        ("exactly 5 %", 100, 105, GrowthKind.GROWN),
        ("a byte less than 5 %", 100 * GB, 105 * GB - 1, GrowthKind.BELOW_THRESHOLD),
        (
            "a byte less than 5 % of more than 28 digits",
            10**32,
            10**32 * 105 // 100 - 1,
            GrowthKind.BELOW_THRESHOLD,
        ),
        ("exactly 5 % of more than 28 digits", 10**32, 10**32 * 105 // 100, GrowthKind.GROWN),
    ],
)
def test_growth_by_the_threshold_or_more_is_processed_again(name, before, now, kind):
    decision = decide(day(a=before), day(a=before, late=now - before), FIVE)

    assert decision.kind is kind
    assert decision.reprocess is (kind is GrowthKind.GROWN)
    assert (decision.baseline_bytes, decision.current_bytes) == (before, now)


def test_two_growths_of_four_percent_against_one_baseline_add_up():
    baseline = day(a=100)

    assert decide(baseline, day(a=100, b=4), FIVE).kind is GrowthKind.BELOW_THRESHOLD
    assert decide(baseline, day(a=100, b=4, c=4), FIVE).kind is GrowthKind.GROWN


@pytest.mark.parametrize("threshold", ["0.1", "0.30", "2.5", "33.3333333333333333333333333333333333"])
def test_a_threshold_with_decimals_is_compared_exactly(threshold):
    percent = Decimal(threshold)
    exact = Fraction(threshold)
    base = exact.denominator * 100
    reached = base + exact.numerator

    assert decide(day(a=base), day(a=base, b=reached - base), percent).kind is GrowthKind.GROWN
    assert decide(day(a=base * 2), day(a=base * 2, b=(reached - base) * 2 - 1), percent).kind is not GrowthKind.GROWN


def test_with_a_threshold_of_zero_any_growth_counts_and_no_growth_does_not():
    assert decide(day(a=100), day(a=100, b=1), Decimal(0)).kind is GrowthKind.GROWN
    assert decide(day(a=100), day(a=100), Decimal(0)).kind is GrowthKind.UNCHANGED


def test_a_file_replaced_by_one_of_equal_size_is_noticed_by_its_tag():
    decision = decide(day(a=(100, "old"), b=5), day(a=(100, "new"), b=5), FIVE)

    assert (decision.kind, decision.reprocess, decision.changed) == (GrowthKind.REPLACED, True, 1)
    assert decision.growth_percent == 0


def test_a_file_deleted_and_made_up_for_by_another_is_a_replacement():
    decision = decide(day(a=100, b=50), day(a=100, c=51), FIVE)

    assert (decision.kind, decision.added, decision.removed) == (GrowthKind.REPLACED, 1, 1)


def test_a_deleted_file_shrinks_the_day_and_it_is_processed_again():
    decision = decide(day(a=100, b=50), day(a=100), FIVE)

    assert (decision.kind, decision.reprocess, decision.removed) == (GrowthKind.SHRUNK, True, 1)
    assert decision.growth_percent == Decimal(-5000) / 150 or decision.growth_percent < 0


@pytest.mark.parametrize("nothing", [None, day()])
def test_a_day_whose_files_are_all_gone_is_not_processed_again(nothing):
    decision = decide(day(a=100), nothing, FIVE)

    assert (decision.kind, decision.reprocess) == (GrowthKind.VANISHED, False)


@pytest.mark.parametrize("baseline", [day(), day(a=0)])
def test_growth_from_no_bytes_at_all_has_no_percentage_and_counts(baseline):
    decision = decide(baseline, day(a=0, b=7), FIVE)

    assert (decision.kind, decision.growth_percent) == (GrowthKind.GROWN, None)


def test_files_that_were_never_processed_are():
    decision = decide(None, day(a=1), FIVE)

    assert (decision.kind, decision.reprocess) == (GrowthKind.NEVER_PROCESSED, True)


@pytest.mark.parametrize(("baseline", "current"), [(None, None), (None, day()), (day(), None), (day(), day())])
def test_nothing_then_and_nothing_now_is_unchanged(baseline, current):
    assert decide(baseline, current, FIVE).kind is GrowthKind.UNCHANGED


FOOTER = 900


def sent(**records):
    """A read set of landed files given as `name=records`: Parquet, each with a footer."""
    return day(**{name: (FOOTER + 10 * count, "first", count) for name, count in records.items()})


def test_growth_is_that_of_the_records_where_all_files_tell_their_number():
    decision = decide(sent(a=90), sent(a=90, late=10), FIVE)

    assert (decision.kind, decision.baseline_records, decision.current_records) == (GrowthKind.GROWN, 90, 100)
    assert round(decision.growth_percent, 1) == Decimal("11.1")  # of bytes: 56 %


def test_a_drip_of_tiny_files_counts_as_its_records():
    drops = {f"drop{number}": 1 for number in range(49)}

    assert decide(sent(a=1000), sent(a=1000, **drops), FIVE).kind is GrowthKind.BELOW_THRESHOLD
    assert decide(sent(a=1000), sent(a=1000, **drops, last=1), FIVE).kind is GrowthKind.GROWN


def test_a_file_of_another_receiver_is_compared_in_bytes():
    before, now = sent(a=90), sent(a=90, late=10)
    foreign = RawFile("foreign", 100_000, "first")
    decision = decide(*(replace(each, files=(*each.files, foreign)) for each in (before, now)), FIVE)

    assert (decision.kind, decision.current_records) == (GrowthKind.BELOW_THRESHOLD, None)


def test_a_landing_that_replaces_another_by_as_many_records_is_a_replacement():
    decision = decide(day(a=(1000, "first", 10)), day(b=(2000, "first", 10)), FIVE)

    assert (decision.kind, decision.growth_percent) == (GrowthKind.REPLACED, 0)


@pytest.mark.parametrize(
    ("baseline", "current", "sentence"),
    [
        (
            day(a=100),
            day(a=100, b=10),
            (
                "grown, +10 % (threshold 5 %): 100 -> 110 bytes, 1 -> 2 files (1 added, 0 removed, 0 changed); "
                "to be processed again"
            ),
        ),
        (
            day(a=100_000),
            day(a=100_000, b=4_999),
            (
                "below threshold, +4.99 % (threshold 5 %): 100,000 -> 104,999 bytes, 1 -> 2 files "
                "(1 added, 0 removed, 0 changed); left as it is"
            ),
        ),
        (
            day(),
            day(a=3),
            (
                "grown from nothing (threshold 5 %): 0 -> 3 bytes, 0 -> 1 files "
                "(1 added, 0 removed, 0 changed); "
                "to be processed again"
            ),
        ),
        (
            sent(a=90),
            sent(a=90, b=10),
            (
                "grown, +11.11 % (threshold 5 %): 90 -> 100 records, 1,800 -> 2,800 bytes, 1 -> 2 files "
                "(1 added, 0 removed, 0 changed); to be processed again"
            ),
        ),
        (
            None,
            day(a=3),
            "never processed: 0 -> 3 bytes, 0 -> 1 files (1 added, 0 removed, 0 changed); to be processed",
        ),
        (
            day(a=4),
            None,
            "vanished: 4 -> 0 bytes, 1 -> 0 files (0 added, 1 removed, 0 changed); left as it is",
        ),
    ],
)
def test_the_sentence_gives_the_decision_and_its_numbers(baseline, current, sentence):
    assert decide(baseline, current, FIVE).sentence() == sentence


files = st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(0, 10**40), st.sampled_from(["t1", "t2"])))
read_sets = st.none() | files.map(lambda found: day(**found))
thresholds = st.decimals(0, 10_000, allow_nan=False, allow_infinity=False)


@given(baseline=read_sets, current=read_sets, threshold=thresholds)
def test_every_pair_of_read_sets_has_a_decision_that_is_unchanged_exactly_when_they_are_equal(
    baseline, current, threshold
):
    decision = decide(baseline, current, threshold)
    equal = set(baseline.files if baseline else ()) == set(current.files if current else ())

    assert (decision.kind is GrowthKind.UNCHANGED) is equal
    assert decision.sentence().startswith(decision.kind.replace("_", " "))
    assert (decision.growth_percent is None) is (decision.baseline_bytes == 0)
    if decision.kind is GrowthKind.GROWN and decision.growth_percent is not None:
        assert decision.growth_percent.compare(threshold) >= 0
    assert not (decision.reprocess and decision.current_files == 0)


@given(baseline=st.sets(st.integers(0, 10**40)), current=st.sets(st.integers(0, 10**40)), threshold=thresholds)
def test_records_are_compared_as_bytes_are(baseline, current, threshold):
    # The number of records is part of a file's name.
    by_records = [day(**{str(count): (7, "t", count) for count in each}) for each in (baseline, current)]
    by_bytes = [day(**{str(count): (count, "t") for count in each}) for each in (baseline, current)]

    found, expected = (decide(*each, threshold) for each in (by_records, by_bytes))
    assert (found.kind, found.growth_percent) == (expected.kind, expected.growth_percent)


@given(baseline=read_sets, threshold=thresholds, sizes=st.lists(st.integers(1, 10**12), min_size=1, max_size=5))
def test_a_day_that_only_gains_bytes_never_goes_from_processed_again_to_left_alone(baseline, threshold, sizes):
    held = {file.path: (file.size, file.tag) for file in baseline.files} if baseline else {}
    decisions = []
    for position, size in enumerate(sizes):
        held[f"late{position}"] = (size, "t")
        decisions.append(decide(baseline, day(**held), threshold).reprocess)

    assert decisions == sorted(decisions)
