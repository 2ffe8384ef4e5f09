"""A workflow as a user writes it: stages in Python, and what a stage sees of its work.

Here: declaring stages and their settings, and the work of one lease. Not here: leasing and committing (`worker`),
tables of rows (a `Tables`, which the engine provides), and the audit of what is published.
"""

from __future__ import annotations

import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import uuid4

import msgspec

from feed_assets.blackboard.keys import check_key
from feed_assets.blackboard.port import Blackboard
from feed_assets.workflow.calls import TaskView
from feed_assets.workflow.errors import StageError
from feed_assets.workflow.places import check_name
from feed_assets.workflow.scratch import scratch_of
from feed_assets.workflow.tasks import (
    ALL,
    MOST_DELAY,
    MOST_TASKS,
    OWN_GROUPS,
    PRIORITIES,
    NewBundle,
    NewTask,
    PayloadError,
    encoded_payload,
    name_problem,
    problem_of,
)

if TYPE_CHECKING:
    from feed_assets.workflow.trial import Ran

LEASE_SECONDS: Final = 60.0


class Tables(Protocol):
    """Reads files as a table of rows, and writes one; with Spark, a table is a DataFrame."""

    def read(self, keys: Sequence[str]) -> Any:
        """The rows of these files, keys below the base."""
        ...

    def write(self, table: Any, folder: str) -> tuple[str, ...]:
        """Write rows as files below a folder, a key that ends in `/`; returns their keys."""
        ...


class Publisher(Protocol):
    """Makes updates of feeds from what stages return."""

    def stage(self, asset: Any, partition: str | None, table: Any, *, maker: str, digest: str) -> str:
        """Write an update that readers do not see yet, under a claim of its own; returns its name.

        `maker` is unlike that of any other attempt; `digest` identifies code and parameters.
        """
        ...

    def publish(self, asset: Any, partition: str | None, update: str, *, maker: str) -> str:
        """Audit this update, and publish or reject it, unless that was done; returns what it is now.

        That is `PUBLISHED`, `REJECTED`, or `GONE` if its claim or its files are lost.
        """
        ...


class Computer(Protocol):
    """Computes partitions of assets as Dagster's runs do, in this process."""

    def compute(self, payload: Any) -> None:
        """Compute, audit and publish what the payload names. Raises StageError if that fails."""
        ...


PUBLISHED: Final = "published"
REJECTED: Final = "rejected"
GONE: Final = "gone"
PUBLISH: Final = "publish"
"""The stage that every workflow has whose stages publish."""
COMPUTE: Final = "compute"
"""The stage that every workflow has that computes assets."""
_OWN_NAMES: Final = frozenset({PUBLISH, COMPUTE, ALL, *OWN_GROUPS})
"""No stage of a project has one of these names."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage: the function that does its work, and how it is done.

    `digest` identifies the version and the source of the function. A worker with another digest than the configuration
    in force does none of its work. `parameters` are the project's; a worker uses those of the configuration in force.
    """

    name: str
    function: Callable[[Work], Any]
    version: str
    parameters: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    seconds: float = LEASE_SECONDS
    attempts: int | None = None
    most: int | None = None
    publishes: Any = None

    @property
    def digest(self) -> str:
        """What identifies the code: the same in each process that has it."""
        return _digest_of(self.function, self.version)

    @property
    def configuration(self) -> dict[str, Any]:
        """The configuration that `feed-assets workflow apply` brings into force."""
        found = {"version": self.version, "digest": self.digest, "parameters": dict(self.parameters)}
        settings = {"attempts": self.attempts, "most": self.most}
        return {**found, **{name: value for name, value in settings.items() if value is not None}}


