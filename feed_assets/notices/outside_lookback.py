"""The notice on raw data that no sensor processes: what waits of a source, and the commands that process it.

Not here: which days these are (`late_data.outside_lookback`), and when it is sent (`sensors.outside_lookback`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from feed_assets.file_feed.wording import counted
from feed_assets.notices.messages import Notice, Table

KIND: Final = "outside the lookback"
SHOWN: Final = 20
"""Days and commands that a notice names."""


def topic_of(source: str) -> str:
    """The beginning of the facts on the days of a source; the day follows."""
    return f"outside {source} "


@dataclass(frozen=True, slots=True)
class WaitingDay:
    """A day with data that waits; `command` processes it, with other days. None: the day is before the first partition.

    `records` is None if only the `bytes` are known.
    """

    day: str
    records: int | None
    bytes: int
    command: str | None


def outside_notice(
    source: str, lookback_days: int, days: Sequence[WaitingDay], *, recipients: tuple[str, ...], by_itself: int
) -> Notice:
    """The notice on the days of a source, oldest first. `by_itself`: so many at a time are processed without it."""
    total = amount([each.records for each in days], sum(each.bytes for each in days))
    early = [each for each in days if each.command is None]
    commands = list(dict.fromkeys(each.command for each in days if each.command))
    body: list[str | Table] = [
        (
            f"{source} has {total} of {counted(len(days), 'day')} that no sensor processes: outside its lookback of "
            f"{counted(lookback_days, 'day')}{', or before the first partition' if early else ''}. Readers keep what "
            "they have of these days."
        ),
        Table(["day", "waits"], [[each.day, amount([each.records], each.bytes)] for each in days[:SHOWN]]),
    ]
    if len(days) > SHOWN:
        body.append(f"And {counted(len(days) - SHOWN, 'day')} more, up to {days[-1].day}.")
    if commands and by_itself:
        body.append(
            f"`process_any_day: {by_itself}`: these days are processed by themselves, the newest first, at most "
            f"{counted(by_itself, 'day')} at a time."
        )
    elif commands:
        body += ["To process them:", *commands[:SHOWN]]
        if len(commands) > SHOWN:
            body.append(f"And {counted(len(commands) - SHOWN, 'command')} more: `feed-assets explain` shows all.")
    if early:
        body += before_first(early[0].day, early[-1].day)
    return Notice(
        f"Data outside the lookback: {source}, {total} of {counted(len(days), 'day')}",
        tuple(body),
        recipients,
        KIND,
        "feed-assets explain",
    )


def before_first(first: str, last: str) -> list[str]:
    """How days before the first partition are processed."""
    days = first if first == last else f"{first} to {last}"
    return [
        (
            f"{days}: before the first partition. To process them, set FEED_ASSETS_FIRST_DAY={first} wherever the "
            f"project runs, restart it, and run `feed-assets backfill --from {first} --to {last}`."
        )
    ]


def amount(records: Sequence[int | None], size: int) -> str:
    """The number of records if all are known, or else the bytes."""
    known = [each for each in records if each is not None]
    return counted(sum(known), "record") if len(known) == len(records) else f"{size:,} bytes"
