"""Quality through the service, on both databases: what is stored, what events tell, and what other services see."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from feed_assets.datasets.containment import base_set
from feed_assets.datasets.errors import SlotError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.errors import UnknownDatasetError
from feed_assets.dependencies.facts import Published, Read
from feed_assets.dependencies.quality.marks import Author, QualityError, QualityState, RefusedMoveError
from feed_assets.dependencies.service import Dependencies
from feed_assets.state.address import StoreError, sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests.dependencies.datasets import at, feed, raw, service, topic

NOW = at("2026-11-28T12:00")
ANN, BOB, ROWS = Author.person("ann"), Author.person("bob"), Author.check("rows")
BAD, BACKFILLED, PASSED, UNCHECKED = QualityState

RAW = raw("shop")
CLEAN = replace(feed(), checked=True)
REPORT = replace(feed("report/v1.0"), checked=True)
HOUR = RAW.dataset.slot("2026-11-27T15", "shop")
RAW_DAY = RAW.dataset.slot("2026-11-27")
CLEAN_DAY, REPORT_DAY = CLEAN.dataset.slot("2026-11-27"), REPORT.dataset.slot("2026-11-27")
ALL = (HOUR, RAW_DAY, CLEAN_DAY, REPORT_DAY)


def started(database: str) -> Dependencies:
    """A day that was computed from raw data, and a report that was computed from the day."""
    dependencies = service(database, RAW, CLEAN, REPORT)
    dependencies.tick(NOW)
    publish(dependencies, "1")
    return dependencies


def publish(dependencies: Dependencies, update: str, *, report: bool = True) -> None:
    """Publish the day as computed from the present raw data, and the report as computed from that; in no good order."""
    raw_revision = dependencies.answer(RAW_DAY).revision
    day = Published(CLEAN_DAY, update, read=(Read(RAW_DAY, revision=raw_revision),), run="a")
    of_day = Published(REPORT_DAY, update, read=(Read(CLEAN_DAY, update),), run="b")
    dependencies.published([of_day, day] if report else [day], now=NOW)


def states(dependencies: Dependencies, slots: Sequence[Slot] = ALL) -> list[QualityState]:
    return [dependencies.quality.answer(slot).state for slot in slots]


def told(dependencies: Dependencies, after: int) -> list[str]:
    """The events about marks after a number: kind, dataset, grain, first slot, number of slots."""
    return [
        " ".join(str(word) for word in (event.kind, *(event.details[each] for each in ("dataset", "grain", "first"))))
        for event in dependencies.events(after)
        if event.kind in {"marked", "unmarked"}
    ]


def test_d34_a_mark_on_an_hour_reaches_what_contains_it_and_all_that_was_computed_from_it(database: str) -> None:
    dependencies = started(database)
    assert states(dependencies) == [UNCHECKED, UNCHECKED, PASSED, PASSED]
    before = dependencies.newest()
    mark = dependencies.quality.mark(HOUR, reason="bots", author=ANN, now=NOW, evidence="9 of 10 clicks")

    assert states(dependencies) == [BAD, BAD, BAD, BAD]
    other = HOUR._replace(start=HOUR.start + 3600)
    assert states(dependencies, [other, RAW.dataset.slot("2026-11-28"), CLEAN.dataset.slot("2026-11-26")]) == [
        UNCHECKED,
        UNCHECKED,
        PASSED,
    ]
    found = [(each.details["dataset"], each.details["member"]) for each in dependencies.events(before)]
    coarser = len(CLEAN.dataset.grains)
    assert Counter(found) == {
        ("raw/ads", "shop"): 1 + coarser,
        ("raw/ads", "-"): 1 + coarser,
        ("clean-ads/v1.0", "-"): coarser,
        ("report/v1.0", "-"): coarser,
    }
    assert {each.details["count"] for each in dependencies.events(before)} == {1}
    (path,) = dependencies.quality.why_bad(REPORT_DAY)
    assert (path.mark, path.outdated) == (mark, ())
    assert [str(each) for each in path.path] == [
        "report/v1.0 - day 2026-11-27, revision 1",
        "clean-ads/v1.0 - day 2026-11-27, revision 1",
        "raw/ads - day 2026-11-27, revision 1",
        "raw/ads shop hour 2026-11-27T15:00Z, revision 1",
    ]


def test_d34_a_mark_on_an_hour_of_a_topic_reaches_its_12_and_6_windows_as_ranges(database: str) -> None:
    foo = topic()
    dependencies = service(database, foo)
    before = dependencies.newest()
    dependencies.quality.mark(foo.dataset.slot("2026-11-27T15"), reason="bots", author=ANN, now=NOW)
    found = {each.details["grain"]: each.details["count"] for each in dependencies.events(before)}
    assert found == {"5min": 12, "10min": 6, "hour": 1, "day": 1, "week": 1, "month": 1, "quarter": 1}


def test_a_result_that_is_not_computed_again_stays_bad_and_says_from_what_to_compute_it(database: str) -> None:
    dependencies = started(database)
    dependencies.quality.mark(HOUR, reason="bots", author=ANN, now=NOW)
    dependencies.reopen([HOUR], reason="a corrected file", now=NOW)

    assert states(dependencies) == [BACKFILLED, BACKFILLED, BAD, BAD]
    (path,) = dependencies.quality.why_bad(CLEAN_DAY)
    assert str(path).endswith("raw/ads shop hour 2026-11-27T15:00Z has a newer revision: compute again from that")


def test_d38_what_is_computed_again_from_the_new_revision_is_not_bad_and_the_mark_stays_on_the_old_one(
    database: str,
) -> None:
    dependencies = started(database)
    mark = dependencies.quality.mark(HOUR, reason="bots", author=ANN, now=NOW)
    dependencies.reopen([HOUR], reason="a corrected file", now=NOW)
    before = dependencies.newest()
    publish(dependencies, "2", report=False)
    assert states(dependencies) == [BACKFILLED, BACKFILLED, PASSED, BAD]
    assert told(dependencies, before)[0] == "unmarked clean-ads/v1.0 day 2026-11-27"

    publish(dependencies, "3")
    assert states(dependencies) == [BACKFILLED, BACKFILLED, PASSED, PASSED]
    dependencies.quality.checked(HOUR, "rows", passed=True, now=NOW)
    assert states(dependencies, [HOUR]) == [PASSED]
    assert (mark.on.revision, dependencies.quality.marks()) == (1, (mark,))
    assert reloaded(database) == facts_of(dependencies)


def test_d38_a_slot_that_is_bad_for_another_reason_stays_bad(database: str) -> None:
    dependencies = started(database)
    mark = dependencies.quality.mark(HOUR, reason="bots", author=ANN, now=NOW)
    dependencies.quality.mark(CLEAN_DAY, reason="prices are missing", author=BOB, now=NOW)
    dependencies.quality.unmark(mark.id, reason="no bots", author=BOB, now=NOW)

    assert states(dependencies) == [UNCHECKED, UNCHECKED, BAD, BAD]
    assert dependencies.quality.answer(REPORT_DAY).reasons == {"prices are missing"}


def test_d38_and_d40_a_backfill_is_made_again_checked_again_and_only_then_without_the_mark_of_the_check(
    database: str,
) -> None:
    dependencies = started(database)
    dependencies.quality.mark(HOUR, reason="few rows", author=ROWS, now=NOW)
    backfill = dependencies.open_backfill([HOUR], reason="fetch again", author=ANN, now=NOW)
    assert (states(dependencies), dependencies.answer(HOUR).complete) == ([BACKFILLED, BACKFILLED, BAD, BAD], False)
    with pytest.raises(RefusedMoveError, match=f"the backfill {backfill.id} is open"):
        dependencies.quality.checked(HOUR, "rows", passed=True, now=NOW)
    with pytest.raises(RefusedMoveError, match=f"Cannot open a backfill of .* the backfill {backfill.id} is open"):
        dependencies.open_backfill([RAW_DAY], reason="fetch again", author=BOB, now=NOW)
    assert dependencies.answer(RAW_DAY._replace(member="shop")).revision == 2  # nothing was reopened again
    assert dependencies.quality.open_backfills() == service(database, RAW, CLEAN, REPORT).quality.open_backfills()

    dependencies.close_backfill(backfill.id, reason="fetched", author=ANN, now=NOW)
    publish(dependencies, "2")
    assert (states(dependencies), dependencies.answer(HOUR).complete) == (
        [BACKFILLED, BACKFILLED, PASSED, PASSED],
        True,
    )
    dependencies.quality.checked(HOUR, "rows", passed=True, now=NOW)
    assert states(dependencies, [HOUR]) == [PASSED]
    with pytest.raises(RefusedMoveError, match="is closed already, by person ann"):
        dependencies.close_backfill(backfill.id, reason="again", author=BOB, now=NOW)
    with pytest.raises(QualityError, match="No backfill has the id x"):
        dependencies.close_backfill("x", reason="fetched", author=ANN, now=NOW)
    assert [each.kind for each in dependencies.events() if "backfill" in each.kind] == [
        "backfill_opened",
        "backfill_closed",
    ]
    assert facts_of(dependencies) == reloaded(database)


def test_an_abandoned_backfill_leaves_everything_as_bad_as_it_was(database: str) -> None:
    dependencies = started(database)
    dependencies.quality.mark(HOUR, reason="few rows", author=ROWS, now=NOW)
    backfill = dependencies.open_backfill([HOUR], reason="fetch again", author=ANN, now=NOW)
    dependencies.close_backfill(backfill.id, reason="the partner has no more", author=ANN, now=NOW, abandoned=True)
    assert states(dependencies) == [BAD] * 4
    assert states(service(database, RAW, CLEAN, REPORT)) == [BAD] * 4


def test_a_reopening_that_is_found_equal_brings_the_marks_back(database: str) -> None:
    dependencies = started(database)
    dependencies.quality.mark(HOUR, reason="bots", author=ANN, now=NOW)
    dependencies.reopen([HOUR], reason="a backfill", hold=True, now=NOW)
    assert states(dependencies) == [BACKFILLED, BACKFILLED, BAD, BAD]

    dependencies.release([HOUR], equal_to=True, now=NOW)
    assert (dependencies.answer(HOUR).revision, states(dependencies)) == (2, [BAD] * 4)
    assert states(service(database, RAW, CLEAN, REPORT)) == [BAD] * 4


def test_a_compaction_keeps_marks_where_they_are(database: str) -> None:
    dependencies = started(database)
    dependencies.quality.mark(HOUR, reason="bots", author=ANN, now=NOW)
    dependencies.reopen([HOUR], reason="compaction", equal_to=True, now=NOW)
    assert (dependencies.answer(RAW_DAY).revision, states(dependencies)) == (2, [BAD] * 4)


def test_an_update_that_comes_back_into_force_is_as_bad_as_what_it_was_computed_from(database: str) -> None:
    dependencies = started(database)
    dependencies.quality.mark(HOUR, reason="bots", author=ANN, now=NOW)
    dependencies.reopen([HOUR], reason="a corrected file", now=NOW)
    publish(dependencies, "2")
    old = Published(CLEAN_DAY, "1", read=(Read(RAW_DAY, revision=1),))
    dependencies.published([old], now=NOW)
    assert (dependencies.answer(CLEAN_DAY).revision, states(dependencies, [CLEAN_DAY])) == (3, [BAD])


def test_an_update_whose_inputs_are_unknown_or_do_not_exist_is_bad_by_its_own_marks_only(database: str) -> None:
    dependencies = started(database)
    dependencies.quality.mark(HOUR, reason="bots", author=ANN, now=NOW)
    lost = (Read(RAW_DAY, revision=7), Read(CLEAN_DAY, "0"), Read(RAW_DAY._replace(start=0)))
    dependencies.published([Published(REPORT_DAY, "2", read=lost)], now=NOW)
    assert states(dependencies, [REPORT_DAY]) == [PASSED]


def test_an_update_that_names_neither_updates_nor_revisions_counts_as_computed_from_the_present_ones(
    database: str,
) -> None:
    dependencies = started(database)
    dependencies.quality.mark(HOUR, reason="bots", author=ANN, now=NOW)
    dependencies.published([Published(REPORT_DAY, "2", read=(Read(RAW_DAY),))], now=NOW)
    assert states(dependencies, [REPORT_DAY]) == [BAD]


def test_an_update_that_read_an_older_revision_of_a_base_slot_is_as_bad_as_that_one(database: str) -> None:
    dependencies = started(database)
    dependencies.quality.mark(HOUR, reason="bots", author=ANN, now=NOW)
    dependencies.reopen([HOUR], reason="a corrected file", now=NOW)
    for revision, state in ((1, BAD), (2, PASSED)):
        dependencies.published([Published(REPORT_DAY, str(revision), read=(Read(HOUR, revision=revision),))], now=NOW)
        assert states(dependencies, [REPORT_DAY]) == [state]


def test_d40_refused_commands_name_the_present_state_and_change_nothing(database: str) -> None:
    dependencies = started(database)
    mark = dependencies.quality.mark(HOUR, reason="bots", author=ROWS, now=NOW)
    other = dependencies.quality.mark(HOUR, reason="bots", author=ANN, now=NOW)
    dependencies.quality.unmark(other.id, reason="no", author=ANN, now=NOW)
    before = dependencies.newest()

    with pytest.raises(QualityError, match="is of the check rows; the person ann cannot remove it"):
        dependencies.quality.unmark(mark.id, reason="no", author=ANN, now=NOW)
    with pytest.raises(RefusedMoveError, match=r"is removed already, by person ann: no\. raw/ads shop hour .* is bad"):
        dependencies.quality.unmark(other.id, reason="yes", author=ANN, now=NOW)
    with pytest.raises(QualityError, match="No mark has the id x"):
        dependencies.quality.unmark("x", reason="no", author=ANN, now=NOW)
    with pytest.raises(QualityError, match="revision 2 does not exist: the slot is at revision 1"):
        dependencies.quality.mark(HOUR, reason="bots", author=ANN, now=NOW, revision=2)
    with pytest.raises(QualityError, match="The mark needs a reason"):
        dependencies.quality.mark(HOUR, reason=" ", author=ANN, now=NOW)
    with pytest.raises(UnknownDatasetError, match="'raw/x' is no declared dataset"):
        dependencies.quality.mark(HOUR._replace(dataset="raw/x"), reason="bots", author=ANN, now=NOW)
    with pytest.raises(SlotError):
        dependencies.quality.mark(RAW_DAY._replace(start=0), reason="bots", author=ANN, now=NOW)
    assert dependencies.newest() == before
    assert states(dependencies) == [BAD] * 4
    assert facts_of(dependencies) == reloaded(database)


def test_the_same_mark_again_changes_nothing(database: str) -> None:
    dependencies = started(database)
    for _ in range(2):
        dependencies.quality.mark(HOUR, reason="bots", author=ANN, now=NOW, mark_id="m1")
        newest = dependencies.newest()
    assert dependencies.newest() == newest
    with pytest.raises(QualityError, match="The mark m1 exists with other content"):
        dependencies.quality.mark(HOUR, reason="robots", author=ANN, now=NOW, mark_id="m1")


def test_a_passed_check_takes_its_own_marks_back_everywhere(database: str) -> None:
    dependencies = started(database)
    dependencies.quality.mark(HOUR, reason="few rows", author=ROWS, now=NOW)
    dependencies.quality.mark(HOUR, reason="bots", author=ANN, now=NOW)
    dependencies.quality.checked(HOUR, "rows", passed=True, now=NOW)
    assert states(dependencies) == [BAD] * 4
    assert dependencies.quality.answer(REPORT_DAY).reasons == {"bots"}


def test_several_services_see_what_each_of_them_does(database: str) -> None:
    one, two = started(database), service(database, RAW, CLEAN, REPORT)
    assert states(two) == [UNCHECKED, UNCHECKED, PASSED, PASSED]
    mark = one.quality.mark(HOUR, reason="bots", author=ANN, now=NOW)
    two.refresh()
    assert states(two) == [BAD] * 4
    two.reopen([HOUR], reason="a corrected file", now=NOW)
    publish(two, "2")
    one.refresh()
    assert states(one) == states(two) == [BACKFILLED, BACKFILLED, PASSED, PASSED]
    two.quality.unmark(mark.id, reason="no bots", author=BOB, now=NOW)
    one.refresh()
    assert states(one) == states(two) == [UNCHECKED, UNCHECKED, PASSED, PASSED]
    assert facts_of(one) == facts_of(two) == reloaded(database)


def test_another_process_sees_a_mark_and_takes_it_back(database: str) -> None:
    dependencies = started(database)
    mark = dependencies.quality.mark(HOUR, reason="bots", author=ANN, now=NOW)
    program = (
        "import sys; from feed_assets_tests.dependencies import test_quality_service as here\n"
        "there = here.service(sys.argv[1], here.RAW, here.CLEAN, here.REPORT)\n"
        "print(*here.states(there)); there.quality.unmark(sys.argv[2], reason='no', author=here.BOB, now=here.NOW)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program, database, mark.id], capture_output=True, text=True, check=True
    ).stdout
    assert shown.split() == ["bad"] * 4
    dependencies.refresh()
    assert states(dependencies) == [UNCHECKED, UNCHECKED, PASSED, PASSED]


@pytest.mark.parametrize("seed", range(8))
def test_after_each_act_of_a_random_history_memory_is_what_the_database_says(tmp_path: Path, seed: int) -> None:
    random, database = Random(seed), sqlite_url(tmp_path / "state.db")
    writers = [started(database), service(database, RAW, CLEAN, REPORT)]
    for number in range(25):
        act(random, random.choice(writers), str(number))
        for each in writers:
            each.refresh()
        assert facts_of(writers[0]) == facts_of(writers[1]) == reloaded(database)


def act(random: Random, dependencies: Dependencies, name: str) -> None:
    """One random act on slots that contain each other, or were computed from each other."""
    hours = [HOUR, HOUR._replace(start=HOUR.start + 3600)]
    slot = random.choice([*hours, CLEAN_DAY, REPORT_DAY, RAW_DAY])
    quality, one_of_two = dependencies.quality, random.random() < 0.5
    revision = random.randint(1, max(dependencies.answer(slot).revision, 1))

    def unmark() -> None:
        for mark in quality.marks()[:1]:
            quality.unmark(mark.id, reason="no", author=mark.author, now=NOW)

    random.choice(
        [
            lambda: quality.mark(slot, reason="bots", author=ROWS if one_of_two else ANN, now=NOW, revision=revision),
            unmark,
            lambda: quality.checked(slot, "rows", passed=one_of_two, now=NOW),
            lambda: dependencies.reopen([slot], reason="late data", now=NOW),
            lambda: dependencies.reopen([slot], reason="compaction", equal_to=True, now=NOW),
            lambda: dependencies.reopen([random.choice(hours)], reason="a backfill", hold=True, now=NOW),
            lambda: dependencies.release(hours, equal_to=one_of_two, now=NOW),
            lambda: publish(dependencies, name, report=one_of_two),
            lambda: dependencies.published([Published(REPORT_DAY if one_of_two else CLEAN_DAY, None)], now=NOW),
        ]
    )()


def test_marks_and_reopenings_of_several_writers_at_once_are_all_kept(database: str) -> None:
    hours = [RAW.dataset.slot(f"2026-11-27T{hour:02}", "shop") for hour in range(24)]
    started(database)
    writers = [service(database, RAW, CLEAN, REPORT) for _ in range(3)]

    def work(number: int) -> None:
        for hour in hours[number::3]:
            mark = writers[number].quality.mark(hour, reason="bots", author=ANN, now=NOW)
            if hour.start % 7200:
                writers[number].reopen([hour], reason="a corrected file", now=NOW)
            elif hour.start % 14400:
                writers[number].quality.unmark(mark.id, reason="no bots", author=ANN, now=NOW)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    for each in writers:
        each.refresh()
    found = [states(each, [*hours, *ALL]) for each in (*writers, service(database, RAW, CLEAN, REPORT))]
    assert found == [found[0]] * 4
    assert [found[0][number] for number in range(4)] == [BAD, BACKFILLED, UNCHECKED, BACKFILLED]
    assert [facts_of(each) for each in writers] == [reloaded(database)] * 3


def test_facts_about_what_is_no_longer_declared_are_left_out(database: str) -> None:
    dependencies = started(database)
    dependencies.quality.mark(HOUR, reason="bots", author=ANN, now=NOW)
    dependencies.quality.mark(REPORT_DAY, reason="prices", author=ANN, now=NOW)
    dependencies.reopen([HOUR], reason="a corrected file", now=NOW)

    by_hour = replace(feed(base=Grain.HOUR), checked=True)
    later = service(database, raw("other"), by_hour, REPORT)
    assert [mark.reason for mark in later.quality.marks()] == ["prices"]
    assert states(later, [REPORT_DAY, RAW_DAY, CLEAN_DAY]) == [BAD, UNCHECKED, PASSED]
    assert states(dependencies) == [BACKFILLED, BACKFILLED, BAD, BAD]


def test_a_commit_that_fails_leaves_memory_as_the_database_is(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dependencies = started(database)
    writing = Store.writing

    @contextmanager
    def lost(self, log="main"):
        with writing(self, log) as transaction:
            yield transaction
            raise StoreError("the connection broke")

    monkeypatch.setattr(Store, "writing", lost)
    with pytest.raises(StoreError):
        dependencies.quality.mark(HOUR, reason="bots", author=ANN, now=NOW)
    monkeypatch.undo()
    assert states(dependencies) == [UNCHECKED, UNCHECKED, PASSED, PASSED]
    dependencies.quality.mark(HOUR, reason="bots", author=ANN, now=NOW)
    assert states(dependencies) == [BAD] * 4


def facts_of(dependencies: Dependencies) -> list[str]:
    """All that a service knows about quality, and the answers about the whole day."""
    slots = [*base_set(RAW.dataset, RAW_DAY), *ALL]
    with dependencies.kept.quality() as quality:
        known = sorted(map(repr, quality.facts()))
    return [*known, *(repr(dependencies.quality.answer(slot)) for slot in slots)]


def reloaded(database: str) -> list[str]:
    """The same from a service that has just loaded everything."""
    return facts_of(service(database, RAW, CLEAN, REPORT))
