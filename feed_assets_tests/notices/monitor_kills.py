"""Kills the monitor between any two steps of detection, run, report, mail and record, and judges what people got.

One process forks a monitor for each kill: the real sensors on Dagster's instance on disk, the real state database, and
a real mail server. After each kill the next ticks must leave one report kept, and one mail of each kind under one
Message-ID. Only a monitor that was killed right after the server took a mail may send it again, under the same id.

Here: the kills, the judge, and mistakes that it must find. Run
`python -m feed_assets_tests.notices.monitor_kills KILLS [MISTAKE]` for many.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
from dagster._core.test_utils import create_run_for_test

from feed_assets.cli.main import COLLECTIONS
from feed_assets.notices import delivery
from feed_assets.notices.keeping import kept_reports
from feed_assets.notices.mail import MailServer
from feed_assets.notices.tables import Report, Transaction, open_reports, record_sent
from feed_assets.resources.notifier import MailResource
from feed_assets.resources.settings import Clock
from feed_assets.sensors.late_reports import late_reports
from feed_assets.state.store import Store
from feed_assets_tests.faults.memory import folder_in_memory
from feed_assets_tests.faults.processes import die
from feed_assets_tests.harness import (
    AS_OF,
    SHOP_ADS,
    Installation,
    Interposed,
    days,
    settings_below,
    using_board,
    write_sources,
)
from feed_assets_tests.notices.post_office import post_office
from feed_assets_tests.revisions import read_once
from feed_assets_tests.warehouse.killing import in_a_process

DAYS = days(7)
SENT, RUNNING = "after the server took a mail", "in a run"
STEP: dict[str, Any] = {"labels": [], "last": -1, "sent": False}
"""The steps of this process, the one at which it is killed (-1: none), and whether a mail was sent and not recorded."""
HOURS = {"passed": 0}


class Later(Clock):
    """The time, as many hours later as have passed."""

    def now(self) -> Any:
        return AS_OF + timedelta(hours=HOURS["passed"])


def step(label: str, note: Path) -> None:
    """A step of the monitor: it may be the last of this process, which then leaves a note."""
    label = SENT if STEP["sent"] else label
    if len(STEP["labels"]) == STEP["last"]:
        note.write_text(label)
        die()
    STEP["labels"].append(label)


class Monitor:
    """An installation whose steps are counted."""

    def __init__(self, folder: Path, port: int) -> None:
        # Nothing leaves the lookback meanwhile.
        lasting = SHOP_ADS.replace("lookback_days: 7", "lookback_days: 3650")
        sources = write_sources(folder / "sources", lasting)
        settings = replace(settings_below(folder / "base", sources), as_of=None)
        self.home, self.note = folder / "home", folder / "killed at"
        self.home.mkdir(parents=True)
        mail = MailResource(url=f"smtp://127.0.0.1:{port}", sender="late@example.com", recipients=["all@example.com"])
        plain = Installation(settings, None).using(mail=mail, clock=Later())  # type: ignore[arg-type] # each child opens it
        counted = using_board(plain, Interposed(plain.board, self._stored))
        self.shop = replace(counted, _definitions=counted.definitions)

    def _stored(self, operation: str, key: str) -> None:
        if operation in {"create", "replace", "upload"}:
            feed = key.partition("/")[0]
            step(RUNNING if feed == "clean-ads" else f"before {operation} of {feed}", self.note)

    def count_transactions_and_mails(self) -> None:
        writing, send, note = Store.writing, MailServer.send, self.note

        @contextmanager
        def counted(store: Store, *log: str) -> Iterator[Transaction]:
            step("before a transaction", note)
            with writing(store, *log) as transaction:
                yield transaction
                step("before a commit", note)
            STEP["sent"] = False
            step("after a commit", note)

        def sent(server: MailServer, *arguments: Any) -> Any:
            step("before a mail", note)
            sent_to = send(server, *arguments)
            STEP["sent"] = True
            step(SENT, note)
            return sent_to

        Store.writing, MailServer.send = counted, sent  # type: ignore[method-assign, assignment]

    def cycle(self) -> dict[str, Any]:
        """The sensors once, and the runs that they requested, as Dagster's daemon starts them: a run key once."""
        asked = self.shop.tick("late_growth").requests
        for request in asked:
            key = {"dagster/run_key": request.run_key or ""}
            if not self.shop.instance.get_run_ids(dg.RunsFilter(tags=key)):
                step("before a run", self.note)
                tags = {**request.tags, **key, "dagster/partition": request.partition_key or ""}
                selection = frozenset(request.asset_selection or ())
                run = create_run_for_test(
                    self.shop.instance, status=dg.DagsterRunStatus.STARTED, tags=tags, asset_selection=selection
                )
                step(RUNNING, self.note)
                self.shop.process(request.partition_key or "", run_id=run.run_id)
                ended = dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, run.job_name)
                self.shop.instance.report_dagster_event(ended, run.run_id)
        self.shop.tick("late_reports")
        return {"asked": len(asked), "open": len(open_reports(self.shop.store, self.shop.board.uri("")))}

    def child(self, act: Callable[[], Any]) -> Any:
        """The result of this in a process of its own; None if it was killed."""
        STEP.update(labels=[], last=-1, sent=False)

        def work() -> Any:
            self.shop = replace(self.shop, instance=dg.DagsterInstance.from_config(str(self.home)))
            return act()

        self.note.unlink(missing_ok=True)
        with suppress(json.JSONDecodeError):  # it was killed before it could answer
            return in_a_process(work)
        return None

    def recover(self, day: str) -> dict[str, Any]:
        """Ticks, an hour apart, until nothing is left to do; then what is kept of the day.

        There are two at least: the first sees that a run has died, and the pause before its repetition begins.
        """
        passed = 0
        state = {"asked": 1, "open": 1}
        for run in self.shop.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
            self.shop.instance.report_run_failed(run, "Its process is gone.")  # as Dagster's monitoring does
        while passed < 2 or ((state["asked"] or state["open"]) and passed < 10):
            HOURS["passed"] += 1
            passed += 1
            with self.shop.store.writing() as transaction:  # two minutes pass, too
                transaction.connection.exec_driver_sql("UPDATE feed_assets_messages SET leased_until = '2000'")
            state = self.cycle()
        reports = kept_reports(self.shop.board, day, now=self.shop.definitions.resources["clock"].now())
        kept = [[each.id, (each.result or {})["outcome"], _times(each)] for each in reports]
        return {"kept": kept, "passed": passed, **state}


