"""`feed-assets receive request ID`: where the records of a pushed request are.

Here: the command. Not here: following a request (`feed_assets.operations.pushed_requests`).
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from feed_assets.blackboard.listing import list_folders
from feed_assets.blackboard.location import local_directory
from feed_assets.cli.installation import load_installation
from feed_assets.cli.journal_place import BLACKBOARD, VARIABLES, default_journal
from feed_assets.cli.output import complain, json_option, print_fields, print_json, print_table, print_text, say
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.wording import counted

if TYPE_CHECKING:
    from feed_assets.journal.segments import Segments
    from feed_assets.operations.pushed_requests import PushedRequest
    from feed_assets.resources.settings import Settings


@click.command("request")
@click.argument("request_id", metavar="ID")
@json_option
def request(request_id: str, *, as_json: bool) -> None:
    """Show where the records of a request are.

    ID is the `request_id` of its answer. They wait in the journal, or have landed: in raw files, which updates in force
    have read, or in quarantine.
    """
    from feed_assets.operations.pushed_requests import follow  # noqa: PLC0415 - loads DuckDB
    from feed_assets.operations.quarantined import Quarantines  # noqa: PLC0415 - as above
    from feed_assets.receiving.receipts import find_request  # noqa: PLC0415 - loads msgspec

    installation = load_installation()
    board, feeds, now = installation.blackboard, installation.feeds, installation.settings.clock.now()
    found = find_request(board, request_id)
    if found is None:
        _show_waiting(installation.settings, request_id, as_json=as_json)
        return
    faults: list[FeedError] = []
    keys = {node.location: node.raw_sources for node in feeds.feeds.values()}
    quarantines = Quarantines(board, now=now, unreadable=faults.append, keys=keys, sources=installation.sources)
    story = follow(board, feeds, quarantines, found, now=now)
    if as_json:
        print_json(asdict(story) | {"state": "landed", "left_out_by_filter": story.elsewhere})
    else:
        _show_request(story)
    for fault in faults:
        complain(f"Error: {fault}")


def _show_waiting(settings: Settings, request_id: str, *, as_json: bool) -> None:
    """Show a request that waits in a journal of this base, or in this directory. Raises ClickException."""
    from feed_assets.journal.on_blackboard import BlackboardSegments  # noqa: PLC0415 - rarely needed
    from feed_assets.journal.on_disk import DiskSegments  # noqa: PLC0415 - as above
    from feed_assets.receiving.entries import PREFIX  # noqa: PLC0415 - as above
    from feed_assets.receiving.receipts import find_waiting  # noqa: PLC0415 - as above

    board = settings.blackboard.blackboard
    names = list_folders(board, PREFIX) if local_directory(settings.base) is None else []
    given = os.environ.get(f"{VARIABLES}_JOURNAL")
    directory = Path(given).resolve() if given and given != BLACKBOARD else default_journal(settings.base)
    journals: list[Segments] = [DiskSegments(directory)]
    journals += [BlackboardSegments(board, f"{PREFIX}{name}/") for name in names]
    header = next((found for each in journals if (found := find_waiting(each, request_id))), None)
    if header is None:
        raise click.ClickException(
            f"There is no request {request_id!r} below {settings.base}, nor in the journal {directory}. Check the id. "
            f"If its receiver has another journal, name it in {VARIABLES}_JOURNAL. Requests that landed before this "
            "version was installed cannot be followed."
        )
    fields: dict[str, object] = {"request_id": request_id, "partner": header.partner or "", "source": header.source}
    fields |= {"received": header.at, "accepted": header.accepted, "rejected": header.rejected}
    if as_json:
        print_json(fields | {"state": "waiting"})
        return
    print_fields([(name, value) for name, value in fields.items() if name != "rejected"])
    print_text("It is durable, and waits in the journal: it lands a minute after it came.")


def _show_request(story: PushedRequest) -> None:
    fields: dict[str, object] = {"request": story.request_id, "partner": story.partner or None, "source": story.source}
    fields |= {"received": story.received, "accepted": story.accepted, "rejected": len(story.rejected)}
    fields |= {"landed": story.landed, "file": f"{story.file}, from line {story.first_line} on"}
    print_fields(list(fields.items()))
    rows = [
        (each.day, each.key, each.records, note, reader and reader.feed, reader and (reader.update or "not yet"))
        for each in story.raw
        for note in ["resubmitted" if each.resubmitted else None]
        for reader in each.readers or (None,)
    ]
    if rows:
        click.echo()
    print_table(["day", "raw file", "records", "note", "feed", "read by"], rows, empty="")
    if unread := sorted({each.day for each in story.raw if not all(reader.update for reader in each.readers)}):
        say(f"`feed-assets explain {unread[0]}` says when a day is read that no update has read yet.")
    if story.quarantined:
        click.echo()
        bad = [
            (each.index, each.reason, each.where, each.partition, "resubmitted" if each.resubmitted else None)
            for each in story.quarantined
        ]
        print_table(["index", "in quarantine because", "where", "day", "note"], bad, empty="")
    if story.elsewhere:
        say(f"{counted(story.elsewhere, 'record')} left out by the filter of {story.source}.")
