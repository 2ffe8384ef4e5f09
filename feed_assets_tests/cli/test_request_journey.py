"""An operator follows a request by commands: where its records are, their correction, and that each landed once."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.location import open_blackboard
from feed_assets.journal.on_disk import DiskSegments
from feed_assets.receiving.landing_segments import Place, land_segments
from feed_assets.sources.loading import load_source
from feed_assets_tests.cli.conftest import Run
from feed_assets_tests.harness import SHOP_CLICKS, write_sources
from feed_assets_tests.receiving.serving import EVENTS
from feed_assets_tests.receiving.test_landing_segments import event, segment_of
from feed_assets_tests.web.gated_shop import serving
from feed_assets_tests.web.windows_service import Client

AT = datetime(2019, 12, 1, tzinfo=UTC)
ID = "request-0"


@pytest.fixture
def asked(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of three records has landed; two of them are in quarantine."""
    sources = write_sources(tmp_path / "sources", EVENTS, SHOP_CLICKS)
    monkeypatch.setenv("FEED_ASSETS_BASE", str(tmp_path / "base"))
    monkeypatch.setenv("FEED_ASSETS_SOURCES", str(sources))
    (tmp_path / "journal").mkdir()
    journal, source = DiskSegments(tmp_path / "journal"), load_source(sources / "0.yaml", KINDS)
    segment = segment_of(journal, source, b"\n".join([event("1"), event("2", "never"), event("", "x")]))
    board = open_blackboard(str(tmp_path / "base"))
    (outcome,) = land_segments(Place(board, journal, [source], lambda: spark, lambda: AT), [segment])
    assert (outcome.landed, outcome.quarantined) == (1, 2)


@pytest.mark.usefixtures("asked")
def test_bad_records_of_a_request_are_found_corrected_and_landed_once(run: Run, tmp_path: Path):
    def raw() -> list[tuple[str, int, bool]]:
        story = json.loads(run("receive", "request", ID, "--json").stdout)
        return [(each["day"], each["records"], each["resubmitted"]) for each in story["raw"]]

    assert raw() == [("2019-11-24", 1, False)]
    shown = run("receive", "request", ID)
    assert "no usable time (column time)" in shown.stdout
    assert "`feed-assets explain 2019-11-24` says when a day is read" in shown.stderr
    assert "resubmitted" not in run("quarantine").stderr

    bad = [json.loads(line) for line in run("quarantine", "export", "--request", ID).stdout.splitlines()]
    fields = {1: {"time": "2019-11-26 01:00:00"}, 2: {"id": "3", "time": "2019-11-25 01:00:00"}}
    corrections = tmp_path / "good.jsonl"
    corrections.write_text(
        "".join(json.dumps({**each, "record": {**each["record"], **fields[each["index"]]}}) + "\n" for each in bad)
    )
    first, again = (run("quarantine", "resubmit", corrections) for _ in range(2))

    assert "Landed 2 corrected records." in first.stderr
    assert "They are of 2 days from 2019-11-25 to 2019-11-26: `feed-assets explain 2019-11-25` says" in first.stderr
    assert "Landed 0 corrected records.\n2 records had been resubmitted before" in again.stderr
    assert sorted(raw()) == [("2019-11-24", 1, False), ("2019-11-25", 1, True), ("2019-11-26", 1, True)]
    assert "2 records were resubmitted: `feed-assets quarantine export` leaves them out." in run("quarantine").stderr
    assert run("quarantine", "export").stdout == ""

    with serving(os.environ, tmp_path) as url:
        told, unknown = (Client(url).ask(f"/v1/sources/requests/{each}") for each in (ID, "request-7"))
    assert told.body == json.loads(run("receive", "request", ID, "--json").stdout)
    assert [(each["index"], each["resubmitted"]) for each in told.body["quarantined"]] == [(1, True), (2, True)]
    assert (unknown.status, "Request 'request-7' has not landed" in unknown.body["detail"]) == (404, True)