def _times(report: Report) -> int:
    return int(report.request["tries"])


def load_all(monitor: Monitor) -> None:
    """Load in this process what every child needs, by a cycle of another monitor."""
    with dg.DagsterInstance.from_config(str(monitor.home)) as instance:
        monitor.shop = replace(monitor.shop, instance=instance)
        monitor.shop.raw_bytes(DAYS[0], {"x": 1})
        monitor.shop.process(DAYS[0])
        monitor.shop.raw_bytes(DAYS[0], {"x": 2})
        monitor.cycle()


def work(folder: Path, port: int, kills: int, mistake: str) -> list[dict[str, Any]]:
    """Kill monitors, each at the next step, after a day was sent again; what was found after each.

    A monitor with a mistake is killed only where the mistake does harm.
    """
    wrong, harmful = MISTAKES[mistake]
    wrong()
    load_all(Monitor(folder / "other", port))
    gc.freeze()  # else each child's first collection touches, and so copies, all memory of this process
    monitor = Monitor(folder, port)
    monitor.count_transactions_and_mails()
    for day in DAYS:
        monitor.shop.raw_bytes(day, {"x": 1000})
        monitor.shop.process(day, run_id="first")
    monitor.shop.raw_bytes(DAYS[0], {"x": 1001})

    def steps() -> list[Any]:
        monitor.cycle()
        return [STEP["labels"], monitor.recover(DAYS[0])]

    labels, first = monitor.child(steps)
    places = [place for place, label in enumerate(labels) if harmful in {"", label}]
    found, killed = [{"day": DAYS[0], "at": "", **first}], DAYS[0]
    count, recovered = kills or len(places), folder / "recovered"

    def recover_and_die(before: str, turn: int) -> None:
        """Recover from the kill before; then send the next day again, and be killed, but for the last time."""
        recovered.write_text(json.dumps({"day": before, **monitor.recover(before)}))
        if left:
            monitor.shop.raw_bytes(DAYS[(turn + 1) % len(DAYS)], {"x": 1002 + turn})
            STEP.update(labels=[], last=places[turn % len(places)], sent=False)
            monitor.cycle()

    at, left = "", count
    for turn in itertools.count():
        HOURS["passed"] += 12
        monitor.child(partial(recover_and_die, killed, turn))
        if turn:
            found.append({"at": at, **json.loads(recovered.read_text())})
        if not left:
            break
        at = monitor.note.read_text() if monitor.note.exists() else ""
        left -= bool(at)  # a monitor may have fewer steps than the first one, and end before its kill
        killed = DAYS[(turn + 1) % len(DAYS)]
    return found


