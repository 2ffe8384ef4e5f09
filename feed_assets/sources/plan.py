"""The plan of a landing, written before the landing changes anything for readers.

Here: the plan, carrying it out, removing its staging. With a plan, a landing only moves forward: every step can be
repeated, so landing the file again after a crash completes it. The ledger entry comes after all files; without it they
do not count for readers. Not here: making a plan (see `staging`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from filecmp import cmp
from typing import TypeVar

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, BlackboardError, NotFoundError
from feed_assets.sources.layout import (
    SENT,
    STAGING,
    LandingId,
    arrived_key,
    ledger_key,
    quarantine_key,
    staging_prefix,
    touched_key,
)
from feed_assets.sources.ledger import (
    Landing,
    entry_json,
    find,
    landing_from_json,
    landing_json,
)
from feed_assets.sources.scratch import scratch_directory
from feed_assets.sources.source_errors import LandingError

ABANDONED = timedelta(days=2)
"""Staging without a write for this long belongs to a landing that was killed."""

T = TypeVar("T")
R = TypeVar("R")

_NAME = "plan.json"
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """Staged objects to copy, each with its key, the prefix of all of them, and the landing whose entry follows."""

    landing: Landing
    copies: tuple[tuple[str, str], ...]
    staged: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """The result of `sweep_staging`: landings completed, files removed, failures with reasons."""

    completed: tuple[Landing, ...] = ()
    removed: int = 0
    failures: tuple[str, ...] = ()


def read_plan(blackboard: Blackboard, staging: str) -> Plan | None:
    """The plan below this prefix, None if there is none."""
    try:
        fields = json.loads(blackboard.read(f"{staging}{_NAME}").data)
    except NotFoundError:
        return None
    copies = tuple((source, key) for source, key in fields["copies"])
    return Plan(landing_from_json(fields["landing"]), copies, fields["staged"])


def write_plan(blackboard: Blackboard, staging: str, plan: Plan) -> Plan:
    """Write the plan and return it, or the plan of a faster process that lands the same content."""
    fields = {"landing": landing_json(plan.landing), "copies": plan.copies, "staged": plan.staged}
    try:
        blackboard.create(f"{staging}{_NAME}", json.dumps(fields, indent=1).encode())
    except AlreadyExistsError:
        return read_plan(blackboard, staging) or plan
    return plan


def complete(blackboard: Blackboard, plan: Plan, *, now: datetime) -> Landing:
    """Carry the plan out; any of its steps may already be done. Raises NotFoundError if a staged file is gone."""
    # A faster process may have completed and removed its own plan before this one was written.
    if (landed := find(blackboard, plan.landing.source, plan.landing.id)) is not None:
        return landed
    # Look at all before copying any: raw files of a landing that never completes would stay for ever.
    staged = set(keys(blackboard, plan.staged))
    if gone := [source for source, _ in plan.copies if source not in staged]:
        raise NotFoundError(f"There is no object {blackboard.uri(gone[0])}.")
    in_parallel(lambda copy: _copy(blackboard, *copy), plan.copies)
    landing = replace(plan.landing, landed_at=now)
    _enter(blackboard, landing)
    return landing


def tidy(blackboard: Blackboard, landing: Landing) -> int:
    """Finish a landing that has its entry: note its days and its hour, and remove its staging.

    The quarantine that it supersedes goes, too.

    The landing before it is finished: whoever lands a content again finishes its newest landing first. Superseded raw
    files stay: a run may be reading them, and records name them. Returns how many files were staged.
    """
    staging = staging_prefix(landing.source, landing.id)
    if not any(keys(blackboard, staging)):
        return 0  # it is finished
    superseded = [LandingId(landing.digest, landing.generation - 1)] if landing.generation > 1 else []
    earlier = [found for each in superseded if (found := find(blackboard, landing.source, each)) is not None]
    # Also the days of the superseded landing, so that a look at one of these days finds this landing. Days of landings
    # before that one do not matter: a landing has a file in each day in which the one before it has any.
    days = landing.touched.union(*(each.touched for each in earlier))
    notes = [touched_key(landing.source, day, landing.id) for day in sorted(days)]
    if landing.landed_at is not None:
        notes.append(arrived_key(landing.source, landing.landed_at, landing.id, landing.landed))
    in_parallel(lambda key: _note(blackboard, key), notes)
    blackboard.delete(*(quarantine_key(landing.source, each) for each in superseded))
    return clear(blackboard, staging)


def clear(blackboard: Blackboard, staging: str) -> int:
    """Remove staged files, the plan last, so that no staged file is left without its plan. Returns their number."""
    found = list(keys(blackboard, staging))
    path = f"{staging}{_NAME}"
    plan = read_plan(blackboard, staging) if path in found else None
    if plan is not None and plan.staged != staging:
        found += keys(blackboard, plan.staged)
    blackboard.delete(*(key for key in found if key != path))
    if plan is not None:
        blackboard.delete(path)
    return len(found)


def sweep_staging(blackboard: Blackboard, source_key: str, *, now: datetime) -> Sweep:
    """Complete killed landings of a source that have a plan, and remove the staging of the others.

    Only staging without a write for `ABANDONED` is touched. A landing that still works on it fails, and none of its
    records count. One listing if there is nothing to do.
    """
    prefix = f"{STAGING}{source_key}/"
    newest: dict[str, datetime] = {}
    plans: dict[str, Plan] = {}
    for entry in list_all(blackboard, prefix):
        folder = prefix + entry.key.removeprefix(prefix).partition("/")[0] + "/"
        newest[folder] = max(entry.modified, newest.get(folder, entry.modified))
        if entry.key == f"{folder}{_NAME}" and (plan := read_plan(blackboard, folder)) is not None:
            plans[folder] = plan
    abandoned = [folder for folder, modified in newest.items() if modified < now - ABANDONED]
    completed: list[Landing] = []
    failures: list[str] = []
    removed = 0
    unplanned = [folder for folder in abandoned if folder not in plans]
    for folder in (folder for folder in abandoned if folder in plans):
        plan = plans.pop(folder)
        try:
            if find(blackboard, source_key, plan.landing.id) is None:
                completed.append(complete(blackboard, plan, now=now))
        except NotFoundError:
            # A plan whose staged files are gone can never be completed.
            clear(blackboard, folder)
            failures.append(f"what was staged for {plan.landing.file} was removed; land {plan.landing.file} again")
        except (LandingError, BlackboardError) as error:
            plans[folder] = plan
            failures.append(str(error))
        else:
            removed += tidy(blackboard, plan.landing)
    # Files of one attempt may belong to several landings; some of them may have a plan that is not carried out yet.
    needed = tuple(plan.staged for plan in plans.values())
    for folder in unplanned:
        rest = [key for key in keys(blackboard, folder) if not key.startswith(needed)]
        blackboard.delete(*rest)
        removed += len(rest)
    return Sweep(tuple(completed), removed, tuple(failures))


def keys(blackboard: Blackboard, prefix: str) -> Iterator[str]:
    """The keys of all objects below a prefix."""
    return (entry.key for entry in list_all(blackboard, prefix))


def in_parallel(do: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """The result for every item, some at once; after all are done, raise the error of the first item that failed."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [future.result() for future in [pool.submit(do, item) for item in items]]


