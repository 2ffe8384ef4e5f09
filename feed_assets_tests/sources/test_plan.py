"""What killed landings leave behind is finished after a while, whichever store it is in, and without Spark."""

import os
from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

import pytest

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.s3 import S3Blackboard
from feed_assets.sources.layout import (
    LandingId,
    attempt_prefix,
    attempted_prefix,
    landed_path,
    ledger_key,
    quarantine_key,
    raw_file_key,
    sent_key,
    staging_prefix,
)
from feed_assets.sources.ledger import Landing, current_landings, entry_json
from feed_assets.sources.plan import ABANDONED, Plan, Sweep, sweep_staging, write_plan
from feed_assets.sources.raw import raw_days
from feed_assets_tests.blackboard.shown import keys

SOURCE = "ads/partner"
PLANNED, UNPLANNED = LandingId("0123456789abcdef"), LandingId("00000000000000ff", 2)
ATTEMPT = attempt_prefix(SOURCE, "0" * 32)
STAGED = attempted_prefix(ATTEMPT, PLANNED)
RAW = raw_file_key(SOURCE, "2019-11-24", landed_path("05", PLANNED, 1))


@pytest.fixture(params=["local", "s3"])
def blackboard(request, tmp_path):
    """A store in which two files were landed at once and killed when the first had its plan."""
    if request.param == "local":
        board = LocalBlackboard(tmp_path)
    else:
        client = request.getfixturevalue("versitygw").client()
        bucket = f"landing-{uuid4().hex}"
        client.create_bucket(Bucket=bucket)
        board = S3Blackboard(client, bucket, "base")
    board.create(f"{attempted_prefix(ATTEMPT, UNPLANNED)}sent", b"half")
    board.create(f"{STAGED}rows", b"rows")
    board.create(f"{STAGED}sent", b"sent")
    landing = Landing(SOURCE, "log.csv", "", PLANNED.digest, 1, 1, 0, 0, {}, None, ("2019-11-24/05",))
    copies = ((f"{STAGED}rows", RAW), (f"{STAGED}sent", sent_key(SOURCE, PLANNED.digest)))
    write_plan(board, staging_prefix(SOURCE, PLANNED), Plan(landing, copies, STAGED))
    board.create(f"raw/.staging/{SOURCE}2/other/attempt/sent", b"of a source whose name begins alike")
    return board


def test_what_killed_landings_staged_is_completed_or_removed_once_it_is_old(blackboard):
    before, now = keys(blackboard), datetime.now(UTC)

    assert sweep_staging(blackboard, SOURCE, now=now + ABANDONED - timedelta(minutes=1)) == Sweep()
    assert keys(blackboard) == before
    swept = sweep_staging(blackboard, SOURCE, now=now + ABANDONED + timedelta(minutes=1))

    assert ([landing.file for landing in swept.completed], swept.removed, swept.failures) == (["log.csv"], 4, ())
    assert [str(each.id) for each in current_landings(blackboard, SOURCE)] == [str(PLANNED)]
    assert list(raw_days(blackboard, [SOURCE], date.min, date.max)) == [(SOURCE, date(2019, 11, 24))]
    assert sorted(keys(blackboard)) == [
        f"raw/.landed/{SOURCE}/days/2019-11-24/{PLANNED}",
        f"raw/.landed/{SOURCE}/entries/{PLANNED.digest}/1.json",
        f"raw/.sent/{SOURCE}/{PLANNED}",
        f"raw/.staging/{SOURCE}2/other/attempt/sent",
        RAW,
    ]


def test_staged_files_of_a_plan_that_may_still_be_carried_out_stay(tmp_path):
    board = LocalBlackboard(tmp_path)
    for landing in (PLANNED, UNPLANNED):
        board.create(f"{attempted_prefix(ATTEMPT, landing)}rows", b"rows")
    for path in tmp_path.rglob("rows"):
        os.utime(path, (0, 0))
    entry = Landing(SOURCE, "log.csv", "", PLANNED.digest, 1, 1, 0, 0, {}, None, ("2019-11-24/05",))
    write_plan(board, staging_prefix(SOURCE, PLANNED), Plan(entry, ((f"{STAGED}rows", RAW),), STAGED))

    swept = sweep_staging(board, SOURCE, now=datetime.now(UTC))

    assert swept == Sweep(removed=1)
    assert keys(board) == [f"{STAGED}rows", f"{staging_prefix(SOURCE, PLANNED)}plan.json"]


