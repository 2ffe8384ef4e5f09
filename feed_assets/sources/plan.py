"""What a landing will have done, written down before it does any of it.

Here: the plan, carrying it out, clearing away what was staged for it. With its plan a landing only moves forward:
every step can be repeated, so whoever lands the file again after a crash completes it. The ledger entry comes after all
files, and only with it do they count for readers. Not here: making a plan (see `landing`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, BlackboardError, NotFoundError
from feed_assets.sources.errors import LandingError
from feed_assets.sources.layout import (
    SENT,
    STAGING,
    LandingId,
    ledger_key,
    quarantine_key,
    staging_prefix,
    touched_key,
)
from feed_assets.sources.ledger import Landing, entry_json, find, landing_from_json, landing_json, landings_of

ABANDONED = timedelta(days=2)
"""Staging in which nothing was written for so long belongs to a landing that was killed."""

T = TypeVar("T")

_NAME = "plan.json"
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """Staged objects to copy, each with its key, and the landing whose entry follows."""

    landing: Landing
    copies: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """What became of staging that killed landings had left: landings completed, files removed, what failed and why."""

    completed: tuple[Landing, ...] = ()
    removed: int = 0
    failures: tuple[str, ...] = ()


def read_plan(blackboard: Blackboard, staging: str) -> Plan | None:
    """The plan below this prefix, None where there is none."""
    try:
        fields = json.loads(blackboard.read(f"{staging}{_NAME}").data)
    except NotFoundError:
        return None
    copies = tuple((source, key) for source, key in fields["copies"])
    return Plan(landing_from_json(fields["landing"]), copies)


def write_plan(blackboard: Blackboard, staging: str, plan: Plan) -> Plan:
    """The plan that holds: this one, or that of another process which landed the same and was faster."""
    fields = {"landing": landing_json(plan.landing), "copies": plan.copies}
    try:
        blackboard.create(f"{staging}{_NAME}", json.dumps(fields, indent=1).encode())
    except AlreadyExistsError:
        return read_plan(blackboard, staging) or plan
    return plan


def complete(blackboard: Blackboard, plan: Plan, *, now: datetime) -> Landing:
    """Carry the plan out; every step of it may have been done before."""
    # A faster process may have completed its own plan, and removed it, before this one was written.
    if (landed := find(blackboard, plan.landing.source, plan.landing.id)) is not None:
        return landed
    in_parallel(lambda copy: _copy(blackboard, *copy), plan.copies)
    landing = replace(plan.landing, landed_at=now)
    with suppress(AlreadyExistsError):
        blackboard.create(ledger_key(landing.source, landing.id), entry_json(landing))
    return landing


def tidy(blackboard: Blackboard, landing: Landing) -> int:
    """Finish a landing that has its entry: note the days it touched, remove quarantine it supersedes, and its staging.

    Superseded raw files stay: a run may be reading them, and records name them. Returns how many files were staged.
    """
    staged = list(keys(blackboard, staging_prefix(landing.source, landing.id)))
    if staged:  # else it is finished
        earlier = landings_of(blackboard, landing.source, landing.digest) if landing.generation > 1 else ()
        # Also the days of those that it supersedes, so that a look at such a day finds out.
        days = landing.touched.union(*(each.touched for each in earlier))
        in_parallel(lambda day: _touch(blackboard, landing, day), sorted(days))
    superseded = [LandingId(landing.digest, generation) for generation in range(1, landing.generation)]
    blackboard.delete(*(quarantine_key(landing.source, each) for each in superseded))
    return clear(blackboard, staging_prefix(landing.source, landing.id))


def clear(blackboard: Blackboard, staging: str) -> int:
    """Remove what is staged, the plan last: while anything is there, so is what it is for. How many files that were."""
    found = list(keys(blackboard, staging))
    plan = f"{staging}{_NAME}"
    blackboard.delete(*(key for key in found if key != plan))
    if plan in found:
        blackboard.delete(plan)
    return len(found)


def sweep_staging(blackboard: Blackboard, source_key: str, *, now: datetime) -> Sweep:
    """Finish what killed landings of a source left behind: complete those with a plan, remove what the others staged.

    Only staging in which nothing was written for `ABANDONED` is touched. A landing that is still at work on it all
    the same fails, and nothing of it counts. One listing, and nothing else where nothing was left.
    """
    prefix = f"{STAGING}{source_key}/"
    newest: dict[str, datetime] = {}
    for entry in list_all(blackboard, prefix):
        staging = prefix + entry.key.removeprefix(prefix).partition("/")[0] + "/"
        newest[staging] = max(entry.modified, newest.get(staging, entry.modified))
    completed: list[Landing] = []
    failures: list[str] = []
    removed = 0
    for staging in (staging for staging, modified in newest.items() if modified < now - ABANDONED):
        plan = read_plan(blackboard, staging)
        if plan is None:
            removed += clear(blackboard, staging)
            continue
        try:
            if find(blackboard, source_key, plan.landing.id) is None:
                completed.append(complete(blackboard, plan, now=now))
        except NotFoundError:
            # Such a plan can never be completed, so it must not stay.
            clear(blackboard, staging)
            failures.append(f"what was staged for {plan.landing.file} was removed; land {plan.landing.file} again")
        except (LandingError, BlackboardError) as error:
            failures.append(str(error))
        else:
            removed += tidy(blackboard, plan.landing)
    return Sweep(tuple(completed), removed, tuple(failures))


def keys(blackboard: Blackboard, prefix: str) -> Iterator[str]:
    """The keys of all objects below a prefix."""
    return (entry.key for entry in list_all(blackboard, prefix))


def in_parallel(do: Callable[[T], None], items: Sequence[T]) -> None:
    """Do this for every item, some at once; raises what the first one to fail raised, after all are done."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for future in [pool.submit(do, item) for item in items]:
            future.result()


def _touch(blackboard: Blackboard, landing: Landing, day: str) -> None:
    with suppress(AlreadyExistsError):
        blackboard.create(touched_key(landing.source, day, landing.id), b"")


def _copy(blackboard: Blackboard, staged: str, key: str) -> None:
    try:
        blackboard.copy(staged, key)
    except AlreadyExistsError:
        # The key of what was sent is a digest of its content, packed or not.
        if key.startswith(SENT):
            return
        there, here = (blackboard.read(name).data for name in (key, staged))
        if there != here:
            message = (
                f"{blackboard.uri(key)} is there with other content than this landing gives it; "
                "delete the files of the earlier landing of the same name, then land the file again"
            )
            raise LandingError(message) from None
