"""Two updates are compared by their declared figures, whatever their files are like."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from feed_assets.ads.schemas import AD_EFFECTIVENESS
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.datasets.declaration import FeedDeclaration, Figures
from feed_assets.feed_events.declarations import declared_feed, feed_metadata
from feed_assets.file_feed import Facts, FeedError, Update, claim, publish, stage, staged_files
from feed_assets.notices.comparison import MOVERS, compare, moved
from feed_assets.notices.messages import ENDED, change, notice_of
from feed_assets.notices.tables import Report
from feed_assets_tests.harness import AS_OF, DAY
from feed_assets_tests.notices.conftest import effectiveness

FIGURES = Figures("campaign_id", ("impressions", "clicks", "cost"), (("CTR", "clicks", "impressions"),))
DECLARED = FeedDeclaration("some/v1.0", (), figures=FIGURES)


def published(board: MemoryBlackboard, *files: bytes, suffix: str = "parquet", run_id: str = "") -> Update:
    claimed = claim(DECLARED.on(board), DAY, now=AS_OF, owner="test")
    for number, content in enumerate(files):
        board.create(f"{claimed.prefix}part-{number}.{suffix}", content)
    staged = stage(claimed, staged_files(claimed, len(files)), Facts(run_id=run_id), now=AS_OF)
    return publish(staged, now=AS_OF)


def test_groups_that_came_went_and_changed_are_counted_and_the_largest_movement_comes_first() -> None:
    board = MemoryBlackboard()
    before = published(
        board, effectiveness({"a": (100, 1, "1"), "gone": (50, 0, "0")}), effectiveness({"b": (10, 1, "1")})
    )
    after = published(board, effectiveness({"a": (101, 1, "1"), "b": (10, 1, "1"), "new": (80, 3, "2.25")}))

    found = moved(FIGURES, before, after)

    assert found["totals"] == {
        "rows": [3, 3], "impressions": [160, 191], "clicks": [2, 5], "cost": [2, 4.25], "CTR": [0.0125, 0.02617801],
    }  # fmt: skip
    assert [each["group"] for each in found["movers"]] == ["new", "gone", "a", "b"]
    assert found["movers"][0]["impressions"] == [None, 80]
    assert found["movers"][1]["clicks"] == [0, None]


def test_of_many_groups_only_those_that_moved_most_are_named() -> None:
    board = MemoryBlackboard()
    many = {f"c{number:04}": (1000, 10, "1") for number in range(500)}
    before = published(board, effectiveness(many))
    after = published(board, effectiveness(many | {"c0123": (1001, 10, "1"), "c0321": (1900, 10, "1")}))

    found = moved(FIGURES, before, after)

    assert found["groups"] == 500
    assert len(found["movers"]) == MOVERS
    assert [each["group"] for each in found["movers"][:2]] == ["c0321", "c0123"]


def test_files_without_rows_or_without_a_column_and_other_formats_count_as_what_they_have() -> None:
    board = MemoryBlackboard()
    csv = b"campaign_id,impressions\na,7\n"
    found = moved(FIGURES, published(board), published(board, csv, suffix="csv"))

    assert found["totals"]["impressions"] == [None, 7]
    assert found["totals"]["cost"] == [None, None]
    assert found["totals"]["CTR"] == [None, None]
    assert moved(FIGURES, published(board), published(board))["movers"] == []


def test_figures_of_csv_count_every_line_and_find_columns_in_any_case() -> None:
    board = MemoryBlackboard()
    csv = b"CAMPAIGN_ID,Impressions\n#1,7\na;b,1\n'q',2\n"
    found = moved(FIGURES, published(board, csv, suffix="csv"), published(board, csv, suffix="csv"))

    assert found["totals"]["rows"] == [3, 3]
    assert found["totals"]["impressions"] == [10, 10]
    assert {each["group"] for each in found["movers"]} == {"#1", "a;b", "'q'"}


def test_csv_with_another_separator_is_named_and_has_no_figures() -> None:
    board = MemoryBlackboard()
    update = published(board, b"campaign_id;impressions\na;7\n", suffix="csv")

    with pytest.raises(
        FeedError, match=r"part-0\.csv cannot be read: it has one column, 'campaign_id;impressions'"
    ) as caught:
        moved(FIGURES, update, update)
    assert update.uri in str(caught.value)


def test_an_update_whose_files_are_gone_leaves_the_report_without_figures_and_says_why() -> None:
    board = MemoryBlackboard()
    before = published(board, effectiveness({"a": (1, 1, "1")}))
    published(board, effectiveness({"a": (2, 1, "1")}), run_id="run")
    board.delete(before.key("part-0.parquet"))

    found = compare(board, DECLARED, DAY, before.name, {"run"}, now=AS_OF)

    assert found["figures"] is None
    assert "part-0.parquet" in found["problem"]


def measured(*values: float) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"campaign_id": ["a"] * len(values), "cost": pa.array(values, pa.float64())}), file)
    return file.getvalue()


def test_values_that_are_no_numbers_are_left_out_of_the_sums() -> None:
    board = MemoryBlackboard()
    before = published(board, measured(1.5, float("nan"), float("inf")))
    after = published(board, measured(2.5, 1.0))

    found = moved(FIGURES, before, after)

    assert found["totals"]["cost"] == [1.5, 3.5]
    assert found["totals"]["rows"] == [3, 2]


def test_figures_too_large_for_a_sum_are_no_reason_to_take_an_update_out_of_force() -> None:
    board = MemoryBlackboard()
    before = published(board, measured(1e33))
    published(board, measured(1.0), run_id="run")

    found = compare(board, DECLARED, DAY, before.name, {"run"}, now=AS_OF)

    assert found["problem"].startswith("The figures cannot be added up: Conversion Error")
    assert "invalidate" not in found["problem"]


@pytest.mark.parametrize("damaged", ["before", "after"])
def test_the_update_whose_files_are_damaged_is_named_and_no_other(damaged) -> None:
    board = MemoryBlackboard()
    contents = {"before": measured(1.0), "after": measured(2.0)} | {damaged: b"PAR1 no parquet PAR1"}
    updates = {name: published(board, content, run_id=name) for name, content in contents.items()}

    found = compare(board, DECLARED, DAY, updates["before"].name, {"after"}, now=AS_OF)

    assert f"The files of {updates[damaged].uri} cannot be read" in found["problem"]
    assert [each.name for each in updates.values() if each.name in found["problem"]] == [updates[damaged].name]


def test_figures_that_a_feed_cannot_have_are_refused_when_it_is_declared_and_others_are_read_back() -> None:
    declared = declared_feed(feed_metadata("some/v1.0", AD_EFFECTIVENESS, figures=FIGURES))
    assert declared is not None
    assert declared.figures == FIGURES

    for figures, message in (
        (Figures("campaign", ("clicks",)), "has no column campaign, by which reports are to compare"),
        (
            Figures("campaign_id", ("clicks",), (("CTR", "clicks", "impressions"),)),
            "names impressions, which is not in",
        ),
    ):
        with pytest.raises(dg.DagsterInvalidDefinitionError, match=message):
            feed_metadata("some/v1.0", AD_EFFECTIVENESS, figures=figures)


@pytest.mark.parametrize(
    ("before", "after", "share", "words"),
    [
        (1000, 1100, False, "1,000 -> 1,100 (+10.0 %)"),
        (0, 5, False, "0 -> 5"),
        (None, 5, False, "- -> 5"),
        (5, 5, False, "5 -> 5"),
        (0.01, 0.02, True, "1.000 % -> 2.000 % (+1.000 points)"),
    ],
)
def test_a_change_is_told_in_numbers_that_people_read(before, after, share, words) -> None:
    assert change(before, after, share=share) == words


def lines_of(found: dict[str, Any]) -> list[str]:
    """The message on the end of a run whose only feed is compared so."""
    result = {"outcome": "success", "run": None, "feeds": [found]}
    return notice_of(Report("1", "memory", DAY, AS_OF, {"sources": []}, result), ENDED).lines


def test_an_update_whose_writer_was_overtaken_is_told_not_to_be_in_force() -> None:
    board = MemoryBlackboard()
    before = published(board, effectiveness({"a": (100, 1, "1")}))
    slow = claim(DECLARED.on(board), DAY, now=AS_OF, owner="slow")
    of_others = published(board, effectiveness({"b": (10, 1, "1")}))
    publish(stage(slow, staged_files(slow, 0), Facts(run_id="run"), now=AS_OF), now=AS_OF)

    found = compare(board, DECLARED, DAY, before.name, {"run"}, now=AS_OF)

    assert f"It is not in force: readers have {of_others.name}." in lines_of(found)
    found = compare(board, DECLARED, DAY, before.name, {""}, now=AS_OF)
    assert not [line for line in lines_of(found) if "not in force" in line]


def test_a_ratio_above_1_is_no_percentage() -> None:
    board = MemoryBlackboard()
    figures = Figures("campaign_id", ("impressions", "clicks"), (("per click", "impressions", "clicks"),))
    before, _ = (published(board, effectiveness({"a": (count, 20, "1")})) for count in (250, 265))
    found = compare(board, replace(DECLARED, figures=figures), DAY, before.name, {""}, now=AS_OF)

    (row,) = (line for line in lines_of(found) if line.startswith("  per click"))
    assert row.split() == ["per", "click", "12.5", "13.25", "+6.0", "%"]
