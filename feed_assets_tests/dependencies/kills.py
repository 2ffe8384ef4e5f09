"""Writers of the dependency service that are killed at any time, and what must hold of the database they leave.

    python -m feed_assets_tests.dependencies.kills URL ROUNDS

In each round, writers in processes of their own report numbers and parts of the same slots, and reopen some, until
they are killed. In the end, the counters of all roll-ups are those of their base slots, the events are numbered without
a gap and tell what the answers say, and each part counts once.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

from feed_assets.datasets.grains import Grain
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.facts import Number, Part
from feed_assets.dependencies.kept_states import KeptStates
from feed_assets.state.event_log import Event
from feed_assets.state.store import Store
from feed_assets_tests.dependencies.datasets import BASE, at, service, topic
from feed_assets_tests.dependencies.slot_events import slot_events

FOO = topic("a", "b")
NOW = at("2026-11-28T12:00")
DAY = FOO.dataset.slot("2026-11-27", "a")
SLOTS = [
    Slot("raw/foo", member, Grain.FIVE_MINUTES, DAY.start * 86_400 + 300 * each)
    for each in range(288)
    for member in "ab"
]
WRITERS = 2
LONGEST_SECONDS = 1.5
RECORDS = 10


def write(url: str, seed: str) -> None:
    """Report for ever."""
    chance, dependencies = random.Random(seed), service(url, FOO)
    while True:
        some = chance.sample(SLOTS, 5)
        dependencies.expect([Number("source", slot, RECORDS) for slot in some], now=NOW)
        halves = [(slot, each) for slot in some for each in (1, 2)]
        parts = [
            Part("raw/foo", slot.member, f"{slot.start}-{each}", "s3://raw/x", records={slot.start: RECORDS // 2})
            for slot, each in halves
        ]
        dependencies.report(parts, now=NOW)
        if chance.random() < 0.2:
            dependencies.reopen([chance.choice(some)], reason="late data", now=NOW)
        print("reported", flush=True)


def kill_writers(url: str, rounds: int) -> int:
    """Start writers and kill them. Returns the number of kills."""
    chance = random.Random(rounds)
    for each in range(rounds):
        command = [sys.executable, "-m", "feed_assets_tests.dependencies.kills", url]
        started = [
            subprocess.Popen([*command, "write", f"{each}-{writer}"], stdout=subprocess.PIPE)
            for writer in range(WRITERS)
        ]
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()  # the first report: the schema is there
        time.sleep(chance.random() * LONGEST_SECONDS)
        for process in started:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
    return rounds * WRITERS


def check(url: str) -> int:
    """Check what the writers left. Returns the number of events."""
    states = KeptStates(Store(url), BASE, {"raw/foo": FOO}).view("raw/foo")
    stored = {**states.roll_ups}
    states.count_anew()
    assert states.roll_ups == stored, "counters of roll-ups"

    dependencies, events = service(url, FOO), list[Event]()
    while more := dependencies.events(len(events)):
        events += more
    assert [each.sequence for each in events] == list(range(1, len(events) + 1)), "numbers of events"
    last: dict[Slot, tuple[bool, int]] = {}
    completed: Counter[tuple[Slot, int]] = Counter()
    for slot, is_complete, revision in slot_events(events):
        last[slot] = is_complete, revision
        completed[slot, revision] += is_complete
    assert max(completed.values(), default=1) == 1, "a completion that is told twice"
    answers = {slot: dependencies.answer(slot) for slot in (*last, *SLOTS)}
    assert last == {slot: (answers[slot].complete, answers[slot].revision) for slot in last}, "events"
    assert {answers[slot].accounted for slot in SLOTS} <= {0, RECORDS}, "parts"
    return len(events)


def main(url: str, rounds: str) -> None:
    kills = kill_writers(url, int(rounds))
    print(f"{kills} kills, {check(url)} events: counters, events and answers agree, and each part counts once.")


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[3]) if sys.argv[2] == "write" else main(*sys.argv[1:])
