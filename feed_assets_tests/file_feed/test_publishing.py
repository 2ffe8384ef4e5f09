"""The writer's side: claims, staging, publishing, turning away, and crashes after every single step."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, BlackboardError, NotFoundError, UnavailableError
from feed_assets.file_feed import (
    BadNameError,
    CheckOutcome,
    Claim,
    ClaimLostError,
    Column,
    Facts,
    Feed,
    FeedError,
    NotPublishedError,
    NoValidUpdateError,
    Policy,
    SchemaChangeError,
    Staged,
    TornUpdateError,
    Transition,
    carry_out,
    claim,
    find_staged,
    history,
    invalidate,
    latest,
    plan,
    promised_schema,
    publish,
    publish_files,
    read_record,
    reject,
    require_latest,
    stage,
    staged_files,
    update_name,
)
from feed_assets_tests.blackboard.interleavings import Actor, explore
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.blackboard.replay import Failed
from feed_assets_tests.file_feed import plain_reader

NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
SECOND = timedelta(seconds=1)
DAY = "2018-05-20"
PREFIX = f"ads/v1.0/{DAY}/"
PASSED = (CheckOutcome("rows", passed=True, severity="ERROR", observed={"rows": 3}),)
FAILED = (CheckOutcome("rows", passed=False, severity="ERROR", observed={"rows": 0}),)
SCHEMA = (Column("ad_id", "bigint", nullable=False), Column("price", "double"))
GROWN = (*SCHEMA, Column("note", "string"))


@pytest.fixture
def board() -> MemoryBlackboard:
    return MemoryBlackboard()


@pytest.fixture
def feed(board: MemoryBlackboard) -> Feed:
    return Feed(board, "ads/v1.0")


def written(feed: Feed, *, files: int = 2, now: datetime = NOW, owner: str = "run") -> Claim:
    claimed = claim(feed, DAY, now=now, owner=owner)
    for number in range(files):
        feed.blackboard.create(f"{claimed.prefix}part-{number}", f"{owner} {number}".encode())
    return claimed


def staged(feed: Feed, *, files: int = 2, now: datetime = NOW, facts: Facts | None = None) -> Staged:
    claimed = written(feed, files=files, now=now)
    return stage(claimed, staged_files(claimed, files), facts or Facts(run_id="run"), now=now)


def in_force(feed: Feed) -> str | None:
    update = latest(feed, DAY, now=NOW)
    assert isinstance(feed.blackboard, MemoryBlackboard)
    plain = plain_reader.latest(feed.blackboard.objects(), PREFIX)
    assert (update and update.name) == (plain and plain[0])
    return update.name if update else None


class LosesAnswers(MemoryBlackboard):
    """Does what it is asked, and says for the next so many writes that nobody knows whether it did."""

    lost = 0
    landing = True

    def create(self, key, data):
        if self.lost and not self.landing:
            self._lose()
        entry = super().create(key, data)
        self._lose()
        return entry

    def replace(self, key, data, *, tag):
        entry = super().replace(key, data, tag=tag)
        self._lose()
        return entry

    def _lose(self) -> None:
        if self.lost:
            self.lost -= 1
            raise UnavailableError("The answer was lost.")


# --- claims -----------------------------------------------------------------------------------------------------------


def test_a_claim_is_the_second_it_is_made_in(feed: Feed) -> None:
    claimed = claim(feed, DAY, now=NOW + timedelta(microseconds=999_999), owner="run")
    assert claimed.name == "20180521.160000"
    assert claimed.prefix == f"{PREFIX}20180521.160000/"
    assert claimed.uri == f"memory:///{PREFIX}20180521.160000"


def test_writers_of_one_second_get_one_second_after_the_other(feed: Feed) -> None:
    names = [claim(feed, DAY, now=NOW, owner="run").name for _ in range(5)]
    assert names == [update_name(NOW + number * SECOND) for number in range(5)]


def test_other_partitions_and_feeds_have_their_own_seconds(feed: Feed, board: MemoryBlackboard) -> None:
    claims = [
        claim(place, partition, now=NOW, owner="run")
        for place, partition in ((feed, DAY), (feed, "2018-05-21"), (feed, None), (Feed(board, "ads/v1.1"), DAY))
    ]
    assert {each.name for each in claims} == {"20180521.160000"}


@pytest.mark.parametrize("name", ["20180521.160000", "20180521.160700", "20190101.000000"])
def test_a_claim_comes_after_every_update_that_is_there_whoever_wrote_it(
    feed: Feed, board: MemoryBlackboard, name: str
) -> None:
    board.put(f"{PREFIX}{name}/half-written", b"")
    assert claim(feed, DAY, now=NOW, owner="run").name > name


def test_after_the_last_second_that_has_a_name_nothing_can_be_claimed(feed: Feed, board: MemoryBlackboard) -> None:
    board.put(f"{PREFIX}99991231.235959/x", b"")
    with pytest.raises(BadNameError, match=r"follow 99991231\.235959\. Remove"):
        claim(feed, DAY, now=NOW, owner="run")


@pytest.mark.parametrize("name", ["20180521.155959", "20180521.160060", "20190230.000000", "20180521.170000x", "x"])
def test_older_updates_and_other_names_hold_no_claim_up(feed: Feed, board: MemoryBlackboard, name: str) -> None:
    board.put(f"{PREFIX}{name}/x", b"")
    assert claim(feed, DAY, now=NOW, owner="run").name == "20180521.160000"


def test_a_claim_shows_its_owner_to_people(feed: Feed, board: MemoryBlackboard) -> None:
    claim(feed, DAY, now=NOW, owner="run 7")
    assert b'"owner": "run 7"' in board.objects()[f"ads/v1.0/.feed/claims/{DAY}/20180521.160000"]


# --- staging ----------------------------------------------------------------------------------------------------------


def test_what_is_staged_is_not_visible(feed: Feed) -> None:
    waiting = staged(feed)
    assert in_force(feed) is None
    record = read_record(feed, DAY, waiting.claim.name)
    assert record == waiting.record
    assert (record.state, [file.path for file in record.files]) == ("staged", ["part-0", "part-1"])


@pytest.mark.parametrize("expected", [1, 3])
def test_another_number_of_files_than_was_committed_is_torn(feed: Feed, expected: int) -> None:
    with pytest.raises(TornUpdateError, match=rf"holds 2 files, and {expected} were committed"):
        staged_files(written(feed), expected)


def test_what_other_programs_wrote_is_on_the_disk_before_it_is_on_record() -> None:
    board = RecordingBlackboard(MemoryBlackboard())
    claimed = written(Feed(board, "ads/v1.0"))
    files = staged_files(claimed, 2)
    assert board.flushed == [f"{claimed.prefix}{file.path}" for file in files] != []


def test_a_manifest_before_its_time_is_no_file(feed: Feed, board: MemoryBlackboard) -> None:
    claimed = written(feed, files=1)
    board.put(f"{claimed.prefix}_SUCCESS", b"")
    with pytest.raises(ClaimLostError, match="before it was published"):
        staged_files(claimed, 2)


def test_directory_markers_are_no_files(feed: Feed, board: MemoryBlackboard) -> None:
    claimed = written(feed, files=1)
    board.put(claimed.prefix, b"")
    assert [file.path for file in staged_files(claimed, 1)] == ["part-0"]


def test_staging_again_changes_nothing(feed: Feed, board: MemoryBlackboard) -> None:
    claimed = written(feed)
    files = staged_files(claimed, 2)
    first = stage(claimed, files, Facts(), now=NOW)
    before = board.objects()
    assert stage(claimed, files, Facts(), now=NOW) == first
    assert board.objects() == before


def test_staging_under_a_claim_whose_record_is_anothers_fails(feed: Feed) -> None:
    claimed = written(feed)
    stage(claimed, (), Facts(), now=NOW)
    with pytest.raises(BlackboardError):
        stage(replace(claimed, token="another"), (), Facts(), now=NOW)


def test_a_lost_answer_to_staging_is_resolved_by_reading_back() -> None:
    board = LosesAnswers()
    claimed = written(Feed(board, "ads/v1.0"))
    files = staged_files(claimed, 2)
    board.lost = 1
    waiting = stage(claimed, files, Facts(), now=NOW)
    assert publish(waiting, now=NOW).name == claimed.name


def test_the_newest_staged_update_is_found_by_another_process(feed: Feed) -> None:
    other = staged(feed, facts=Facts(run_id="other"))
    mine = staged(feed, facts=Facts(run_id="mine"))
    assert find_staged(feed, DAY) == find_staged(feed, DAY, root_run_id="mine") == mine
    assert find_staged(feed, DAY, root_run_id="other") == other
    assert find_staged(feed, DAY, root_run_id="nobody") is None
    assert find_staged(feed, "2018-05-19") is None


@pytest.mark.parametrize("outcome", ["published", "rejected", "invalidated"])
def test_what_an_attempt_left_behind_is_not_found_once_a_later_one_of_its_chain_was_settled(
    feed: Feed, outcome: str
) -> None:
    facts = Facts(run_id="retry", root_run_id="run")
    staged(feed, facts=facts)
    later = staged(feed, facts=facts)
    if outcome == "rejected":
        reject(later, reason="no", now=NOW)
    else:
        update = publish(later, now=NOW)
    if outcome == "invalidated":
        invalidate(feed, DAY, update.name, reason="wrong", author="me", now=NOW)
    assert find_staged(feed, DAY, root_run_id="run") is None


def test_what_was_published_rejected_or_invalidated_is_not_found_staged(feed: Feed) -> None:
    publish(staged(feed), now=NOW)
    reject(staged(feed), reason="no", now=NOW)
    invalidated = publish(staged(feed), now=NOW)
    invalidate(feed, DAY, invalidated.name, reason="no", author="me", now=NOW)
    assert find_staged(feed, DAY) is None


@pytest.mark.parametrize("how", ["audited", "local files"])
def test_what_was_published_is_never_found_staged_when_its_manifest_was_removed(
    feed: Feed, board: MemoryBlackboard, how: str
) -> None:
    if how == "audited":
        update = publish(staged(feed), now=NOW, checks=PASSED)
    else:
        update = publish_files(feed, DAY, [], now=NOW, owner="run")
    board.delete(f"{update.prefix}_SUCCESS")
    assert find_staged(feed, DAY) is None
    assert find_staged(feed, DAY, root_run_id="run") is None


def stopped_before_the_manifest(feed: Feed, *, facts: Facts) -> Staged:
    """An update whose writer recorded that it publishes it, and stopped."""
    waiting = staged(feed, facts=facts)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(feed.blackboard, "create", stop)
        publish(waiting, now=NOW, checks=PASSED)
    return waiting


def test_a_publication_that_stopped_before_the_manifest_is_completed_by_a_run_of_the_same_root(feed: Feed) -> None:
    began = stopped_before_the_manifest(feed, facts=Facts(run_id="first"))
    record = read_record(feed, DAY, began.claim.name)
    assert record is not None
    assert (record.state, record.checks) == ("publishing", PASSED)
    assert find_staged(feed, DAY) is None
    assert find_staged(feed, DAY, root_run_id="other") is None
    found = find_staged(feed, DAY, root_run_id="first")
    assert found is not None
    assert publish(found, now=NOW, checks=PASSED).name == in_force(feed) == began.claim.name
    assert find_staged(feed, DAY, root_run_id="first") is None


def test_a_record_of_an_earlier_version_that_says_published_before_its_manifest_is_read_as_published(
    feed: Feed, board: MemoryBlackboard
) -> None:
    waiting = staged(feed)
    earlier = replace(waiting.record, history=(*waiting.record.history, Transition("published", NOW)))
    content = json.loads(earlier.to_json())
    del content["facts"]["root_run_id"]
    board.put(waiting.key, json.dumps(content).encode())
    assert find_staged(feed, DAY, root_run_id="run") is None
    assert [status.state for status in history(feed, DAY, now=NOW)] == ["invalidated"]
    board.put(f"{waiting.claim.prefix}_SUCCESS", b"2")
    assert [status.state for status in history(feed, DAY, now=NOW)] == ["valid"]
    assert publish(waiting, now=NOW).name == in_force(feed)


def test_a_run_finds_what_any_run_of_its_chain_of_re_executions_staged(feed: Feed) -> None:
    second = staged(feed, facts=Facts(run_id="second", root_run_id="first"))
    assert find_staged(feed, DAY, root_run_id="first") == second
    assert find_staged(feed, DAY, root_run_id="second") is None


def test_the_schema_of_a_version_may_grow_and_not_break(feed: Feed) -> None:
    publish(staged(feed, facts=Facts(schema=SCHEMA)), now=NOW)
    publish(staged(feed, facts=Facts(schema=GROWN)), now=NOW)
    assert promised_schema(feed) == GROWN
    claimed = written(feed)
    with pytest.raises(SchemaChangeError, match="column price"):
        stage(claimed, (), Facts(schema=SCHEMA[:1]), now=NOW)
    assert read_record(feed, DAY, claimed.name) is None
    assert promised_schema(Feed(feed.blackboard, "ads/v2.0")) == ()


def test_an_update_without_a_null_takes_back_no_promise_that_there_may_be_one(feed: Feed) -> None:
    publish(staged(feed, facts=Facts(schema=(Column("price", "double"),))), now=NOW)
    publish(staged(feed, facts=Facts(schema=(Column("price", "double", nullable=False),))), now=NOW)
    assert promised_schema(feed) == (Column("price", "double"),)
    publish(staged(feed, facts=Facts(schema=(Column("price", "double"),))), now=NOW)


def test_what_a_rejected_update_would_have_added_to_the_schema_is_not_promised(feed: Feed) -> None:
    publish(staged(feed, facts=Facts(schema=SCHEMA)), now=NOW)
    reject(staged(feed, facts=Facts(schema=GROWN)), reason="no", now=NOW)
    assert promised_schema(feed) == SCHEMA
    publish(staged(feed, facts=Facts(schema=SCHEMA)), now=NOW)


def test_what_an_update_that_was_given_up_would_have_added_to_the_schema_is_not_promised(feed: Feed) -> None:
    publish(staged(feed, facts=Facts(schema=SCHEMA)), now=NOW)
    late = staged(feed, facts=Facts(schema=GROWN))
    later = NOW + timedelta(days=2)
    removals = plan(feed, Policy(keep=1, younger_than=timedelta(0), longest_write=timedelta(days=1)), now=later)
    assert [outcome.removed for outcome in carry_out(feed, removals, now=later)] == [True]
    with pytest.raises(ClaimLostError):
        publish(late, now=NOW)
    assert promised_schema(feed) == SCHEMA
    publish(staged(feed, facts=Facts(schema=SCHEMA)), now=NOW)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"{}x", b"null", b'[{"name": "a"}]', b"\xff"])
def test_a_damaged_promise_is_told_from_where_it_is(feed: Feed, board: MemoryBlackboard, content: bytes) -> None:
    waiting = staged(feed, facts=Facts(schema=SCHEMA))
    board.put("ads/v1.0/.feed/schema.json", content)
    with pytest.raises(FeedError, match=r"schema\.json is damaged"):
        promised_schema(feed)
    with pytest.raises(FeedError, match=r"schema\.json is damaged"):
        publish(waiting, now=NOW)
    assert in_force(feed) is None


def test_of_two_updates_that_add_different_columns_the_one_published_later_is_refused_and_stays_invisible(
    feed: Feed,
) -> None:
    first, second = (staged(feed, facts=Facts(schema=(*SCHEMA, Column(name, "string")))) for name in ("note", "colour"))
    update = publish(first, now=NOW)
    with pytest.raises(SchemaChangeError, match="column note"):
        publish(second, now=NOW)
    assert in_force(feed) == update.name


# --- publishing -------------------------------------------------------------------------------------------------------


def test_publishing_makes_exactly_the_staged_files_visible(feed: Feed) -> None:
    update = publish(staged(feed), now=NOW)
    assert update == require_latest(feed, DAY, now=NOW)
    assert in_force(feed) == "20180521.160000"


def test_publishing_again_changes_nothing(feed: Feed, board: MemoryBlackboard) -> None:
    waiting = staged(feed)
    first = publish(waiting, now=NOW, checks=PASSED)
    before = board.objects()
    assert publish(waiting, now=NOW + SECOND, checks=PASSED) == first
    assert board.objects() == before


def test_the_outcomes_of_checks_go_on_record_before_the_update_is_visible(feed: Feed) -> None:
    waiting = staged(feed)
    publish(waiting, now=NOW + SECOND, checks=PASSED)
    record = read_record(feed, DAY, waiting.claim.name)
    assert record is not None
    assert record.checks == PASSED
    assert [(change.state, change.at) for change in record.history] == [
        ("staged", NOW),
        ("publishing", NOW + SECOND),
        ("published", NOW + SECOND),
    ]


def test_what_was_rejected_is_never_published(feed: Feed, board: MemoryBlackboard) -> None:
    waiting = staged(feed)
    record = reject(waiting, reason="no rows", checks=FAILED, now=NOW)
    assert (record.state, record.history[-1].reason, record.checks) == ("rejected", "no rows", FAILED)
    assert read_record(feed, DAY, waiting.claim.name) == record
    for checks in ((), PASSED):
        with pytest.raises(NotPublishedError, match=r"rejected \(no rows\).*write a new update"):
            publish(waiting, now=NOW, checks=checks)
    assert f"{waiting.claim.prefix}_SUCCESS" not in board.objects()


def test_what_was_published_is_not_rejected_behind_its_readers(feed: Feed) -> None:
    waiting = staged(feed)
    publish(waiting, now=NOW, checks=PASSED)
    with pytest.raises(NotPublishedError, match="was published meanwhile"):
        reject(waiting, reason="no", now=NOW)
    assert in_force(feed) == waiting.claim.name


def test_who_rejects_an_update_that_was_nearly_published_keeps_its_publisher_out(
    feed: Feed, board: MemoryBlackboard
) -> None:
    waiting = stopped_before_the_manifest(feed, facts=Facts(run_id="run"))
    found = find_staged(feed, DAY, root_run_id="run")
    assert found is not None
    reject(found, reason="no", now=NOW)
    assert board.objects()[f"{waiting.claim.prefix}_SUCCESS"] == b"-2"
    with pytest.raises(NotPublishedError):
        publish(waiting, now=NOW)
    assert in_force(feed) is None


def test_what_was_taken_out_of_force_by_removing_its_manifest_is_not_published_again_by_its_publisher(
    feed: Feed, board: MemoryBlackboard
) -> None:
    waiting = staged(feed)
    publish(waiting, now=NOW)
    board.delete(f"{waiting.claim.prefix}_SUCCESS")
    with pytest.raises(NotPublishedError, match="taken out of force"):
        publish(waiting, now=NOW)
    assert in_force(feed) is None


def test_a_writer_that_was_given_up_cannot_publish(feed: Feed, board: MemoryBlackboard) -> None:
    waiting = staged(feed)
    board.put(f"{waiting.claim.prefix}_SUCCESS", b"-1")
    with pytest.raises(ClaimLostError, match="given up"):
        publish(waiting, now=NOW)
    board.delete(waiting.key)
    with pytest.raises(ClaimLostError, match="took too long"):
        publish(waiting, now=NOW)


@pytest.mark.parametrize("checks", [(), PASSED])
def test_a_lost_answer_to_publishing_is_resolved_by_reading_back(checks: tuple[CheckOutcome, ...]) -> None:
    board = LosesAnswers()
    feed = Feed(board, "ads/v1.0")
    waiting = staged(feed)
    board.lost = 2
    update = publish(waiting, now=NOW, checks=checks)
    assert in_force(feed) == update.name
    record = read_record(feed, DAY, update.name)
    assert record is not None
    assert [each.state for each in record.history] == ["staged", "publishing", "published"]


def test_where_the_manifest_did_not_land_publishing_says_so_and_may_be_called_again() -> None:
    board = LosesAnswers()
    feed = Feed(board, "ads/v1.0")
    waiting = staged(feed)
    board.lost, board.landing = 2, False  # the record's, which landed, and the manifest's
    with pytest.raises(UnavailableError):
        publish(waiting, now=NOW)
    assert in_force(feed) is None
    assert publish(waiting, now=NOW).name == in_force(feed)


# --- invalidating -----------------------------------------------------------------------------------------------------


def test_invalidating_puts_the_update_before_in_force_and_keeps_the_reason(feed: Feed) -> None:
    first, second = publish(staged(feed), now=NOW), publish(staged(feed), now=NOW)
    invalidate(feed, DAY, second.name, reason="wrong prices", author="me", now=NOW)
    assert in_force(feed) == first.name
    record = read_record(feed, DAY, second.name)
    assert record is not None
    assert (record.state, record.history[-1].reason, record.history[-1].author) == ("invalidated", "wrong prices", "me")
    assert record.files == second.files


def test_invalidating_again_changes_nothing(feed: Feed, board: MemoryBlackboard) -> None:
    update = publish(staged(feed), now=NOW)
    invalidate(feed, DAY, update.name, reason="wrong", author="me", now=NOW)
    before = board.objects()
    invalidate(feed, DAY, update.name, reason="again", author="you", now=NOW)
    assert board.objects() == before


def test_what_was_invalidated_is_not_published_again(feed: Feed) -> None:
    waiting = staged(feed)
    publish(waiting, now=NOW)
    invalidate(feed, DAY, waiting.claim.name, reason="wrong", author="me", now=NOW)
    with pytest.raises(NotPublishedError, match=r"invalidated \(wrong\)"):
        publish(waiting, now=NOW)
    assert in_force(feed) is None


def test_an_update_of_another_program_can_be_invalidated_too(feed: Feed, board: MemoryBlackboard) -> None:
    board.put(f"{PREFIX}20180521.150000/data", b"")
    board.put(f"{PREFIX}20180521.150000/_SUCCESS", b"1\n")
    assert in_force(feed) == "20180521.150000"
    invalidate(feed, DAY, "20180521.150000", reason="wrong", author="me", now=NOW)
    assert in_force(feed) is None
    record = read_record(feed, DAY, "20180521.150000")
    assert record is not None
    assert record.state == "invalidated"


def test_an_update_whose_manifest_was_removed_can_be_invalidated_and_then_is_for_good(
    feed: Feed, board: MemoryBlackboard
) -> None:
    waiting = staged(feed)
    publish(waiting, now=NOW, checks=PASSED)
    board.delete(f"{waiting.claim.prefix}_SUCCESS")
    for _ in range(2):
        invalidate(feed, DAY, waiting.claim.name, reason="wrong prices", author="me", now=NOW)
    record = read_record(feed, DAY, waiting.claim.name)
    assert record is not None
    assert [change.state for change in record.history] == ["staged", "publishing", "published", "invalidated"]
    assert record.history[-1].reason == "wrong prices"
    with pytest.raises(NotPublishedError, match=r"invalidated \(wrong prices\)"):
        publish(waiting, now=NOW)
    assert in_force(feed) is None


def test_what_is_not_there_cannot_be_invalidated(feed: Feed) -> None:
    claim(feed, DAY, now=NOW, owner="me")
    with pytest.raises(NoValidUpdateError, match=r"has no update 20180521\.160000"):
        invalidate(feed, DAY, "20180521.160000", reason="no", author="me", now=NOW)


@pytest.mark.parametrize("make", [staged, lambda feed: reject(staged(feed), reason="no", now=NOW), written])
def test_what_is_not_published_is_not_invalidated(feed: Feed, make: Callable[[Feed], object]) -> None:
    make(feed)
    with pytest.raises(NotPublishedError, match="nothing to invalidate"):
        invalidate(feed, DAY, "20180521.160000", reason="no", author="me", now=NOW)


# --- local files in one go --------------------------------------------------------------------------------------------


def test_local_files_become_one_update(feed: Feed, board: MemoryBlackboard, tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv"):
        (tmp_path / name).write_text(name)
    update = publish_files(feed, DAY, [tmp_path / "b.csv", tmp_path / "a.csv"], now=NOW, owner="me")
    assert [file.path for file in update.files] == ["a.csv", "b.csv"]
    assert plain_reader.latest(board.objects(), PREFIX) == (update.name, (("a.csv", b"a.csv"), ("b.csv", b"b.csv")))


class SendsTwice(MemoryBlackboard):
    """Loses the answer to an upload and sends it again, as clients of S3 do: it meets what it did itself."""

    landed: bytes | None = None

    def upload(self, key, source):
        self.create(key, source.read_bytes() if self.landed is None else self.landed)
        return super().upload(key, source)


def test_a_data_file_that_was_sent_twice_as_the_answer_was_lost_is_published(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("content")
    board = SendsTwice()
    update = publish_files(Feed(board, "ads/v1.0"), DAY, [tmp_path / "a.csv"], now=NOW, owner="me")
    assert plain_reader.latest(board.objects(), PREFIX) == (update.name, (("a.csv", b"content"),))


def test_a_data_file_of_another_size_that_is_there_already_is_not_published(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("content")
    board = SendsTwice()
    board.landed = b"another's"
    with pytest.raises(AlreadyExistsError, match=r"a\.csv"):
        publish_files(Feed(board, "ads/v1.0"), DAY, [tmp_path / "a.csv"], now=NOW, owner="me")
    assert plain_reader.latest(board.objects(), PREFIX) is None


def test_no_files_become_an_update_without_files(feed: Feed) -> None:
    update = publish_files(feed, DAY, [], now=NOW, owner="me")
    assert update.files == ()
    assert in_force(feed) == update.name


@pytest.mark.parametrize("paths", [["x/a", "y/a"], ["_SUCCESS"], ["a", "b\\c"]])
def test_files_whose_names_cannot_be_are_refused_before_anything_is_written(
    feed: Feed, board: MemoryBlackboard, paths: list[str]
) -> None:
    with pytest.raises(BadNameError):
        publish_files(feed, DAY, [Path(path) for path in paths], now=NOW, owner="me")
    assert board.objects() == {}


# --- crashes ----------------------------------------------------------------------------------------------------------


def publishes_files(board: Blackboard, tmp_path: Path) -> str:
    return publish_files(Feed(board, "ads/v1.0"), DAY, sorted(tmp_path.iterdir()), now=NOW, owner="new").name


def publishes_audited(board: Blackboard, _: Path) -> str:
    return publish(staged(Feed(board, "ads/v1.0"), facts=Facts(schema=SCHEMA)), now=NOW, checks=PASSED).name


def rejects(board: Blackboard, _: Path) -> str:
    return reject(staged(Feed(board, "ads/v1.0")), reason="no", now=NOW, checks=FAILED).state


def invalidates(board: Blackboard, _: Path) -> None:
    invalidate(Feed(board, "ads/v1.0"), DAY, "20180521.150001", reason="wrong", author="me", now=NOW)


@pytest.mark.parametrize("lost_answers", [0, 1, 2])
@pytest.mark.parametrize("content_tags", [True, False])
@pytest.mark.parametrize(
    ("program", "afterwards"),
    [
        (publishes_files, {"20180521.150001", "20180521.160000"}),
        (publishes_audited, {"20180521.150001", "20180521.160000"}),
        (rejects, {"20180521.150001"}),
        (invalidates, {"20180521.150001", "20180521.150000"}),
    ],
)
def test_a_crash_after_any_step_leaves_the_update_before_or_the_new_one_and_the_next_writer_succeeds(
    program: Callable[[Blackboard, Path], str],
    afterwards: set[str],
    content_tags: bool,
    lost_answers: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("part-0", "part-1"):
        (tmp_path / name).write_text(f"new {name}")
    monkeypatch.setattr("feed_assets.file_feed.claims.uuid4", lambda: SimpleNamespace(hex="token"))
    board = MemoryBlackboard()
    earlier = [publish(staged(Feed(board, "ads/v1.0"), files=3, now=NOW - timedelta(hours=1)), now=NOW) for _ in "12"]
    assert [update.name for update in earlier] == ["20180521.150000", "20180521.150001"]

    actor = Actor("it", lambda each: program(each, tmp_path), may_crash=True, lost_answers=lost_answers)
    explored = explore(board.objects(), (actor,), expected=(FeedError, BlackboardError), content_tags=content_tags)

    seen = set()
    for end in explored.ends():
        left = Feed(MemoryBlackboard(end.objects, content_tags=content_tags), "ads/v1.0")
        seen.add(in_force(left))
        result = end.results.get("it")
        assert not isinstance(result, Failed) or result.kind is UnavailableError
        _the_next_writer_succeeds(left)
        if program is invalidates:
            again = Feed(MemoryBlackboard(end.objects, content_tags=content_tags), "ads/v1.0")
            invalidate(again, DAY, "20180521.150001", reason="wrong", author="me", now=NOW)
            assert in_force(again) == "20180521.150000"
    assert seen == afterwards


def _the_next_writer_succeeds(feed: Feed) -> None:
    before = in_force(feed)
    update = publish(staged(feed, now=NOW + SECOND, facts=Facts(schema=SCHEMA)), now=NOW)
    assert in_force(feed) == update.name
    assert before is None or update.name > before


def test_a_crash_leaves_nothing_that_the_same_run_cannot_go_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feed_assets.file_feed.claims.uuid4", lambda: SimpleNamespace(hex="token"))
    board = MemoryBlackboard()
    staged(Feed(board, "ads/v1.0"))

    def audits(each: Blackboard) -> str:
        found = find_staged(Feed(each, "ads/v1.0"), DAY, root_run_id="run")
        assert found is not None
        return publish(found, now=NOW, checks=PASSED).name

    for end in explore(board.objects(), (Actor("auditor", audits, may_crash=True),)).ends():
        feed = Feed(MemoryBlackboard(end.objects), "ads/v1.0")
        found = find_staged(feed, DAY, root_run_id="run")
        assert (found is None) == (in_force(feed) is not None)
        if found is not None:
            publish(found, now=NOW, checks=PASSED)
        record = read_record(feed, DAY, "20180521.160000")
        assert record is not None
        assert record.checks == PASSED
        assert record.state == "published" if found is not None else record.state in {"publishing", "published"}


def publishes_grown(board: Blackboard) -> str:
    found = find_staged(Feed(board, "ads/v1.0"), DAY, root_run_id="run")
    assert found is not None
    return publish(found, now=NOW).name


def publishes_grown_files(board: Blackboard) -> str:
    return publish_files(Feed(board, "ads/v1.0"), DAY, [], now=NOW, owner="new", facts=Facts(schema=GROWN)).name


def rejects_staged(board: Blackboard) -> str:
    found = find_staged(Feed(board, "ads/v1.0"), DAY)
    return reject(found, reason="no", now=NOW).state if found else "nothing"


@pytest.mark.parametrize("program", [publishes_grown, publishes_grown_files])
def test_whoever_crashes_columns_are_promised_before_readers_see_them_and_those_of_a_rejected_update_never(
    program: Callable[[Blackboard], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("feed_assets.file_feed.claims.uuid4", lambda: SimpleNamespace(hex="token"))
    board = MemoryBlackboard()
    feed = Feed(board, "ads/v1.0")
    publish_files(feed, DAY, [], now=NOW - timedelta(hours=1), owner="old", facts=Facts(schema=SCHEMA))
    if program is publishes_grown:
        staged(feed, facts=Facts(run_id="run", schema=GROWN))
    publisher = Actor("publisher", program, may_crash=True)
    seen = set()
    for end in explore(
        board.objects(), (publisher, Actor("rejector", rejects_staged)), expected=(FeedError, AssertionError)
    ).ends():
        left = Feed(MemoryBlackboard(end.objects), "ads/v1.0")
        record = read_record(left, DAY, "20180521.160000")
        state = record.state if record else "not recorded"
        promised = promised_schema(left)
        seen.add((state, promised == GROWN))
        if in_force(left) == "20180521.160000":
            assert promised == GROWN
        if state in {"not recorded", "staged", "rejected"}:
            assert promised == SCHEMA
    assert {("publishing", False), ("publishing", True), ("published", True)} <= seen
    assert ("rejected" if program is publishes_grown else "not recorded", False) in seen


def test_the_record_that_was_lost_does_not_keep_readers_from_the_update(feed: Feed, board: MemoryBlackboard) -> None:
    waiting = staged(feed)
    publish(waiting, now=NOW)
    board.delete(*[key for key in board.objects() if "/.feed/" in key])
    assert in_force(feed) == waiting.claim.name
    with pytest.raises(NotFoundError):
        board.read(waiting.key)