class Workflow:
    """Work that never ends, in stages; its tasks are below `<base>/.workflow/<name>/`.

    >>> flow = Workflow("revenue")
    >>> @flow.stage(version="1")
    ... def split(work):
    ...     work.to(total, work.payload)
    >>> @flow.stage(version="1")
    ... def total(work):
    ...     pass
    >>> sorted(flow.stages)
    ['split', 'total']
    """

    def __init__(self, name: str) -> None:
        check_name(name)
        self.name = name
        self.stages: dict[str, Stage] = {}
        self.computed: list[Any] = []
        """The assets that its workers compute."""

    def __repr__(self) -> str:
        return f"Workflow({self.name!r})"

    def stage(
        self,
        *,
        version: str,
        parameters: Mapping[str, Any] | None = None,
        seconds: float = LEASE_SECONDS,
        attempts: int | None = None,
        most: int | None = None,
    ) -> Callable[[Callable[[Work], Any]], Stage]:
        """Declare a function as a stage of its own name; it gets a `Work`.

        `version` changes with what the stage means. `parameters` are in `work.parameters`, and can be changed in
        flight. `seconds`: how soon a worker that died is missed. After `attempts` (5) a task is dead. `most` tasks may
        wait for the stage before those who make them are held back (100,000).
        """
        return self._declare(version, parameters, seconds, attempts, most, None)

    def publishes(
        self,
        asset: Any,
        *,
        version: str,
        parameters: Mapping[str, Any] | None = None,
        seconds: float = LEASE_SECONDS,
        attempts: int | None = None,
        most: int | None = None,
    ) -> Callable[[Callable[[Work], Any]], Stage]:
        """Declare a stage that returns the rows of a partition of an asset's feed; they are audited and published.

        The partition is the `day` of the payload, unless the function calls `work.publish`. See `stage` for the rest.
        """
        return self._declare(version, parameters, seconds, attempts, most, asset)

    def computes(self, *assets: Any, seconds: float = LEASE_SECONDS, attempts: int | None = None) -> None:
        """Let workers compute these assets, instead of runs of Dagster, whenever a sensor of the project asks for it.

        Sensors decide as before what is due; what they would ask Dagster for becomes a task. A worker computes it with
        the Spark that it has, and audits and publishes it as a run does. Runs by hand, by a schedule or a backfill stay
        runs of Dagster. `seconds` and `attempts` as in `stage`.
        """
        self.computed += assets
        self.stages[COMPUTE] = Stage(COMPUTE, _compute, "1", seconds=seconds, attempts=attempts)

    def run(
        self,
        stage: Stage,
        files: Sequence[str | Path] = (),
        payload: Any = None,
        *,
        tables: Callable[[Blackboard], Tables] | None = None,
    ) -> Ran:
        """Do all work that follows from one task, in this process and without a master: for tests.

        `files` are of this machine. Tables are those of Spark's session, which is started if a stage needs it; `tables`
        makes others. Files that stages write are in a temporary folder, and gone when the process ends.
        """
        from feed_assets.workflow.trial import run_here  # noqa: PLC0415 - it imports this module

        return run_here(self, stage, files, payload, tables)

    def _declare(
        self,
        version: str,
        parameters: Mapping[str, Any] | None,
        seconds: float,
        attempts: int | None,
        most: int | None,
        asset: Any,
    ) -> Callable[[Callable[[Work], Any]], Stage]:
        def declared(function: Callable[[Work], Any]) -> Stage:
            name = getattr(function, "__name__", "")
            self._check_name(name)
            try:
                used = msgspec.json.decode(encoded_payload(dict(parameters or {})))
            except PayloadError as error:
                raise StageError(f"Parameters of the stage {name} of {self.name}: {error}.") from error
            if asset is not None and PUBLISH not in self.stages:
                self.stages[PUBLISH] = Stage(PUBLISH, _publish, "1")
            made = Stage(name, function, version, MappingProxyType(used), seconds, attempts, most, asset)
            self.stages[name] = made
            return made

        return declared

    def _check_name(self, name: str) -> None:
        if name in _OWN_NAMES:
            raise StageError(
                f"The workflow {self.name} has a stage called {name}, which is a name of its own: rename the function."
            )
        if problem := name_problem(name):
            raise StageError(f"The workflow {self.name} has a stage called {name[:50]!r}: {problem}.")
        if name in self.stages:
            raise StageError(f"The workflow {self.name} has two stages called {name}: rename one of them.")