@pytest.mark.parametrize("entered", [False, True], ids=["killed before its entry", "killed after its entry"])
def test_the_quarantine_that_a_swept_landing_supersedes_is_removed(tmp_path, entered):
    board = LocalBlackboard(tmp_path)
    superseded, again = LandingId(PLANNED.digest), LandingId(PLANNED.digest, 2)
    for generation, landing in enumerate((superseded, again), start=1):
        board.create(quarantine_key(SOURCE, landing), b"bad")
        entry = Landing(SOURCE, "log.csv", "", landing.digest, 1, 0, 0, 0, {}, None, (), generation=generation)
        if entered or landing == superseded:
            board.create(ledger_key(SOURCE, landing), entry_json(entry))
    write_plan(board, staging_prefix(SOURCE, again), Plan(entry, (), staging_prefix(SOURCE, again)))

    swept = sweep_staging(board, SOURCE, now=datetime.now(UTC) + 2 * ABANDONED)

    assert (len(swept.completed), swept.removed, swept.failures) == (not entered, 1, ())
    assert [key for key in keys(board) if key.startswith("quarantine/")] == [quarantine_key(SOURCE, again)]


def test_a_plan_whose_staged_files_are_gone_is_named_once_and_removed(blackboard):
    blackboard.delete(f"{STAGED}rows")
    now = datetime.now(UTC) + 2 * ABANDONED

    swept = sweep_staging(blackboard, SOURCE, now=now)

    assert swept.completed == ()
    assert swept.failures == ("what was staged for log.csv was removed; land log.csv again",)
    assert sweep_staging(blackboard, SOURCE, now=now) == Sweep()
    # Nor is the other file of the plan copied: nobody would ever remove it.
    assert not [key for key in keys(blackboard) if key.startswith((f"raw/{SOURCE}/", f"raw/.sent/{SOURCE}/"))]


class LargeFiles(MemoryBlackboard):
    """A store whose raw files do not fit into memory."""

    def read(self, key, *, limit=None):
        assert limit is not None or key.endswith(".json")
        return super().read(key, limit=limit)

    def download(self, key, target):
        target.write_bytes(super().read(key).data)


@pytest.mark.parametrize("content_tags", [True, False])
def test_a_landing_that_was_killed_while_it_copied_is_completed_without_a_file_in_memory(content_tags):
    board = LargeFiles(content_tags=content_tags)
    board.create(f"{STAGED}rows", b"rows")
    board.create(RAW, b"rows")
    entry = Landing(SOURCE, "log.csv", "", PLANNED.digest, 1, 1, 0, 0, {}, None, ("2019-11-24/05",))
    write_plan(board, staging_prefix(SOURCE, PLANNED), Plan(entry, ((f"{STAGED}rows", RAW),), STAGED))

    swept = sweep_staging(board, SOURCE, now=datetime.now(UTC))

    assert ([landing.id for landing in swept.completed], swept.failures) == ([PLANNED], ())


@pytest.mark.parametrize("other", [b"of somebody else", b"four"])
def test_a_plan_that_cannot_be_carried_out_is_named_and_holds_up_nothing_else(tmp_path, other):
    board = LocalBlackboard(tmp_path)
    for landing in (PLANNED, UNPLANNED):
        staging = staging_prefix(SOURCE, landing)
        board.create(f"{staging}attempt/rows", b"rows")
        if landing == PLANNED:
            entry = Landing(SOURCE, "log.csv", "", landing.digest, 1, 1, 0, 0, {}, None, ("2019-11-24/05",))
            write_plan(board, staging, Plan(entry, ((f"{staging}attempt/rows", RAW),), staging))
    board.create(RAW, other)

    swept = sweep_staging(board, SOURCE, now=datetime.now(UTC) + 2 * ABANDONED)

    assert (swept.completed, swept.removed, len(swept.failures)) == ((), 1, 1)
    assert "is there with other content than this landing gives it" in swept.failures[0]
    assert raw_days(board, [SOURCE], date.min, date.max) == {}
