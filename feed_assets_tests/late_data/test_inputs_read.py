"""What an update read, as its record says it. Not here: what follows from that (`test_empty_days`)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from feed_assets.file_feed import Facts, FeedInput, claim, open_feed, publish_both, stage
from feed_assets.late_data.inputs_read import inputs_read

NOW = datetime(2019, 12, 1, 12, tzinfo=UTC)
DAY = "2019-11-24"


@pytest.mark.parametrize("reasons", [5, [["x"]], None], ids=repr)
def test_other_values_for_the_reasons_of_an_empty_day_are_no_reasons(tmp_path, reasons):
    feed = open_feed(str(tmp_path / "clean"))
    claimed = claim(feed, DAY, now=NOW, owner="another program")
    facts = Facts(inputs=(FeedInput("raw/v1.0", DAY, "20191201.110000"),), details={"empty_sources": reasons})
    publish_both(stage(claimed, (), facts, now=NOW), now=NOW)

    read = inputs_read(feed, DAY, claimed.name)

    assert read is not None
    assert read.empty_sources == frozenset()
