"""The receiver without a project, Dagster and Spark, so that it starts in moments: for kills, and for tests of HTTP.

Here: the real server, journal, supervision and storage steps of landing; the lander only leaves out what Spark does,
which is to divide a file by hour. Variants with a mistake, which the checker of `kills` must find. Not here: kills.
"""

from __future__ import annotations

import fcntl
import gc
import multiprocessing
import os
import socket
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.journal.on_blackboard import BlackboardSegments
from feed_assets.journal.on_disk import DiskSegments
from feed_assets.receiving import keeping, landing_segments, running
from feed_assets.receiving.entries import PREFIX
from feed_assets.receiving.landing_segments import Place
from feed_assets.receiving.limits import Limits
from feed_assets.sources.layout import LandingId, sent_key, staging_prefix
from feed_assets.sources.ledger import Landing, find
from feed_assets.sources.loading import usable_sources
from feed_assets.sources.partner_file import inspect
from feed_assets.sources.plan import Plan, complete, tidy, write_plan
from feed_assets.sources.spec import Source
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests.forked import start_server
from feed_assets_tests.harness import SHOP_CLICKS
from feed_assets_tests.listening import free_port
from feed_assets_tests.receiving.serving import EVENTS, Server

FILES = SHOP_CLICKS.replace("shop_clicks", "shop_files")
"""A source that takes files only."""
STOPPED = EVENTS.replace("shop_ads", "stopped_ads").replace("identity:", "identities:")
"""A source whose description is wrong."""
SIGNED = EVENTS.replace("shop_ads", "signed_ads") + (
    "push: {signature: standard, secrets: [ACME_SECRET, ACME_NEXT_SECRET], partner: acme}\n"
)
"""A source whose events are signed."""
SECRETS = {"ACME_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "ACME_NEXT_SECRET": "whsec_bmV4dCBzZWNyZXQ="}
DURABLE = ".durable"
"""Beside a segment: how many of its bytes have survived a power cut, if there is one now."""


@dataclass(frozen=True, slots=True)
class Light:
    """A receiver on this base. `mistake` names a variant of `MISTAKES`; `journal` is `disk` or `blackboard`."""

    base: Path
    limits: Limits = field(default_factory=Limits)
    tokens: bool = False
    mistake: str = ""
    journal: str = "disk"
    tls: tuple[str, str] | None = None

    @property
    def sources(self) -> tuple[Source, ...]:
        return usable_sources(self.base.parent / "sources", KINDS)

    @property
    def board(self) -> LocalBlackboard:
        return LocalBlackboard(self.base)

    @property
    def store(self) -> Store:
        return Store(sqlite_url(self.base / ".state" / "state.db"))

    def place(self) -> Place:
        """Called in the lander's process."""
        MISTAKES[self.mistake]()
        return WithoutSpark(self.board, self.opened(), self.sources, lambda: None, partial(datetime.now, UTC))  # type: ignore[arg-type]

    def opened(self) -> DiskSegments | BlackboardSegments:
        return (
            DiskSegments(self.base / "journal")
            if self.journal == "disk"
            else BlackboardSegments(self.board, f"{PREFIX}here/")
        )


class WithoutSpark(Place):
    """Lands files by the storage steps of a landing: staging, plan, copies, ledger entry."""

    def land(self, source: Source, files: Sequence[Path]) -> Iterator[Landing | Exception]:
        for file in files:
            if b'"poison"' in file.read_bytes():
                os._exit(1)  # as Spark's Java that runs out of memory
            with TemporaryDirectory() as scratch:
                sent = inspect(file, source, Path(scratch))
            landing = LandingId(sent.digest(source.key))
            if (before := find(self.blackboard, source.key, landing)) is None:
                staged = f"raw/.staging/{source.key}/{uuid.uuid4().hex}/"
                self.blackboard.upload(f"{staged}sent", file)
                entry = Landing(source.key, sent.name, sent.sha256, landing.digest, 0, 0, 0, 0, {}, None, ())
                copies = ((f"{staged}sent", sent_key(source.key, landing.digest)),)
                plan = write_plan(self.blackboard, staging_prefix(source.key, landing), Plan(entry, copies, staged))
                before = complete(self.blackboard, plan, now=datetime.now(UTC))
            tidy(self.blackboard, before)
            yield before


def describe(base: Path) -> None:
    """Describe the sources of the receiver on this base."""
    sources = base.parent / "sources"
    sources.mkdir(parents=True, exist_ok=True)
    (sources / "shop_ads.yaml").write_text(EVENTS, encoding="utf-8")
    (sources / "shop_files.yaml").write_text(FILES, encoding="utf-8")
    (sources / "signed_ads.yaml").write_text(SIGNED, encoding="utf-8")
    (sources / "stopped_ads.yaml").write_text(STOPPED, encoding="utf-8")


@contextmanager
def running_light(light: Light) -> Iterator[Server]:
    """The receiver as a process; it is killed at the end."""
    describe(light.base)
    port = free_port()
    start_server()
    process = multiprocessing.get_context("forkserver").Process(target=_run, args=(light, port))
    process.start()
    server = Server(process, port, light.base / "log", tls=light.tls)
    try:
        server.wait()
        yield server
    finally:
        process.kill()
        process.join()
        _wait_for_the_lock(light.base / "journal" / "lock")


def _wait_for_the_lock(lock: Path) -> None:
    """Return when no lander that was being forked at the kill holds the lock any more."""
    if lock.exists():
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)


