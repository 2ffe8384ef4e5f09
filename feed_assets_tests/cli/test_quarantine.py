"""`feed-assets quarantine` of pushed records: true reasons, records by request, export. Nothing here starts Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from feed_assets.blackboard.location import open_blackboard
from feed_assets.receiving.receipts import Receipt, Receipts, write_receipts
from feed_assets.receiving.rejections import line_of, marked
from feed_assets_tests.cli.conftest import Run
from feed_assets_tests.harness import SHOP_CLICKS, write_sources
from feed_assets_tests.receiving.serving import EVENTS, SOURCE

FILE = "20191201T120000000000-0123456789abcdef.jsonl"
NO_OBJECT = "is not a JSON object"
AT = datetime(2019, 12, 1, tzinfo=UTC)
LONG = '{"id":12345678901234567890123,"time":"never"}'


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A base with two requests, of which landing put records into quarantine."""
    base = tmp_path / "base"
    monkeypatch.setenv("FEED_ASSETS_BASE", str(base))
    monkeypatch.setenv("FEED_ASSETS_SOURCES", str(write_sources(tmp_path / "sources", EVENTS, SHOP_CLICKS)))
    rejected = tuple((index, f"{NO_OBJECT}: (byte {index})") for index in (0, 2))
    requests = (Receipt("r-1", AT, 1, 1, "acme", rejected), Receipt("r-2", AT, 4, 2, "other"))
    write_receipts(open_blackboard(str(base)), Receipts(SOURCE, FILE, "0123456789abcdef", requests))
    quarantined = [
        *((index + 1, "malformed record", line_of(reason, b"nope").decode().strip()) for index, reason in rejected),
        (4, "no usable time", marked("segment x", LONG.encode()).decode()),
    ]
    landing = base / f"quarantine/landing/{SOURCE}/0123456789abcdef.json"
    landing.parent.mkdir(parents=True)
    lines = ({"file": FILE, "line": line, "reason": reason, "record": record} for line, reason, record in quarantined)
    landing.write_text("".join(json.dumps(each) + "\n" for each in lines))
    entry = base / f"raw/.landed/{SOURCE}/entries/0123456789abcdef/1.json"
    entry.parent.mkdir(parents=True)
    entry.write_text("{}")
    return base


@pytest.mark.usefixtures("base")
def test_rejected_records_are_counted_by_their_true_reason_with_the_request_of_an_example(run: Run):
    found = json.loads(run("quarantine", "--json").stdout)

    names = ("reason", "records", "partner", "request_id", "index", "example")
    assert [tuple(each[name] for name in names) for each in found] == [
        (NO_OBJECT, 2, "acme", "r-1", 0, "nope"),
        ("no usable time (column time)", 1, "other", "r-2", 0, LONG),
    ]
    assert "acme r-1[0] nope" in run("quarantine").stdout
    assert run("quarantine", "show", "--json").stdout == run("quarantine", "--json").stdout


@pytest.mark.usefixtures("base")
def test_the_records_of_a_request_are_shown_one_by_one_and_exported_with_all_their_digits(run: Run):
    found = json.loads(run("quarantine", "--request", "r-1", "--json").stdout)
    exported = run("quarantine", "export", "--request", "r-2").stdout

    assert [(each["index"], each["reason"], each["source"], each["record"]) for each in found] == [
        (index, f"{NO_OBJECT}: (byte {index})", SOURCE, "nope") for index in (0, 2)
    ]
    assert f'"record":{LONG}' in exported
    assert [json.loads(line)["record"] for line in run("quarantine", "export").stdout.splitlines()] == [
        "nope",
        "nope",
        json.loads(LONG),
    ]
    assert "No record of a request 'r-9' has landed" in run("quarantine", "--request", "r-9", code=1).stderr


def test_what_cannot_be_resubmitted_is_refused_before_anything_starts(run: Run, base: Path, tmp_path: Path):
    file = tmp_path / "bad.jsonl"
    line = json.loads(run("quarantine", "export").stdout.splitlines()[0])

    def refusal(**changed: object) -> str:
        file.write_text("\n" + json.dumps({**line, **changed}))
        return " ".join(run("quarantine", "resubmit", file, code=2).stderr.split())

    assert f"{file}:2 is no line of `feed-assets quarantine export`" in refusal(line="one")
    assert "There is no source 'clicks/shop_clicks' that takes events" in refusal(source="clicks/shop_clicks")
    assert not (base / "raw/.resubmitted").exists()


@pytest.mark.usefixtures("base")
def test_a_request_that_nobody_knows_is_an_error_that_says_where_it_was_looked_for(run: Run):
    stderr = run("receive", "request", "r-9", code=1).stderr

    assert "There is no request 'r-9' below" in stderr
    assert "FEED_ASSETS_RECEIVE_JOURNAL" in stderr