def _enter(blackboard: Blackboard, landing: Landing) -> None:
    with suppress(AlreadyExistsError):
        blackboard.create(ledger_key(landing.source, landing.id), entry_json(landing))


def _note(blackboard: Blackboard, key: str) -> None:
    with suppress(AlreadyExistsError):
        blackboard.create(key, b"")


def _copy(blackboard: Blackboard, staged: str, key: str) -> None:
    try:
        blackboard.copy(staged, key)
    except AlreadyExistsError:
        # The key of a sent file is a digest of its content, packed or not.
        if not key.startswith(SENT) and not _are_equal(blackboard, key, staged):
            raise LandingError(
                f"{blackboard.uri(key)} is there with other content than this landing gives it; "
                "delete the files of the earlier landing of the same name, then land the file again"
            ) from None


def _are_equal(blackboard: Blackboard, *keys: str) -> bool:
    """Whether two objects have the same content. If their tags do not show that, both are downloaded."""
    entries = [blackboard.read(key, limit=0).entry for key in keys]
    if len({entry.size for entry in entries}) > 1 or len({entry.tag for entry in entries}) == 1:
        return entries[0].size == entries[1].size
    with scratch_directory("feed-assets-land-") as scratch:
        one, other = scratch / "one", scratch / "other"
        blackboard.download(keys[0], one)
        blackboard.download(keys[1], other)
        return cmp(one, other, shallow=False)
