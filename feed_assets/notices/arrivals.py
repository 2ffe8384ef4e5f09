"""The notices on what partners send: a silence and its end, records that cannot be used, and changed columns.

Not here: whether there is one (`arrivals`, `receiving.status`), and when a notice is sent (`sensors.arrivals`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

from feed_assets.file_feed.wording import counted, listed
from feed_assets.notices.messages import Notice, Table

SILENT: Final = "silent"
BACK: Final = "back"
COLUMNS: Final = "columns"
UNUSABLE: Final = "unusable"
SHOWN: Final = 6
"""Columns of the table of a notice."""
DAYS: Final = 14
"""Rows of the table of a notice."""


def _command(source: str) -> str:
    return f"feed-assets sources status {source}"


def silent_notice(source: str, sentence: str, recipients: tuple[str, ...]) -> Notice:
    """A source is silent."""
    body = (
        f"{source}: {sentence}",
        (
            "Ask the partner, and look whether landing runs: the receiver, the poll, or what calls `feed-assets land`. "
            "You get one more message when the source is back."
        ),
    )
    return Notice(f"{source} is silent", body, recipients, SILENT, _command(source))


def less_notice(source: str, sentence: str, recipients: tuple[str, ...]) -> Notice:
    """A source sends far less than usual."""
    body = (f"{source}: {sentence}", "Records that cannot be used are in quarantine: `feed-assets quarantine`.")
    return Notice(f"{source} sends far less than usual", body, recipients, SILENT, _command(source))


def back_notice(source: str, since: str, landings: int, records: int, recipients: tuple[str, ...]) -> Notice:
    """A source is back; with what has landed since."""
    came = f"{counted(landings, 'landing')} with {counted(records, 'record')}"
    return Notice(
        f"{source} is back", (f"{source} is back. Since {since}: {came}.",), recipients, BACK, _command(source)
    )


def usual_notice(source: str, sentence: str, recipients: tuple[str, ...]) -> Notice:
    """A source sends as much as usual again."""
    body = (f"{source} sends about as much as usual again. {sentence}",)
    return Notice(f"{source} sends as usual again", body, recipients, BACK, _command(source))


def landing_notice(sources: Sequence[str], since: str) -> Notice:
    """All sources are silent at once."""
    body = (
        (
            f"Nothing has landed of any source since {since}. Several partners are rarely silent at once: look first "
            "whether landing runs: the receiver, polls, and what calls `feed-assets land`."
        ),
        f"Silent: {', '.join(sources)}.",
    )
    return Notice("Nothing lands of any source", body, (), SILENT, "feed-assets doctor")


def landing_again_notice(sources: Sequence[str]) -> Notice:
    """Something lands again after all sources were silent."""
    return Notice("Sources land again", (f"Landing goes on: {', '.join(sources)}.",), (), BACK, "feed-assets doctor")


def unusable_notice(source: str, sentence: str, recipients: tuple[str, ...]) -> Notice:
    """Many records of a partner of a source cannot be used."""
    body = (
        f"{source}: {sentence}",
        (
            "The partner reads the same counts at GET /v1/status. The records are in quarantine, those that were "
            "refused too: `feed-assets quarantine` shows them, and `feed-assets quarantine resubmit` lands "
            "corrected ones."
        ),
    )
    return Notice(f"Many records of {source} cannot be used", body, recipients, UNUSABLE, _command(source))


def usable_notice(source: str, sentence: str, recipients: tuple[str, ...]) -> Notice:
    """Records of a partner of a source can be used again."""
    body = (f"Most records of {source} can be used again. {sentence}",)
    return Notice(f"Records of {source} can be used again", body, recipients, BACK, _command(source))


def columns_notice(
    source: str,
    new: Sequence[str],
    gone: Sequence[str],
    days: Mapping[date, Mapping[str, int]],
    recipients: tuple[str, ...],
) -> Notice:
    """Columns have changed. The names can be shown. `days` has the records with each new name by day of arrival."""
    body: list[str | Table] = []
    if new:
        body.append(
            f"{source} sends {counted(len(new), 'column')} that its description does not name: {listed(new)}. They "
            "are kept in the sent files, and nobody reads them. To read them, name them in the description, and land "
            f"the files again: `feed-assets land --again {source}`."
        )
        names = new[:SHOWN]
        rows = [[str(day), *(f"{days[day].get(name, 0):,}" for name in names)] for day in sorted(days)[-DAYS:]]
        body.append(Table(["records by day", *names], rows))
    if gone:
        body.append(
            f"{source} sends no values any more of {listed(gone)}. If the partner renamed a column, correct the "
            f"description, and land the files again: `feed-assets land --again {source}`."
        )
    what = [*(f"new {name}" for name in new), *(f"gone {name}" for name in gone)]
    subject = f"Columns of {source} have changed: {listed(what, 3)}"
    return Notice(subject, tuple(body), recipients, COLUMNS, _command(source))
