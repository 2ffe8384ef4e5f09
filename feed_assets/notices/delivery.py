"""Deliver the messages about a report, each once to each channel.

A message is claimed in the state database, then sent, then recorded as sent. While a claim lasts, no other process
sends the message; a claim ends after two minutes. So a message is never lost. It is sent twice only if its sender dies,
or loses the database, after the receiver took it and before that was recorded, within milliseconds. The second time it
has the same Message-ID (mail) or `id` (webhook), so receivers that compare them show it once.
If the state database is lost, so are the reports that it held, and nothing is sent twice.

Here: claims, and what happens to a message that is not taken. Not here: the messages, and the channels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from feed_assets.notices.messages import DETECTED, ENDED
from feed_assets.notices.tables import (
    Message,
    Report,
    attempts_at,
    claim_message,
    close_report,
    messages_of,
    postpone_message,
    record_sent,
)
from feed_assets.starts.attempts import LOG
from feed_assets.state.store import Store

SUPERSEDED = "superseded"
"""The outcome of a request that never became a run, as another one took its place. Nobody gets a message."""
GONE_BACK = "gone back"
"""The outcome of a request that never became a run, as the raw data changed so that none is needed."""
FEED = "feed"
"""The channel that keeps a report."""
MOST_ATTEMPTS = 125
"""Attempts at a message until it is given up: five days. The report is kept all the same, however long that takes."""

Send = Callable[[Report, str, str], str]
"""Sends the message of a report under a name; returns a remark for the log, or "". Raises NotTakenError."""


class NotTakenError(Exception):
    """A channel did not take a message; the text says why, without secrets."""


def due_messages(report: Report) -> list[str]:
    """The messages about a report so far. For a repeated request, only the message about its end."""
    first = report.request["tries"] == 1
    ended = report.result is not None and report.result["outcome"] != SUPERSEDED
    return [*([DETECTED] if first else []), *([ENDED] if ended else [])]


def put_off(store: Store, message: Message, *, at: datetime) -> datetime | None:
    """Note that a channel did not take a message, claimed or not. Returns when it may be sent again; None if never."""
    with store.writing(LOG) as transaction:
        claim_message(transaction, message, at=at)
        if attempts_at(transaction, message) < MOST_ATTEMPTS or message.channel == FEED:
            return postpone_message(transaction, message, at=at)
        record_sent(transaction, message, at=at)
        return None


def end(store: Store, message: Message, *, at: datetime) -> None:
    """Note that a channel never takes a message, claimed or not: it is not sent again."""
    with store.writing(LOG) as transaction:
        claim_message(transaction, message, at=at)
        record_sent(transaction, message, at=at)


def deliver(store: Store, report: Report, channels: Mapping[str, Send]) -> list[str]:
    """Send all due messages that were not sent yet. Close the report if it has a result and all its messages are sent.

    `channels` has `FEED`, which takes only reports that have ended. A channel of one recipient, such as
    `mail:all@example.com`, gets only messages deferred for that recipient. Any error of a channel counts as
    NotTakenError. Returns remarks for the log, each with the day of the report; of other errors only the type, as their
    text may hold secrets.
    """
    remarks: list[str] = []
    wanted = {
        (message, channel)
        for message in due_messages(report)
        for channel in channels
        if channel != FEED and ":" not in channel
    }
    if report.result is not None:
        wanted.add((ENDED, FEED))
    known = messages_of(store, report)
    wanted |= {(message, channel) for message, channel in known if channel in channels}
    open_ = [each for each in wanted if not known.get(each)]
    for name, channel in sorted(open_, key=lambda each: (each[0] != DETECTED, each[1] != FEED, each)):
        message = Message(report.id, name, channel)
        with store.writing(LOG) as transaction:
            claimed = claim_message(transaction, message, at=datetime.now(UTC))
        if not claimed:
            continue
        try:
            remark = channels[channel](report, name, message.name)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other messages are sent
            again = put_off(store, message, at=datetime.now(UTC))
            why = str(error) if isinstance(error, NotTakenError) else f"{channel} raised {type(error).__name__}."
            what_next = f"It is sent again after {again:%H:%M:%S} UTC." if again else "It is given up after five days."
            remarks.append(f"{report.day}: {message.name} was not taken: {why} {what_next}")
            continue
        with store.writing(LOG) as transaction:
            record_sent(transaction, message, at=datetime.now(UTC))
        remarks.append(f"{report.day}: {remark or f'{message.name} sent ({channel})'}")
    if report.result is not None and not _has_unsent(store, report, channels):
        with store.writing(LOG) as transaction:
            close_report(transaction, report, at=datetime.now(UTC))
    return remarks


def _has_unsent(store: Store, report: Report, channels: Mapping[str, Send]) -> bool:
    """Whether a message is left for one of these channels, or for one of their recipients."""
    messages = messages_of(store, report)
    return any(not sent for (_, channel), sent in messages.items() if channel.partition(":")[0] in channels)
