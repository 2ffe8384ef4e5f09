"""Parts of messages to people."""

from __future__ import annotations

from feed_assets.file_feed.wording import listed, observed_values


def test_counts_of_a_check_have_thousands_separators_and_an_example_of_the_data_stands_as_it_is():
    observed = {"rows": 1234, "share": 0.0867, "complete": True, "for example": "1234"}

    assert observed_values(observed) == "rows 1,234, share 0.0867, complete True, for example 1234"


def test_of_many_names_the_first_are_named_and_the_others_counted():
    assert [listed("abc", 3), listed("abcd", 3), listed([str(number) for number in range(1021)], 1)] == [
        "a, b, c",
        "a, b, c and 1 more",
        "0 and 1,020 more",
    ]