@dataclass(slots=True)
class Work:
    """What a stage does once: a task, or the tasks of a bundle.

    `payload` and `parameters` are JSON, as Python has it. What `to` makes counts when the stage returns.
    """

    flow: Workflow
    stage: Stage
    tasks: Sequence[TaskView]
    parameters: Mapping[str, Any]
    board: Blackboard
    tables: Tables | None = None
    publisher: Publisher | None = None
    computer: Computer | None = None
    keep: Callable[[str, float], None] = lambda *_: None
    """Keeps a checkpoint and the progress."""
    made: list[NewTask] = field(default_factory=list)
    _folder: str = ""
    _written: int = 0

    @property
    def payload(self) -> Any:
        """What the task is about; of a bundle, that of its first task that was not dropped."""
        return next(iter(self.payloads), None)

    @property
    def payloads(self) -> list[Any]:
        """The payload of each task, without those that a person dropped."""
        return [msgspec.json.decode(each.payload) for each in self.tasks if not each.empty]

    @property
    def files(self) -> list[str]:
        """The keys of the task's files, below the base."""
        return [key for each in self.tasks for key in each.files]

    @property
    def unit(self) -> int:
        """The number of the (first) task, which stays the same when it is tried again."""
        return self.tasks[0].unit

    @property
    def origin(self) -> int:
        """The number of the task that was inserted first, of which this one was made in the end."""
        return min(each.origin for each in self.tasks)

    @property
    def attempt(self) -> int:
        """How often it was tried before."""
        return max(each.attempt for each in self.tasks)

    @property
    def checkpoint(self) -> str:
        """What an earlier attempt has saved; "" at first."""
        return self.tasks[0].checkpoint

    def save(self, checkpoint: str, progress: float = 0.0) -> None:
        """Keep a text of at most 1 KiB for whoever does this work if this worker dies, and how far it is (0 to 1)."""
        self.keep(checkpoint, progress)

    def read(self) -> Any:
        """The rows of the task's files; with Spark a DataFrame. Raises StageError if there are none."""
        if not self.files:
            raise StageError(f"The task {self.unit} of {self.stage.name} has no files to read: use its payload.")
        return self._tables().read(self.files)

    def write(self, name: str, data: bytes) -> str:
        """Write a file that no other attempt writes; returns its key, for `to`."""
        key = f"{self._own_folder()}{name}"
        check_key(key)
        self.board.create(key, data)
        return key

    def to(
        self,
        stage: Stage,
        payload: Any = None,
        table: Any = None,
        *,
        files: Iterable[str] = (),
        key: str = "",
        bundle: tuple[Any, int] | None = None,
        priority: int = 0,
        delay: float = 0.0,
    ) -> None:
        """Make a task for a stage: with a payload (JSON, up to 4 KiB), and the rows of a table or keys of files.

        With a `bundle` (a name and a size) it waits until all tasks of that name are there, and one worker gets them
        together. Of tasks with one `key`, one waits at a time. Raises StageError.
        """
        if not isinstance(stage, Stage) or self.flow.stages.get(stage.name) is not stage:
            raise StageError(
                f"{stage!r} is no stage of {self.flow.name}: those are {', '.join(sorted(self.flow.stages))}."
            )
        if priority not in PRIORITIES or not 0 <= delay <= MOST_DELAY:
            raise StageError(f"A priority is 0 to {PRIORITIES[-1]}, a delay 0 to {MOST_DELAY:g} seconds.")
        if isinstance(files, str):
            raise StageError(f"`files` are several keys, and {files!r} is one text: put it into a list.")
        keys = list(files)
        if table is not None:
            self._written += 1
            keys += self._tables().write(table, f"{self._own_folder()}{self._written}/")
        wanted = None if bundle is None else _bundle(bundle)
        self._make(
            NewTask(stage.name, payload, key=key, bundle=wanted, files=tuple(keys), priority=priority, delay=delay)
        )

    def _make(self, task: NewTask) -> None:
        """Make a task. Raises StageError here, where the stage makes it, for what the master would refuse."""
        if problem := problem_of(task):
            raise StageError(f"A task for {task.type} cannot be made: {problem}.")
        if len(self.made) >= MOST_TASKS:
            raise StageError(f"The stage {self.stage.name} makes more than {MOST_TASKS:,} tasks: let others make some.")
        self.made.append(task)

    def publish(self, table: Any, partition: str | None = None) -> None:
        """Let rows become an update of the stage's feed, of a partition: by default the `day` of the payload.

        They are audited and published by a task of their own, after this one is committed.
        """
        if self.stage.publishes is None or self.publisher is None:
            raise StageError(f"The stage {self.stage.name} publishes nothing: declare it with `flow.publishes`.")
        if partition is None and isinstance(self.payload, dict):
            partition = self.payload.get("day")
        maker = f"{self.flow.name}/{self.unit}-{self.attempt}-{uuid4().hex[:12]}"
        used = encoded_payload([self.stage.digest, dict(self.parameters)])
        digest = hashlib.blake2b(used, digest_size=8).hexdigest()
        update = self.publisher.stage(self.stage.publishes, partition, table, maker=maker, digest=digest)
        payload = {
            "stage": self.stage.name, "partition": partition, "update": update, "maker": maker, "of": self.payload,
        }  # fmt: skip
        self._make(NewTask(PUBLISH, payload, files=tuple(self.files)))

    def _own_folder(self) -> str:
        if not self._folder:
            name = f"{self.unit}-{self.attempt}-{uuid4().hex[:12]}"
            self._folder = f"{scratch_of(self.flow.name)}{self.stage.name}/{name}/"
        return self._folder

    def _tables(self) -> Tables:
        if self.tables is None:
            raise StageError("This worker reads no tables: start it with Spark, or use `work.write` and files.")
        return self.tables


def _bundle(given: Any) -> NewBundle:
    if isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[1], int):  # noqa: PLR2004 - a pair
        return NewBundle(str(given[0]), given[1])
    raise StageError(f"A bundle is a name and a number of tasks, such as (work.origin, 3), and not {given!r}.")


@cache
def _digest_of(function: Callable[[Work], Any], version: str) -> str:
    # Once in a process: a worker names it at each lease, and the code that runs does not change.
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except OSError:  # written in an interpreter
        source = ""
    return hashlib.blake2b(f"{version}\0{source}".encode(), digest_size=8).hexdigest()


def _publish(work: Work) -> None:
    """Make an update visible that a stage has written, or compute it again if it is lost."""
    payload = work.payload
    stage = work.flow.stages[payload["stage"]]
    if work.publisher is None:
        raise StageError("This worker publishes nothing: start it with `feed-assets workflow work`.")
    outcome = work.publisher.publish(stage.publishes, payload["partition"], payload["update"], maker=payload["maker"])
    if outcome == GONE:
        work.made.append(NewTask(stage.name, payload["of"], files=tuple(work.files)))


def _compute(work: Work) -> None:
    """Compute partitions of assets."""
    if work.computer is None:
        raise StageError("This worker computes no assets: start it with `feed-assets workflow work`.")
    work.computer.compute(work.payload)
