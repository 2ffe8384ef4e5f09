"""Files as partners pack them: content is what counts, and packing never fills a disk or the memory."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import re
import zipfile

import pyarrow as pa
import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.sources import packing, partner_file
from feed_assets.sources.loading import load_source
from feed_assets.sources.packing import packing_of
from feed_assets.sources.partner_file import inspect
from feed_assets.sources.source_errors import LandingError, PassingError
from feed_assets_tests.sources.described import simple

TEXT = b"id,time,ad\n" + b"".join(b"%d,2019-11-24 05:00:00,a\n" % number for number in range(2000))


def zstandard(content):
    packed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(packed, "zstd") as out:
        out.write(content)
    return packed.getvalue().to_pybytes()


def archive(*members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in members:
            out.writestr(name, content)
    return packed.getvalue()


@pytest.fixture
def look(tmp_path):
    path = tmp_path / "partner.yaml"
    path.write_text(simple(), encoding="utf-8")
    source = load_source(path, KINDS)

    def inspected(name, content):
        file, scratch = tmp_path / name, tmp_path / f"scratch of {name}"
        file.write_bytes(content)
        scratch.mkdir()
        return inspect(file, source, scratch)

    return inspected


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("a.csv.gz", gzip.compress(TEXT)),
        ("a.csv.bz2", bz2.compress(TEXT)),
        ("a.csv.bz2", bz2.compress(TEXT[:900]) + bz2.compress(TEXT[900:])),
        ("a.csv.zst", zstandard(TEXT)),
        ("a.csv.zst", zstandard(TEXT[:900]) + zstandard(TEXT[900:])),
        ("a.csv.zip", archive(("inner/a.csv", TEXT), ("__MACOSX/._a.csv", b"x"))),
        ("a.csv", bz2.compress(TEXT)),
    ],
    ids=["gzip", "bzip2", "bzip2 twice", "Zstandard", "Zstandard twice", "ZIP", "bzip2 without its name"],
)
def test_a_packed_text_is_the_same_content_as_the_plain_one_whatever_its_name(look, name, packed):
    plain, found = look("plain.csv", TEXT), look(name, packed)

    assert (found.sha256, found.columns, found.lines) == (plain.sha256, plain.columns, plain.lines)
    if not found.compressed:
        assert (found.content.read_bytes(), found.lines_before) == (TEXT, plain.lines_before)


@pytest.mark.parametrize(
    ("name", "packed", "message"),
    [
        ("a.csv.bz2", bz2.compress(TEXT)[:-9], r"cannot be unpacked to its end: .*; have it sent again"),
        ("a.csv.bz2", bz2.compress(TEXT)[:50] + b"x" * 50, r"cannot be unpacked to its end: .*; have it sent again"),
        ("a.csv.zst", zstandard(TEXT)[:-9], r"cannot be unpacked to its end: .*; have it sent again"),
        ("a.csv.zip", archive(("a", TEXT))[:-30], r"cannot be unpacked to its end: .*; have it sent again"),
        ("a.csv.bz2", TEXT, "is not bzip2, although its name says so"),
        ("a.csv.zst", gzip.compress(TEXT), "is not Zstandard, although its name says so"),
        ("a.zip", archive(("a", TEXT), ("b", TEXT)), "is a ZIP archive of 2 files, not a text"),
        ("a.zip", archive(("[Content_Types].xml", TEXT)), "is a ZIP archive or an Excel workbook, not a text"),
        ("a.csv.gz", gzip.compress(gzip.compress(TEXT)), r"packed twice: with gzip, and in it .* by `zcat FILE > NEW`"),
        ("a.csv.bz2", bz2.compress(gzip.compress(TEXT)), r"packed twice: with bzip2, .* in it with gzip.* `bzcat FILE"),
    ],
    ids=map(str, range(10)),  # not the bytes, which differ from process to process
)
def test_what_cannot_be_unpacked_is_refused_with_what_to_do(look, name, packed, message):
    with pytest.raises(LandingError, match=message) as refused:
        look(name, packed)
    assert not isinstance(refused.value, PassingError)


@pytest.mark.parametrize("pack", [bz2.compress, zstandard, lambda content: archive(("a", content))])
def test_a_content_out_of_proportion_and_a_line_without_end_stop_before_they_fill_a_disk(look, monkeypatch, pack):
    monkeypatch.setattr(packing, "_ALWAYS", 4 * 2**20)
    monkeypatch.setattr(packing, "_MOST_TIMES", 10)
    monkeypatch.setattr(packing, "_CHUNK", 2**16)
    monkeypatch.setattr(partner_file, "_LONGEST_LINE", 2**21)

    with pytest.raises(LandingError, match=r"unpacks to more than 4,194,304: it holds hardly any information"):
        look("many lines", pack(b"a\n" * 2**22))
    with pytest.raises(LandingError, match=r"a line has more than 2,097,152 bytes; have the file sent again"):
        look("one line", pack(b"id,time,ad\n" + b"a" * (3 * 2**20)))
    assert look("fine", pack(TEXT)).lines == 2002


def test_a_text_that_begins_with_the_letters_of_bzip2_is_a_text(look):
    assert packing_of(b"BZhours,") is None
    assert look("a.csv", b"BZhours,id,time,ad\n").columns == ("BZhours", "id", "time", "ad")


def test_a_pipe_is_refused_at_once_and_not_waited_for(look, tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(LandingError, match=r"is a pipe or a device, .* write its content into a file"):
        inspect(tmp_path / "pipe.csv", None, tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("é,“x”\n".encode("cp1252"), "They may be cp1252, .* write `encoding: cp1252` in the source .*partner.yaml:4"),
        (b"\x81\x9d\n", "They may be another encoding: ask the partner"),
    ],
)
def test_bytes_that_are_not_utf_8_get_a_hint(look, text, hint):
    (found,) = look("a.csv", TEXT + text).hints
    assert found.startswith("records that are not utf-8 are malformed. ")
    assert re.search(hint, found)


def test_a_character_cut_by_the_end_of_a_block_is_no_wrong_byte_and_one_cut_by_the_end_of_the_file_is(
    look, monkeypatch
):
    monkeypatch.setattr(partner_file, "_CHUNK", 3)
    assert look("whole.csv", b"id,time,ad\n" + "ääöü€😀\n".encode() * 9).hints == ()
    assert len(look("cut.csv", b"id,time,ad\n" + "ä".encode()[:1]).hints) == 1


def test_nul_bytes_in_some_lines_are_kept_for_their_records_and_those_in_all_lines_are_another_encoding(look):
    assert look("some.csv", b"id,time,ad\n1,\0,a\n2,,b\n").nuls
    assert look("end.csv", TEXT + b"\0" * 5000).nuls
    with pytest.raises(LandingError, match=r"has NUL bytes in all lines, .* may be UTF-16-LE"):
        look("wide.csv", TEXT.decode().encode("utf-16-le"))


def test_empty_names_at_the_end_of_a_header_are_no_columns(look):
    found = look("a.csv", b'id,time,ad,,"", \n')
    assert (found.columns, found.unnamed) == (("id", "time", "ad"), 3)
