"""Check what a destination needs: its stream answers, with permissions and open shards, and so does its store.

Here: these checks, which read only: a file that does not exist yet is not made, and nothing is put. Not here: the other
checks (`doctor`), and whether a destination fits its feed, which loading the project checks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from feed_assets.delivery.destination import Destination, load_destinations
from feed_assets.delivery.lookups import store_of
from feed_assets.delivery.sending import LOCAL_STREAMS
from feed_assets.delivery.stores.address import EMBEDDED, FILE
from feed_assets.delivery.streams.address import open_stream, require_stream
from feed_assets.file_feed.wording import counted
from feed_assets.operations.doctor import Finding, checked
from feed_assets.resources.settings import Settings

NOT_YET = "does not exist yet"


def examine_deliveries(settings: Settings) -> Iterator[tuple[str, Finding]]:
    """The name and the finding of each check of each destination, or of their directory if one cannot be read."""
    found: list[Destination] = []

    def load() -> Finding:
        found.extend(load_destinations(settings.deliveries_directory))
        names = ", ".join(each.name for each in found)
        return Finding("ok", f"{counted(len(found), 'destination')} in {settings.deliveries_directory}: {names}")

    if not any(settings.deliveries_directory.glob("*.yaml")):
        return
    yield "deliveries", checked(load)
    for each in found:
        yield f"{each.name}: stream", checked(lambda to=each: _stream(to, settings.local_state))  # type: ignore[misc] # bound here
        if each.store:
            yield f"{each.name}: store", checked(lambda to=each: _store(to, settings.local_state))  # type: ignore[misc] # as above


def _stream(to: Destination, folder: Path) -> Finding:
    kind, place, _ = require_stream(to.stream)
    if kind == "local" and not (file := folder / LOCAL_STREAMS / f"{place}.db").exists():
        return Finding("warning", f"{file} {NOT_YET}.", "The first delivery creates it.")
    with open_stream(to.stream, folder / LOCAL_STREAMS) as stream:
        stream.limits()
        shards = stream.shards()
    rate = f"{len(shards) * to.records_a_second:,} records a second"
    found = f"{to.stream_address} answers: {counted(len(shards), 'open shard')}, {rate}"
    return Finding("ok", found if kind == "local" else f"{found}; whether records may be put was not tried")


def _store(to: Destination, folder: Path) -> Finding:
    if to.store == EMBEDDED and not (folder / FILE).exists():
        return Finding("warning", f"{folder / FILE} {NOT_YET}.", "The first consumer creates it.")
    with store_of(to, folder) as store:
        store.get_many(to.store_space, [""], now=time.time())
        return Finding("ok", f"{store.title} answers")
