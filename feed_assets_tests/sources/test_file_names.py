"""Names of partners' files: which are read, which are refused before anything is read, and what is no data."""

from __future__ import annotations

import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.sources.file_names import check_name, is_passed_over
from feed_assets.sources.loading import load_source
from feed_assets.sources.source_errors import LandingError
from feed_assets_tests.sources.described import simple


@pytest.fixture
def source(tmp_path):
    def load(text="type: csv, header: true", more=""):
        path = tmp_path / "partner.yaml"
        path.write_text(simple(text, more), encoding="utf-8")
        return load_source(path, KINDS)

    return load


POLL = "poll: {place: ., pattern: '*', every: '0 * * * *'}"
PARQUET = "type: parquet, columns: {id: string, time: string, ad: string}"


@pytest.mark.parametrize(
    "name",
    [
        *("a.csv", "A.TXT", "access.log", "2019-11-28", "part-00000", "0000_part_00", "dir.d/log"),
        *("access.log.1", "access.log-20191128", "access.log.2.gz", "access.log-20191128.gz", "access.log.gz.1"),
        *("a.csv.gz", "a.csv.bz2", "a.csv.zst", "a.csv.zip", "a.gz", "A.CSV.BZ2"),
    ],
)
def test_a_name_may_have_the_ending_of_its_format_or_none_and_behind_it_a_number_or_a_packing(source, name):
    check_name(name, source())


@pytest.mark.parametrize("more", ["", POLL])
@pytest.mark.parametrize(
    ("name", "ending"),
    [
        *(("a.jsonl", ".jsonl"), ("a.parquet.gz", ".parquet"), ("a.csv.part", ".part"), ("a.csv.md5", ".md5")),
        *(("a.csv.xz", ".xz"), ("a.tar.gz", ".tar"), ("a.tgz", ".tgz"), ("a.xlsx", ".xlsx"), ("a.csv.bz2.lz4", ".lz4")),
    ],
)
def test_endings_of_other_formats_of_unfinished_files_and_of_what_nothing_reads_are_refused(source, more, name, ending):
    with pytest.raises(LandingError) as refused:
        check_name(name, source(more=more))

    assert str(refused.value).startswith(
        f"{name} ends in '{ending}', and ads/partner takes csv files, which end in .csv, .txt, .log or have no ending, "
        "each also with .gz, .bz2, .zst or .zip behind it"
    )


def test_an_ending_that_nothing_else_has_is_taken_from_a_polled_partner_only(source):
    check_name("E1.2019-11-28-12.d111abc", source(more=POLL))
    with pytest.raises(LandingError, match=r"ends in '\.d111abc'"):
        check_name("E1.2019-11-28-12.d111abc", source())


def test_parquet_packs_itself_so_that_no_packing_stands_behind_it(source):
    for name in ("a.parquet", "part-00000"):
        check_name(name, source(PARQUET))
    with pytest.raises(LandingError, match=r"ends in '\.gz', .* which end in \.parquet or have no ending; unpack"):
        check_name("a.parquet.gz", source(PARQUET))


def test_the_lock_of_an_office_program_is_no_data():
    assert [is_passed_over(name) for name in ("~$sales.csv", "in/~$x", "sales~$.csv")] == [True, True, False]
