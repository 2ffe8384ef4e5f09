"""Joining the lines of CSV records whose quoted fields hold line breaks."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feed_assets.sources.formats import DelimitedFormat
from feed_assets.sources.line_breaks import BREAK, join_records

fields = st.lists(st.sampled_from(["a", "é", " ", ",", ";", '"', "\n", "\r\n"]), max_size=6).map("".join)


def lines_of(text):
    return io.StringIO(text, newline="\n")


def joined(text, **more):
    return "".join(join_records(lines_of(text), DelimitedFormat(type="csv", header=True, line_breaks=True, **more)))


def parsed(line):
    return next(csv.reader([line.replace(BREAK, "\n")], strict=True))


@given(st.lists(st.lists(fields, min_size=2, max_size=3), max_size=6), st.sampled_from(["\n", "\r\n"]))
def test_each_record_is_on_the_line_on_which_it_began_and_no_other_is_there(rows, end):
    began, out = {}, io.StringIO(newline="\n")
    writer = csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL)
    for row in rows:
        began[out.getvalue().count("\n") + 1] = row
        writer.writerow(row)

    lines = joined(out.getvalue()).split("\n")

    assert {number: parsed(line) for number, line in enumerate(lines, start=1) if line} == began
    assert len(lines) == out.getvalue().count("\n") + 1


@given(st.text(st.sampled_from(["a", ",", '"', "\n", "\r"]), max_size=30))
def test_no_character_is_lost_whatever_the_quotes(text):
    lines = joined(text).split("\n")

    assert "".join(lines).replace(BREAK, "") == text.replace("\n", "")
    assert len(lines) - 1 - text.count("\n") in ({0} if text.endswith("\n") else {0, 1})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('1,5" screen\n2,"b\nc"\n', f'1,5" screen\n2,"b{BREAK}c"\n\n'),
        ('1,"never closed\n2,b\n3,"c\nd"\n', f'1,"never closed\n2,b\n3,"c{BREAK}d"\n\n'),
        ('1,"a"b\n2,c\n', '1,"a"b\n2,c\n'),
        (f'1,"{"x" * 200_000}\n2,"a\nb"\n', f'1,"{"x" * 200_000}\n2,"a{BREAK}b"\n\n'),
    ],
    ids=["a quote inside a field", "a quote that nothing closes", "text after a quote", "a field that is too long"],
)
def test_a_stray_quote_costs_its_own_line_only(text, expected):
    assert joined(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('1,"a \\" b\n2,c"\n', f'1,"a \\" b{BREAK}2,c"\n\n'),
        ('1,"C:\\\\"\n2,"c"\n', '1,"C:\\\\"\n2,"c"\n'),
        ('"1",C:\\\n"2",c\n', '"1",C:\\\n"2",c\n'),
    ],
    ids=["an escaped quote", "an escaped escape", "an escape at the end of a line"],
)
def test_a_quote_behind_an_escape_closes_no_field(text, expected):
    assert joined(text, escape="\\") == expected