def judge(kills: Mapping[str, int]) -> dict[str, tuple[list[str], Counter[str]]]:
    """For each mistake ("": none), what is wrong after so many kills (0: one at each step), and where they were."""
    with folder_in_memory() as folder, post_office() as office:
        work = ["--work", str(folder), str(office.port)]
        command = [sys.executable, "-m", "feed_assets_tests.notices.monitor_kills", *work]
        done = subprocess.run([*command, json.dumps(kills)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        got = Counter(mail["Message-ID"].strip("<>").partition("@")[0] for _, mail in office.mails)
    return {
        mistake: (list(faults(each, got)), Counter(turn["at"] for turn in each if turn["at"]))
        for mistake, each in found.items()
    }


def faults(found: Sequence[dict[str, Any]], got: Counter[str]) -> Iterator[str]:
    """What is wrong with these reports and these mails."""
    known: set[str] = set()
    for each in found:
        where = f"{each['day']}, killed {each['at'] or 'nowhere'}"
        new = [report for report in each["kept"] if report[0] not in known]
        if len({name for name, *_ in each["kept"]}) < len(each["kept"]):
            yield f"{where}: a report is kept twice"
        if each["asked"] or each["open"]:
            yield f"{where}: after {each['passed']} ticks, {each['open']} reports are open"
        outcomes = [outcome for _, outcome, _ in new]
        if outcomes not in ([["failed"], ["failed", "success"]] if each["at"] == RUNNING else [["success"]]):
            yield f"{where}: {new} is kept"
        for name, _, times in new:
            known.add(name)
            for message in (*([f"{name}.detected"] if times == 1 else []), f"{name}.ended"):
                count = got.pop(message, 0)
                if count not in ({1, 2} if each["at"] == SENT else {1}):
                    yield f"{where}: {message} was mailed {count} times"


# --- mistakes ----------------------------------------------------------------------------------------------------


def _record_before_sending() -> None:
    claim = delivery.claim_message

    def claiming(transaction: Transaction, message: Any, *, at: Any) -> bool:
        claimed = claim(transaction, message, at=at)
        record_sent(transaction, message, at=at)
        return claimed

    delivery.claim_message = claiming


def _another_id_each_time() -> None:
    make = late_reports.__globals__["mail"]
    late_reports.__globals__["mail"] = lambda notice, name, **more: make(notice, f"{name}-{uuid4()}", **more)


def _a_claim_lasts_for_ever() -> None:
    claim = delivery.claim_message
    distant = timedelta(days=-36_500)
    delivery.claim_message = lambda transaction, message, *, at: claim(transaction, message, at=at + distant)


MISTAKES: Mapping[str, tuple[Callable[[], None], str]] = {
    "": (lambda: None, ""),
    "record before sending": (_record_before_sending, "before a mail"),
    "another id each time": (_another_id_each_time, SENT),
    "a claim lasts for ever": (_a_claim_lasts_for_ever, "before a mail"),
}
"""Each mistake, and the steps at which a kill shows it."""

if __name__ == "__main__":
    if sys.argv[1] == "--work":
        gc.set_threshold(*COLLECTIONS)
        read_once()
        results = {}
        for name, count in json.loads(sys.argv[4]).items():
            below = Path(sys.argv[2]) / (name or "right")
            below.mkdir()
            results[name] = in_a_process(partial(work, below, int(sys.argv[3]), count, name))
        print(json.dumps(results), flush=True)
        os._exit(0)
    ((problems, steps),) = judge({(sys.argv[2:] or [""])[0]: int(sys.argv[1])}).values()
    print(f"{sum(steps.values())} kills: {dict(steps)}")
    print(*(problems or ["Nothing was lost, and nothing told twice."]), sep="\n")
    sys.exit(bool(problems))
