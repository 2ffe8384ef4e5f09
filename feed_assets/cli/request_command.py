"""`feed-assets receive request ID`: where the records of a pushed request are; the service says the same.

Not here: following a request (`feed_assets.operations.pushed_requests`), and the answer (`web.request_answers`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from feed_assets.blackboard.listing import list_folders
from feed_assets.blackboard.location import local_directory
from feed_assets.cli.installation import Installation, load_installation
from feed_assets.cli.journal_place import BLACKBOARD, VARIABLES, default_journal
from feed_assets.cli.output import complain, json_option, print_fields, print_json, print_table, print_text, say
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.wording import counted

if TYPE_CHECKING:
    from feed_assets.journal.segments import Segments
    from feed_assets.resources.settings import Settings
    from feed_assets.web.request_answers import RequestSays


def request_says(installation: Installation, request_id: str) -> RequestSays | None:
    """Where the records of a request are; None if nobody knows the request. Raises BlackboardError."""
    import msgspec  # noqa: PLC0415 - loaded for answers only

    from feed_assets.cli.quarantine_command import quarantines_of  # noqa: PLC0415 - only if a request has landed
    from feed_assets.operations.pushed_requests import follow  # noqa: PLC0415 - loads DuckDB
    from feed_assets.receiving.receipts import find_request  # noqa: PLC0415 - loads msgspec
    from feed_assets.web.request_answers import BadSays, RawSays, RequestSays  # noqa: PLC0415 - as above

    board, now = installation.blackboard, installation.settings.clock.now()
    found = find_request(board, request_id)
    if found is None:
        return _waiting(installation.settings, request_id)
    faults: list[FeedError] = []
    story = follow(board, installation.feeds, quarantines_of(installation, faults), found, now=now)
    bad = sorted(story.quarantined, key=lambda each: -1 if each.index is None else each.index)
    return RequestSays(
        request_id=story.request_id,
        state="landed",
        partner=story.partner,
        source=story.source,
        received=story.received,
        accepted=story.accepted,
        rejected=len(story.rejected),
        landed=story.landed,
        file=story.file,
        first_line=story.first_line,
        left_out=story.elsewhere,
        raw=msgspec.convert(story.raw, list[RawSays], from_attributes=True),
        quarantined=msgspec.convert(bad, list[BadSays], from_attributes=True),
        problems=list(map(str, faults)),
    )


def _waiting(settings: Settings, request_id: str) -> RequestSays | None:
    """A request that waits in a journal of this base, or in this directory."""
    from feed_assets.receiving.receipts import find_waiting  # noqa: PLC0415 - rarely needed
    from feed_assets.web.request_answers import RequestSays  # noqa: PLC0415 - as above

    header = next((found for each in _journals(settings) if (found := find_waiting(each, request_id))), None)
    if header is None:
        return None
    counts = (header.accepted, len(header.rejected))
    return RequestSays(request_id, "waiting", header.partner or "", header.source, header.at, *counts)


def _journals(settings: Settings) -> Iterator[Segments]:
    from feed_assets.journal.on_blackboard import BlackboardSegments  # noqa: PLC0415 - rarely needed
    from feed_assets.journal.on_disk import DiskSegments  # noqa: PLC0415 - as above
    from feed_assets.receiving.entries import PREFIX  # noqa: PLC0415 - as above

    yield DiskSegments(_directory(settings))
    board = settings.blackboard.blackboard
    for name in list_folders(board, PREFIX) if local_directory(settings.base) is None else []:
        yield BlackboardSegments(board, f"{PREFIX}{name}/")


def _directory(settings: Settings) -> Path:
    """Where the receiver of this base, or in this directory, has its journal."""
    given = os.environ.get(f"{VARIABLES}_JOURNAL")
    return Path(given).resolve() if given and given != BLACKBOARD else default_journal(settings.base)


def _unknown(settings: Settings, request_id: str) -> str:
    """What to say of a request that is not known."""
    return (
        f"There is no request {request_id!r} below {settings.base}, nor in the journal {_directory(settings)}. Check "
        f"the id. If its receiver has another journal, name it in {VARIABLES}_JOURNAL. Requests that landed before "
        "this version was installed cannot be followed."
    )


@click.command("request")
@click.argument("request_id", metavar="ID")
@json_option
def request(request_id: str, *, as_json: bool) -> None:
    """Show where the records of a request are.

    ID is the `request_id` of its answer. They wait in the journal, or have landed: in raw files, which updates in force
    have read, or in quarantine. The page of sources in `feed-assets serve` says the same.
    """
    import msgspec  # noqa: PLC0415 - loaded for answers only

    installation = load_installation()
    found = request_says(installation, request_id)
    if found is None:
        raise click.ClickException(_unknown(installation.settings, request_id))
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        _show(found)
    for problem in found.problems:
        complain(f"Error: {problem}")


def _show(found: RequestSays) -> None:
    fields: dict[str, object] = {"request": found.request_id, "partner": found.partner or None, "source": found.source}
    fields |= {"received": found.received, "accepted": found.accepted, "rejected": found.rejected}
    if found.state == "waiting":
        print_fields(list(fields.items()))
        print_text("It is durable, and waits in the journal: it lands a minute after it came.")
        return
    fields |= {"landed": found.landed, "file": f"{found.file}, from line {found.first_line} on"}
    print_fields(list(fields.items()))
    rows = [
        (each.day, each.key, each.records, note, reader and reader.feed, reader and (reader.update or "not yet"))
        for each in found.raw
        for note in ["resubmitted" if each.resubmitted else None]
        for reader in each.readers or (None,)
    ]
    if rows:
        click.echo()
    print_table(["day", "raw file", "records", "note", "feed", "read by"], rows, empty="")
    if unread := sorted({each.day for each in found.raw if not all(reader.update for reader in each.readers)}):
        say(f"`feed-assets explain {unread[0]}` says when a day is read that no update has read yet.")
    if found.quarantined:
        click.echo()
        bad = [
            (each.index, each.reason, each.where, each.partition, "resubmitted" if each.resubmitted else None)
            for each in found.quarantined
        ]
        print_table(["index", "in quarantine because", "where", "day", "note"], bad, empty="")
        say(f"`feed-assets quarantine --request {found.request_id}` shows the records in quarantine.")
    if found.left_out:
        say(f"{counted(found.left_out, 'record')} left out by the filter of {found.source}.")
