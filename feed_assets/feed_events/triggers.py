"""Writes and reads the trigger of an asset in its Dagster metadata. Not here: what a trigger means (`dependencies`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any, Final

import dagster as dg

from feed_assets.dependencies.trigger import SETTLE, Trigger, TriggerError
from feed_assets.feed_events.declarations import plain
from feed_assets.file_feed.digest import short_digest

TRIGGER: Final = "feed/trigger"
STARTS: Final = "starts"
"""The name of the sensor that starts assets with a trigger."""
BACKFILL_TAG: Final = "feed_assets/backfill"
"""Tag on each run of `feed-assets backfill`: all partitions of the backfill, `first/last`; Dagster knows only runs."""
REVISIONS_TAG: Final = "feed_assets/revisions"
"""Tag on each run that the gate started, and on no other: the revision of each slot that decided, as JSON."""


def trigger(
    *,
    quality: str | None = None,
    on_rerun: str = "rerun",
    settle: timedelta = SETTLE,
    since: date | str | None = None,
) -> dict[str, Any]:
    """Metadata by which an asset starts when its inputs are complete and good, and says why it does not start yet.

    The asset is a feed: `metadata={**feed_metadata(...), **trigger()}`. Its inputs are those of the asset, with their
    partition mappings. The gate alone decides on it: the sensors `late_growth` and `new_manifests` leave it out.

    `quality` is what the flow takes: `passed` (the checks of the input passed), `not_bad` (no mark says that it is
    bad), `any`; by default `passed` for inputs that are audited, else `not_bad`. `on_rerun` is what happens when an
    input is reopened after the flow used it: `rerun` runs again once nothing was reopened for `settle`; `ignore` keeps
    the result. Partitions before the date `since` start by a backfill only.

    Raises DagsterInvalidDefinitionError for another value.
    """
    try:
        made = Trigger.of(quality=quality, on_rerun=on_rerun, settle=settle, since=since)
    except TriggerError as error:
        raise dg.DagsterInvalidDefinitionError(f"trigger(): {error}") from None
    return {TRIGGER: made.to_plain()}


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
    return f"feed_assets/attempt_{short}"
