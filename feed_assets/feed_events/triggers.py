"""Writes and reads the trigger of an asset in its Dagster metadata. Not here: what a trigger means (`dependencies`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final

import dagster as dg

from feed_assets.dependencies.errors import TriggerError
from feed_assets.dependencies.gate.extra_inputs import ExtraInput
from feed_assets.dependencies.gate.trigger import SETTLE, Trigger
from feed_assets.feed_events.declarations import plain
from feed_assets.file_feed.digest import short_digest
from feed_assets.partitions.cron import CronError, check_cron

TRIGGER: Final = "feed/trigger"
_ATTEMPT: Final = "feed_assets/attempt_"
STARTS: Final = "starts"
"""The name of the sensor that starts assets with a trigger."""
BACKFILL_TAG: Final = "feed_assets/backfill"
"""Tag on each run of `feed-assets backfill`: all partitions of the backfill, `first/last`; Dagster knows only runs."""
DAGSTERS_BACKFILL_TAG: Final = "dagster/backfill"
"""Tag on each run of a backfill that Dagster itself runs, as from the UI."""
BACKFILL_ID_TAG: Final = "feed_assets/backfill_id"
"""Tag on each run of `feed-assets backfill`: the same for all runs of one command."""
GOES_ON_TAG: Final = "feed_assets/backfill_goes_on"
"""Tag on each run of `feed-assets backfill`: `true`, or on the last one `false`."""
REVISIONS_TAG: Final = "feed_assets/revisions"
"""Tag on each run that the gate started, and on no other: the revision of each slot that decided, as JSON."""

REOPENED_TAG: Final = "feed_assets/reopened"
"""Tag on each run that the gate started for inputs that somebody reopened: a digest of these."""


def trigger(
    *,
    quality: str | None = None,
    on_rerun: str = "rerun",
    settle: timedelta | str = SETTLE,
    since: date | str | None = None,
    also: Sequence[ExtraInput] = (),
    complete: str | int = "all",
    previous: bool = False,
    not_before: str | None = None,
    timezone: str = "UTC",
    at_most: timedelta | str | None = None,
    then: str | None = None,
    catch_up: str = "all",
    at_once: int | None = None,
) -> dict[str, Any]:
    """Metadata by which an asset starts when its inputs are complete and good, and says why it does not start yet.

    The asset is a feed: `metadata={**feed_metadata(...), **trigger()}`. Its inputs are those of the asset, with their
    partition mappings. The gate alone decides on it: the sensors `late_growth` and `new_manifests` leave it out.

    - `quality` is what the flow takes: `passed` (the checks of the input passed), `not_bad` (no mark says that it is
      bad), `any`; by default `passed` for inputs that are audited, else `not_bad`.
    - `on_rerun` is what happens when an input is reopened after the flow used it: `rerun` runs again once nothing was
      reopened for `settle`; `ignore` keeps the result; `ask` waits for the answer of a person.
    - Partitions before the date `since` start by a backfill only.
    - `also` are inputs that the asset does not read, but waits for: a list of `needs(...)`.
    - `complete` is how many inputs have to be complete: `all`, `any`, or a number. Optional inputs count in a number.
    - With `previous`, a partition waits until the one before it is published, waived or given up.
    - `not_before` is a cron expression in `timezone`: a partition starts at its first tick after the partition's end.
    - `at_most`, such as `6h`, is how long a partition waits for its inputs after its end, or after that tick. `then` is
      what happens then: `fail` or `skip` give it up, `run` starts it with the inputs that are complete.
    - After a pause, `catch_up` starts `all` partitions that are due, or only the `latest`. At most `at_once` run at a
      time.

    Raises DagsterInvalidDefinitionError for another value.
    """
    try:
        if not_before:
            check_cron(not_before)
        made = Trigger.of(
            quality=quality,
            on_rerun=on_rerun,
            settle=settle,
            since=since,
            also=also,
            complete=complete,
            previous=previous,
            not_before=not_before,
            timezone=timezone,
            at_most=at_most,
            then=then,
            catch_up=catch_up,
            at_once=at_once,
        )
    except CronError as error:
        raise dg.DagsterInvalidDefinitionError(f"trigger(): not_before: {error}") from None
    except TriggerError as error:
        raise dg.DagsterInvalidDefinitionError(f"trigger(): {error}") from None
    return {TRIGGER: made.to_plain()}


def needs(
    dataset: str,
    *,
    grain: str | None = None,
    shift: str | None = None,
    last: int | None = None,
    latest: timedelta | str | None = None,
    quality: str | None = None,
) -> ExtraInput:
    """An input that the gate waits for, for `trigger(also=[...])`. The asset need not read it.

    `dataset` is the location of a feed, such as `clean-clicks/v1.0`, or the raw data of a kind, such as `raw/ads`.
    Without more, the flow waits for the slot of its own time: of the same length, or the longer one that contains it.

    - `grain` names other slots, such as each `hour` of a day.
    - `shift` moves the slot, such as `-1h` or `-7d`.
    - `last` is how many slots it waits for, of which this one is the last.
    - `latest` waits for the newest complete slot, which is at most so old when the flow's slot ends, such as `2d`.
    - `quality` is what the flow takes of this input, as in `trigger`.

    Raises DagsterInvalidDefinitionError for another value.
    """
    try:
        return ExtraInput.of(dataset, grain=grain, shift=shift, last=last, latest=latest, quality=quality)
    except TriggerError as error:
        raise dg.DagsterInvalidDefinitionError(str(error)) from None


def has_trigger(metadata: Mapping[str, Any]) -> bool:
    """Whether this asset metadata declares a trigger."""
    return plain(metadata.get(TRIGGER)) is not None


def declared_trigger(metadata: Mapping[str, Any]) -> Trigger | None:
    """The trigger that this asset metadata declares; None if it has none."""
    found = plain(metadata.get(TRIGGER))
    return None if found is None else Trigger.from_plain(found)


def attempt_tag(flow: str) -> str:
    """The tag of a run with the key of its attempt at a partition of a flow: a query by it finds only this run.

    Dagster allows few characters in a tag's name. A digest keeps flows apart whose names differ only in others.
    """
    short = re.sub("[^A-Za-z0-9_.-]", "_", flow)[:50]
    if short != flow:
        short = f"{short[:41]}_{short_digest(flow)[:8]}"
    return f"{_ATTEMPT}{short}"


def attempts_of(tags: Mapping[str, str]) -> list[str]:
    """The keys of the attempts that a run with these tags is for."""
    return [value for name, value in tags.items() if name.startswith(_ATTEMPT)]
