"""Waiting for the audit of an update that another run has staged and a reader needs.

Dagster counts a partition as materialized when its update is staged, and a backfill starts what reads it at once. The
update is published by the audit after that, which takes longer where there is a lot to check, or much to do beside it.
A reader that does not wait finds no valid update, or in a backfill of old days the one before.

Here: the wait of a reader. Not here: reading (`steps`), and the audit (`checks`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import islice
from typing import Final, TypeVar

import dagster as dg

from feed_assets.feed_events.triggers import DAGSTERS_BACKFILL_TAG
from feed_assets.file_feed.control import read_record, readable_record, record_keys
from feed_assets.file_feed.errors import NoValidUpdateError
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.record import Record

Read = TypeVar("Read")

LONGEST: Final = timedelta(minutes=10)
"""How long a reader waits for all audits. Its process holds a slot, and an audit may be waiting for one."""
EVERY: Final = timedelta(seconds=1)
LOOKED_AT: Final = 20
"""How many of the newest records are searched for an update that waits for its audit."""


def once_audited(
    read: Callable[[], Read],
    feed: Feed,
    partitions: Sequence[str | None],
    instance: dg.DagsterInstance,
    run: dg.DagsterRun,
    log: logging.Logger,
) -> Read:
    """What `read` returns of these partitions, after the audits that others have under way, if that matters.

    In a run of a backfill of Dagster's, it waits first, as an older update may be in force. Elsewhere it reads at once,
    and again after the wait if that raises NoValidUpdateError.
    """

    def wait() -> None:
        end = time.monotonic() + LONGEST.total_seconds()
        for partition in partitions:
            left = timedelta(seconds=max(0.0, end - time.monotonic()))
            wait_for_audit(feed, partition, instance, run.run_id, log, longest=left)

    if DAGSTERS_BACKFILL_TAG in run.tags:
        wait()
    try:
        return read()
    except NoValidUpdateError:
        wait()
    # Also if there was nothing to wait for: an update may have been published between the read and that look.
    return read()


def wait_for_audit(
    feed: Feed,
    partition: str | None,
    instance: dg.DagsterInstance,
    own_run: str,
    log: logging.Logger,
    *,
    longest: timedelta,
    every: timedelta = EVERY,
) -> None:
    """Wait until the audit of the newest update that another run has staged ends, or the run does, or for `longest`.

    Returns at once if no live run of this instance has staged one since the last one was published. A listing and
    mostly one GET; then both again in each pause of `every`.
    """
    record = _under_way(feed, partition, instance, own_run)
    if record is None:
        return
    title, name, run = f"{feed.location} {partition or ''}".strip(), record.update, record.facts.run_id
    log.info(f"{title}: update {name} waits for its audit in run {run}, and this step for that.")
    end = time.monotonic() + longest.total_seconds()
    while _waits(read_record(feed, partition, name)) and _lives(instance, run):
        if time.monotonic() >= end:
            log.warning(f"{title}: the audit of update {name} has not ended. This step goes on without it.")
            return
        time.sleep(every.total_seconds())


def _under_way(feed: Feed, partition: str | None, instance: dg.DagsterInstance, own: str) -> Record | None:
    """The record of the newest update that a live run has staged, if none was published since."""
    for key in islice(record_keys(feed, partition).values(), LOOKED_AT):
        record = readable_record(feed, key)
        if record is None:
            continue
        if record.state == "published":
            return None
        if _waits(record) and record.facts.run_id != own and _lives(instance, record.facts.run_id):
            return record
    return None


def _waits(record: Record | None) -> bool:
    return record is not None and record.state in {"staged", "publishing"}


def _lives(instance: dg.DagsterInstance, run_id: str) -> bool:
    run = instance.get_run_by_id(run_id) if run_id else None
    return run is not None and not run.is_finished
