"""The manifest's content: what is written, and what is tolerated."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feed_assets.file_feed import manifest, parse_manifest
from feed_assets.file_feed.manifest import INVALIDATED, MAX_BYTES, NEVER_VALID, is_removal, replaced_by, taken_over


@given(st.integers(0, 10**18))
def test_what_is_written_is_the_number_and_nothing_else(count: int) -> None:
    assert manifest(count) == f"{count}".encode()
    assert parse_manifest(manifest(count)) == count


@given(st.integers(0, 1000), st.text(" \t\n\r", max_size=5), st.text(" \t\n\r", max_size=5))
def test_white_space_around_it_is_tolerated(count: int, before: str, after: str) -> None:
    assert parse_manifest(f"{before}{count}{after}".encode()) == count


@given(st.binary(max_size=80) | st.text("0123456789+-_. \n", max_size=8).map(str.encode))
def test_anything_is_a_number_or_not_and_never_an_error(data: bytes) -> None:
    number = re.fullmatch(r"\s*(0|[1-9][0-9]*)\s*", data.decode("latin-1"), re.ASCII)
    expected = int(number[1]) if number and len(data) <= 64 else None
    assert parse_manifest(data) == expected


@pytest.mark.parametrize(
    "digit", ["\N{ARABIC-INDIC DIGIT THREE}", "\N{FULLWIDTH DIGIT THREE}", "\N{SUPERSCRIPT THREE}"]
)
def test_digits_of_other_scripts_are_no_number(digit: str) -> None:
    assert parse_manifest(digit.encode()) is None


@pytest.mark.parametrize(
    "data", [b"+3", b"-3", b"3.0", b"1_000", b"03", b"0x3", b"3 3", b"3\x00", b"\xef\xbb\xbf3", b""]
)
def test_what_a_lenient_parser_would_take_is_no_number(data: bytes) -> None:
    assert parse_manifest(data) is None


def test_what_is_too_long_is_no_number() -> None:
    assert parse_manifest(b"3".ljust(MAX_BYTES)) == 3
    assert parse_manifest(b"3".ljust(MAX_BYTES + 1)) is None


def test_what_takes_an_update_out_of_force_is_a_number_for_the_plainest_reader_and_equals_no_count() -> None:
    assert parse_manifest(NEVER_VALID) is parse_manifest(INVALIDATED) is None
    assert int(NEVER_VALID) < 0
    assert int(INVALIDATED) < 0


@given(st.none() | st.integers(0, 10**20).map(manifest) | st.binary(max_size=70), st.integers(0, 10**8 - 1))
def test_what_retention_leaves_is_a_number_of_64_bits_that_is_never_valid(replaced: bytes | None, token: int) -> None:
    content = taken_over(replaced, token)
    assert parse_manifest(content) is None
    assert -(2**63) < int(content) < 0
    assert is_removal(content)
    back = replaced_by(content)
    assert back is None or (replaced is not None and parse_manifest(back) == parse_manifest(replaced))


@given(st.integers(0, 10**8 - 1), st.integers(0, 10**8 - 1), st.integers(0, 10**8 - 1))
def test_what_one_retention_leaves_tells_the_number_it_replaced_and_is_not_what_another_leaves(
    count: int, token: int, other: int
) -> None:
    assert replaced_by(taken_over(manifest(count), token)) == manifest(count)
    assert (taken_over(manifest(count), token) == taken_over(manifest(count), other)) == (token == other)


@pytest.mark.parametrize("data", [b"", b"3", b"-2", b"-", b"-1x", b"-11", b"-1 "])
def test_what_others_write_is_not_taken_for_what_retention_leaves(data: bytes) -> None:
    assert not is_removal(data)
    assert replaced_by(data) is None


def test_what_is_given_up_is_not_given_back() -> None:
    assert is_removal(NEVER_VALID)
    assert replaced_by(NEVER_VALID) is None
