"""Tables of any width: nothing is cut off, nothing that people copy is broken, nothing vanishes without a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from feed_assets.cli.tables import SHORT, TableColumn, laid_out, wrapped

words = st.text("abcdefé漢0123456789.,:/-", min_size=1, max_size=30)
cells = st.one_of(
    st.integers(0, 10**12).map(str),
    st.dates().map(str),
    st.sampled_from(["20191201.160000", "20191201.160000 *", "12.34 %", "0.21 - 0.55 %", "-", ""]),
    st.lists(words, max_size=12).map(" ".join),
)


@st.composite
def tables(draw: st.DrawFn) -> list[TableColumn]:
    rows = draw(st.integers(1, 4))
    return [
        TableColumn(f"c{number}", tuple(draw(cells) for _ in range(rows)), is_number=draw(st.booleans()))
        for number in range(draw(st.integers(1, 8)))
    ]


@given(tables(), st.integers(20, 120))
def test_every_short_text_stands_whole_on_one_line_and_every_word_of_a_long_one(columns: list[TableColumn], width: int):
    layout = laid_out(columns, width=width)

    for column in columns:
        assert column.name in " ".join([layout.header, *layout.lines]) or not any(column.texts)
        for text in column.texts:
            for part in [text] if cell_len(text) <= min(SHORT, width - 6) else text.split():
                assert any(part in line for line in layout.lines), (part, layout)


@given(tables(), st.integers(20, 120))
def test_a_line_is_longer_than_the_terminal_only_where_a_single_word_is(columns: list[TableColumn], width: int):
    layout = laid_out(columns, width=width)

    for line in [layout.header, *layout.lines]:
        longest = max((cell_len(word) for word in line.split(" ")), default=0)
        # Beside a name and behind an indentation a word has less than the whole line.
        assert cell_len(line) <= width or longest > width - 8, line


@given(tables())
def test_through_a_pipe_a_row_is_a_line(columns: list[TableColumn]):
    assert len(laid_out(columns, width=None).lines) == len(columns[0].texts)


@given(tables(), st.integers(20, 80))
def test_columns_that_are_left_out_are_named(columns: list[TableColumn], width: int):
    layout = laid_out(columns, width=width, keep=["c0"])

    not_shown = " ".join(layout.lines).partition("Not shown")[2]
    for column in columns:
        shown = column.name in layout.header.split() or any(column.name in line for line in layout.lines)
        assert shown or column.name in not_shown or not any(column.texts)


def test_the_effort_for_a_text_does_not_grow_with_the_table(monkeypatch: pytest.MonkeyPatch):
    measured = []
    monkeypatch.setattr("feed_assets.cli.tables.cell_len", lambda text: measured.append(text) or len(text))
    rows = 100

    laid_out([TableColumn("c", ("text",) * rows, is_number=False)], width=None)

    assert len(measured) < 4 * rows


def test_a_row_that_does_not_fit_keeps_its_short_columns_and_puts_long_texts_below():
    columns = [
        TableColumn("update", ("20191201.160000",), is_number=False),
        TableColumn("rows", ("12345",), is_number=True),
        TableColumn("why", ("the partner has sent the wrong file for this day",), is_number=False),
    ]

    assert laid_out(columns, width=40).header == "update            rows"
    assert laid_out(columns, width=40).lines == (
        "20191201.160000  12345",
        "    why: the partner has sent the wrong",
        "      file for this day",
    )


def test_a_short_text_below_its_row_is_not_broken_either():
    columns = [
        TableColumn("n", ("1", "2"), is_number=True),
        TableColumn("rate", ("0.21 - 0.55 %", "it is measured again every day"), is_number=False),
    ]

    assert laid_out(columns, width=20).lines == (
        "1",
        "    rate:",
        "      0.21 - 0.55 %",
        "2",
        "    rate: it is",
        "      measured again",
        "      every day",
    )


def test_what_fits_in_no_way_is_a_block_for_each_row():
    columns = [TableColumn(f"c{number}", ("1234567", "7654321"), is_number=True) for number in range(4)]

    assert laid_out(columns, width=20).lines[:6] == (
        "c0  1234567",
        "c1  1234567",
        "c2  1234567",
        "c3  1234567",
        "",
        "c0  7654321",
    )


def test_a_sentence_is_broken_at_spaces_only():
    text = "  late: 1,234,567 bytes of s3://bucket/a-very-long-key/that/goes/on have come"

    lines = wrapped(text, width=30, indent="    ")

    assert " ".join(line.strip() for line in lines) == text.strip()
    assert lines[0].startswith("  late: 1,234,567 bytes of")
    assert "    s3://bucket/a-very-long-key/that/goes/on" in lines


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("สวัสดี", 4),
        ("e\u0301", 1),
        ("किताब", 3),
        ("\u1112\u1161\u11ab", 2),
        ("漢字", 4),
        ("👍🏽", 2),
        ("1️⃣", 2),
        ("☎️", 2),
    ],
)
def test_columns_are_aligned_beside_letters_and_emoji_of_any_width(text: str, taken: int):
    columns = [
        TableColumn("name", (text, "abcdef"), is_number=False),
        TableColumn("to the right", (text, "1"), is_number=True),
        TableColumn("end", ("end", "end"), is_number=False),
    ]

    assert laid_out(columns, width=None).lines == (
        f"{text}{' ' * (6 - taken)}  {' ' * (12 - taken)}{text}  end",
        "abcdef             1  end",
    )
