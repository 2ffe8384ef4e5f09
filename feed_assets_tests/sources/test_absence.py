"""Days without raw files: why that is no fault, and where a landing's raw files are gone."""

from __future__ import annotations

from datetime import date

import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.sources.absence import absences
from feed_assets.sources.layout import landed_path, raw_file_key
from feed_assets.sources.ledger import Landing
from feed_assets.sources.loading import load_source
from feed_assets.sources.source_errors import RawFilesGoneError
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.harness import SHOP_ADS, write_sources
from feed_assets_tests.ledger import enter

ADS = "ads/shop_ads"
DAY, NEXT_DAY = date(2019, 11, 24), date(2019, 11, 25)


@pytest.fixture
def source(tmp_path):
    return load_source(write_sources(tmp_path / "sources", SHOP_ADS) / "0.yaml", KINDS)


@pytest.fixture
def blackboard(tmp_path):
    return LocalBlackboard(tmp_path / "blackboard")


def landing(*days, partitions=(), generation=1, digest="0" * 16):
    return Landing(
        ADS, f"{digest[:1]}.csv", "0" * 64, digest, read=5, landed=len(partitions), filtered=5 - len(partitions),
        malformed=0, quarantined={}, quarantine_key=None, partitions=partitions, generation=generation,
        records=(1,) * len(partitions), days=tuple(str(day) for day in days),
    )  # fmt: skip


def put(blackboard, landed, *, files=True):
    """The entry of a landing, and its raw files unless somebody has deleted them."""
    for hour in landed.partitions if files else ():
        blackboard.create(raw_file_key(ADS, hour[:10], landed_path(hour[11:], landed.id, 1)), b"x")
    enter(blackboard, landed)


def test_a_day_of_which_no_landing_has_a_record_is_still_to_come(blackboard, source):
    put(blackboard, landing(NEXT_DAY))

    assert absences(blackboard, source, [DAY]).reason(DAY) is None


def test_a_day_whose_records_the_filter_leaves_out_is_no_fault(blackboard, source):
    put(blackboard, landing(DAY, NEXT_DAY, partitions=(f"{NEXT_DAY}/05",)))

    assert absences(blackboard, source, [DAY]).reason(DAY) == (
        "0.csv landed with records of that day, and the source's filter leaves them out"
    )


def test_an_hour_without_a_file_is_no_fault_where_the_other_hours_of_the_day_have_theirs(blackboard, source):
    put(blackboard, landing(DAY, partitions=(f"{DAY}/05",)))

    assert absences(blackboard, source, [DAY]).reason(DAY) == "0.csv landed with records of other hours of that day"


def test_one_file_that_is_gone_is_a_fault_whatever_else_landed_for_the_day(blackboard, source):
    put(blackboard, landing(DAY, digest="a" * 16))
    put(blackboard, landing(DAY, NEXT_DAY, partitions=(f"{DAY}/05", f"{DAY}/06"), digest="b" * 16), files=False)
    put(blackboard, landing(DAY, digest="c" * 16))

    with pytest.raises(RawFilesGoneError, match=r"b\.csv .* gone \(.*/05/landed-b{16}\.1\.parquet and 1 more\)"):
        absences(blackboard, source, [DAY]).reason(DAY)


def test_where_no_landing_put_a_record_into_the_days_no_raw_file_is_listed(blackboard, source):
    put(blackboard, landing(DAY, NEXT_DAY))
    recording = RecordingBlackboard(blackboard)

    found = absences(recording, source, [DAY, NEXT_DAY])

    assert (set(found.reasons), found.gone) == ({DAY, NEXT_DAY}, {})
    assert recording.counts()["page"] == 1
