"""Kills polls between any two of their steps, and judges what readers see against what the partner has.

`python -m feed_assets_tests.polling.poll_kills --kills 2000` runs for long; with `--prove`, it finds each of
`MISTAKES`. Meanwhile the partner adds files and replaces them, also while they are read; sometimes two polls run at
once, and sometimes one stands still while the other takes a newer content. A poll is real but for Spark's part.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.polling import poller as polling
from feed_assets.polling import taken
from feed_assets.polling.places import open_place
from feed_assets.polling.taken import BlackboardIndex
from feed_assets.sources import landing
from feed_assets.sources.layout import LandingId, content_digest, ledger_key, name_digest, sent_key
from feed_assets.sources.ledger import entries, find, read_landing
from feed_assets.sources.partner_file import PartnerFile
from feed_assets.sources.spec import Source
from feed_assets_tests.faults.memory import folder_in_memory
from feed_assets_tests.polling.partners import KEY, TODAY, Watched, describe, landed, poller, send, without_spark

OPERATIONS = {"page", "read", "create", "replace", "upload", "copy", "delete"}
MOST_STEPS = 60
"""A poll of one file takes about 45."""
FILES = 2
ONE_PARTNER = 100
"""After so many kills, another partner begins anew: with many contents of a name, each poll takes longer."""
SEEDS = 40
"""So often at most a mistake is looked for."""


class Stepped:
    """A blackboard that calls `before` before each operation."""

    def __init__(self, blackboard: Any, before: Callable[[], None]) -> None:
        self._blackboard, self._before = blackboard, before

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._blackboard, name)
        if name not in OPERATIONS:
            return operation

        def stepped(*arguments: Any, **options: Any) -> Any:
            self._before()
            return operation(*arguments, **options)

        return stepped


@dataclass(slots=True)
class Attack:
    """A partner, polls that are killed, and the broken promises."""

    folder: Path
    chance: random.Random
    hours: int = 0
    kills: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def outbox(self) -> Path:
        return self.folder / "outbox"

    @property
    def board(self) -> LocalBlackboard:
        return LocalBlackboard(self.folder / "base")

    @property
    def source(self) -> Source:
        return describe(self.folder / "shop_ads.yaml", self.outbox)

    def run(self, kills: int) -> list[str]:
        """Kill so many polls, then let one end; returns the broken promises."""
        self.outbox.mkdir(parents=True)
        while self.kills < kills and not self.problems:
            for _ in range(self.chance.randint(0, 2)):
                self.send(self.chance)
            self.round()
            self.judge()
        for _ in range(3):
            self.hours += 2
            self.fork(None)()
        self.judge()
        self.judge_at_the_end()
        return self.problems

    def round(self) -> None:
        """A poll that is killed, often beside another one. Claims of the round before have expired."""
        self.hours += 2
        ends = [self.fork(self.chance.randint(1, MOST_STEPS))]
        if self.chance.random() < 0.3:
            ends.append(self.fork(self.chance.choice((None, self.chance.randint(1, MOST_STEPS)))))
        for end in ends:
            self.kills += end() == -signal.SIGKILL

    def fork(self, kill_at: int | None) -> Callable[[], int]:
        """Start a poll that kills itself before that step. Returns a function that waits for it, for its exit code."""
        seed = self.chance.random()
        child = os.fork()
        if child:
            return lambda: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        code = 1
        try:
            self.poll(kill_at, random.Random(seed))
            code = 0
        finally:
            os._exit(code)

    def poll(self, kill_at: int | None, chance: random.Random) -> None:
        steps = 0

        def before(operation: str = "", name: str = "") -> None:
            nonlocal steps
            steps += 1
            if steps == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if kill_at is not None and operation.startswith("download") and chance.random() < 0.15:
                self.send(chance, name)
                if operation == "downloaded":  # as if this poll stood still for hours
                    poller(self.board, clock=lambda: TODAY + timedelta(hours=self.hours + 1.5)).poll(self.source)

        board = Stepped(self.board, before)
        place = Watched(open_place(self.source), before)
        poller(board, clock=lambda: TODAY + timedelta(hours=self.hours)).poll(self.source, place)

    def send(self, chance: random.Random, name: str = "") -> None:
        """Put a new file there, or a new content of one. Later contents have higher numbers."""
        name = name or f"2019-11-{chance.randint(28, 29)}/{chance.randrange(FILES)}.csv"
        number = time.time_ns()
        ids = [f"{name}:{number}:{row}" for row in range(chance.randint(1, 3))]
        # A time of its own: a disk gives the inode of a replaced file to a later one, which may have the same size.
        send(self.outbox, name, *ids, time=None, day=name[:10])

    def judge(self) -> None:
        """What holds at any time: a name shows one content, once; and what the index has, has landed."""
        rows = landed(self.board)
        versions = {tuple(row.split(":")[:2]) for row in rows}
        self.problems += [
            f"{name} shows {count} contents" for name, count in Counter(n for n, _ in versions).items() if count > 1
        ]
        self.problems += [f"{row} shows {count} times" for row, count in Counter(rows).items() if count > 1]
        for each in BlackboardIndex(self.board).states(KEY):
            if find(self.board, KEY, each.landing) is None:
                self.problems.append(f"{each.name} is taken, and has not landed")

    def judge_at_the_end(self) -> None:
        """What holds when a poll has ended: readers see what the partner has, and the next poll downloads nothing."""
        there = Counter(
            line.split(",")[0]
            for path in self.outbox.glob("2019-*/*.csv")
            for line in path.read_text(encoding="utf-8").splitlines()[1:]
        )
        seen = Counter(landed(self.board))
        self.problems += [f"{row} is lost" for row in there - seen]
        self.problems += [f"{row} is there too often, or was replaced" for row in seen - there]
        contents = {each: self.board.read(_kept(self.board, each)) for each in entries(self.board, KEY)}
        names: dict[str, list[tuple[int, int]]] = {}
        for each, kept in contents.items():
            name, number, _ = kept.data.decode().splitlines()[1].split(",")[0].split(":")
            names.setdefault(name, []).append((each.generation, int(number)))
        for name, generations in names.items():
            numbers = [number for _, number in sorted(generations)]
            if numbers != sorted(set(numbers)):
                self.problems.append(f"an older content of {name} replaced a newer one, or one landed twice")
        for each in BlackboardIndex(self.board).states(KEY):
            size = each.state.partition(".")[0]
            if size and each.landing in contents and int(size) != contents[each.landing].entry.size:
                self.problems.append(f"another content of {each.name} landed than was taken")
        place = Watched(open_place(self.source))
        poller(self.board, clock=lambda: TODAY + timedelta(hours=self.hours)).poll(self.source, place)
        self.problems += [f"{name} was downloaded again" for name in place.downloads]


def _kept(board: LocalBlackboard, landing_id: LandingId) -> str:
    entry = read_landing(board, ledger_key(KEY, landing_id))
    return sent_key(KEY, content_digest(KEY, entry.sha256))


def _note_before_landing() -> Any:
    fetched = polling._Work._fetched

    def noting(self: Any, file: Any, folder: Path) -> Path | None:
        landing_id = LandingId(name_digest(KEY, file.name), 1)
        self.poller.index.record(KEY, file, landing_id, now=TODAY)
        return fetched(self, file, folder)

    return patch.object(polling._Work, "_fetched", noting)


def _land_whatever_landed_meanwhile() -> Any:
    landings = landing._Landings
    return patch.object(landing, "_Landings", lambda *fields: landings(*fields[:6], None, fields[7]))


MISTAKES: Mapping[str, Callable[[], Any]] = {
    "note before landing": _note_before_landing,
    "note nothing": lambda: patch.object(taken.BlackboardIndex, "record", lambda *_, **__: None),
    "know files by content": lambda: patch.object(PartnerFile, "name_digest", PartnerFile.digest),
    "keep the first content": lambda: patch.object(landing._Landings, "_is_replaced", lambda *_: False),
    "trust the plan of another": lambda: patch.object(landing._Landings, "_is_to_land_again", lambda *_: False),
    "land whatever landed meanwhile": _land_whatever_landed_meanwhile,
}


def attack(kills: int, seed: int, mistake: str = "") -> tuple[int, list[str]]:
    """The number of kills, and the broken promises."""
    with folder_in_memory() as folder, without_spark():
        one = Attack(folder, random.Random(seed))
        if not mistake:
            problems = one.run(kills)
        else:
            with MISTAKES[mistake]():
                problems = one.run(kills)
        return one.kills, problems


@click.command()
@click.option("--kills", default=2000, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--prove", is_flag=True, help="Let each mistake be found, instead.")
def main(kills: int, seed: int, *, prove: bool) -> None:
    """Kill so many polls; exit with 1 if a promise was broken, or with --prove if a mistake was not found."""
    started, failed = time.monotonic(), False
    for mistake in MISTAKES if prove else [""]:
        done, problems = 0, list[str]()
        while not problems and done < kills * (SEEDS if prove else 1):
            more, problems = attack(min(kills, ONE_PARTNER), seed, mistake)
            done, seed = done + more, seed + 1
        click.echo(f"{mistake or 'polls'}: {done} kills, {len(problems)} broken promises: {problems[:3]}")
        failed = failed or bool(problems) != prove
    click.echo(f"{time.monotonic() - started:.0f} s")
    sys.exit(failed)


if __name__ == "__main__":
    main()