def _run(light: Light, port: int) -> None:
    gc.freeze()  # else the first collection touches, and so copies, all memory of the process that forked this one
    MISTAKES[light.mistake]()
    keeping.LOOK_EVERY = 0.02
    _note_durable()
    os.register_at_fork(after_in_child=_give_up_the_lock)
    light.base.mkdir(parents=True, exist_ok=True)
    log = os.open(light.base / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    running.run(
        light.sources,
        light.store,
        light.opened(),
        light.place,
        light.limits,
        socket.create_server(("127.0.0.1", port)),
        now=partial(datetime.now, UTC),
        with_tokens=light.tokens,
        tls=light.tls,
        processes=multiprocessing.get_context("fork"),  # the lander starts in moments, too
        verifiers={source.key: source.push.verifier(SECRETS) for source in light.sources if source.push},
    )


def _give_up_the_lock() -> None:
    """A process that was forked holds no lock of its parent, as one that was spawned."""
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if each.readlink().name == "lock":
                os.close(int(each.name))


def _note_durable() -> None:
    """Note how far each segment is durable, as a disk would know it."""

    def noting(wait: Callable[[int], None], descriptor: int) -> None:
        wait(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.suffix == ".segment":
            note = os.open(f"{path}{DURABLE}", os.O_CREAT | os.O_WRONLY)
            os.pwrite(note, b"%020d" % os.fstat(descriptor).st_size, 0)  # at once: it may be killed here
            os.close(note)

    os.fdatasync, os.fsync = partial(noting, os.fdatasync), partial(noting, os.fsync)  # type: ignore[assignment]


def _acknowledge_before_the_disk() -> None:
    def append(self: DiskSegments, frames: Sequence[bytes]) -> None:
        os.write(self._file, b"".join(frames))  # type: ignore[arg-type]
        self._durable += sum(map(len, frames))

    DiskSegments.append = append  # type: ignore[method-assign]


def _remove_before_landing() -> None:
    record = keeping.Keeper._record

    def recording(self: keeping.Keeper) -> None:
        record(self)
        for each in self._kept.values():
            self.journal.remove(each.sealed.name)

    keeping.Keeper._record = recording  # type: ignore[method-assign]


def _write_another_file_each_time() -> None:
    marked = landing_segments._marked
    landing_segments._marked = lambda entry, _: marked(entry, uuid.uuid4().hex)


def _forget_answers() -> None:
    keeping.record_answers = lambda *_, **__: None


MISTAKES = {
    "": lambda: None,
    "acknowledge before the disk": _acknowledge_before_the_disk,
    "remove before landing": _remove_before_landing,
    "write another file each time": _write_another_file_each_time,
    "forget answers": _forget_answers,
}
