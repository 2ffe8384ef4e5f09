"""Telling people of facts by mail, webhook and log: each channel gets each state of a fact once.

Here: which of the facts are news to a channel, and sending. Not here: what the facts are (the sensors), what a notice
says (`notices`, `feed_events`), and reports on late data, which are followed to the end of a run (`late_reports`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from feed_assets.errors import FeedAssetsError
from feed_assets.file_feed.digest import short_digest
from feed_assets.notices.mail import MailError
from feed_assets.notices.messages import Notice, mail
from feed_assets.notices.tables import Told, keep_seen, keep_told, told
from feed_assets.resources.notifier import Alert, MailResource, Notifier
from feed_assets.sources.mail_address import parsed_address
from feed_assets.state.store import Store

MAIL, NOTIFIER, LOG = "mail", "notifier", "log"
"""The channels: the resources of these names, and the log of the tick."""

Send = Callable[[Notice, tuple[str, ...], str, bytes | None], None]
"""Sends a notice on these assets under a name, which is the same if it is sent again; with a plot, if there is one."""


@dataclass(frozen=True, slots=True)
class News:
    """Facts that one notice tells, each with its state.

    `notice` gets those that are news to a channel, each with the state that the channel knew before, or None.

    With `follows`, the notice goes only to channels that know such a state of the fact, as that a source was silent
    before it came back. `pause` is the least time between two notices of these facts to a channel; what comes
    meanwhile is told after it. Facts of one notice have a common beginning, `topic`.
    """

    topic: str
    facts: Mapping[str, str]
    assets: tuple[str, ...]
    notice: Callable[[Mapping[str, str | None]], Notice]
    follows: Callable[[str], bool] | None = None
    pause: timedelta = timedelta(0)
    plot: Callable[[], bytes | None] = field(default=lambda: None)

    def to_tell(self, known: Mapping[str, Told], now: datetime) -> dict[str, str]:
        """The facts that are news to a channel that knows these."""
        new = {
            fact: state
            for fact, state in self.facts.items()
            if (self._is_news(known[fact].state, state) if fact in known else self.follows is None)
        }
        last = max((each.since for fact, each in known.items() if fact.startswith(self.topic)), default=None)
        return {} if last is not None and last <= now < last + self.pause else new

    def _is_news(self, before: str, state: str) -> bool:
        return state != before and (self.follows is None or self.follows(before))


def channels_of(resources: Any, names: frozenset[str]) -> dict[str, Send]:
    """The function of each channel. `names` are the resources of the code location, as far as it has them."""
    found: dict[str, Send] = {LOG: lambda *_: None}
    if NOTIFIER in names:
        found[NOTIFIER] = partial(_notify, resources.notifier)
    if MAIL in names:
        found[MAIL] = partial(_mail, resources.mail)
    return found


def tell(store: Store, base: str, news: Iterable[News], channels: Mapping[str, Send], *, now: datetime) -> list[str]:
    """Send what is new; returns its sentences, and those of channels that failed, which get it at the next look.

    A fact is noted as told after it was sent: if the tick is killed between both, it is sent again under the same name.
    """
    news, said = list(news), []
    for channel, send in channels.items():
        known = told(store, base, channel)
        for each in news:
            new = each.to_tell(known, now)
            if not new:
                continue
            notice = each.notice({fact: known[fact].state if fact in known else None for fact in new})
            try:
                send(notice, each.assets, _name(base, new, now), None if channel == LOG else each.plot())
            except (FeedAssetsError, MailError) as error:
                said.append(f"{notice.subject}. {channel} was not told: {error}")
                continue
            keep_told(store, base, channel, new, now=now)
            if channel == LOG:
                said.append(" ".join([f"{notice.subject}.", *(line for line in notice.body if isinstance(line, str))]))
    keep_seen(store, base, {fact for each in news if each.follows is None for fact in each.facts}, now=now)
    return said


def _name(base: str, facts: Mapping[str, str], now: datetime) -> str:
    states = " ".join(f"{fact}={state}" for fact, state in sorted(facts.items()))
    return f"told-{short_digest(f'{base} {states} {now:%Y-%m-%d}')}"


def _notify(notifier: Notifier, notice: Notice, assets: tuple[str, ...], name: str, _: bytes | None) -> None:
    notifier.notify(Alert(notice.kind, assets, None, tuple(notice.lines), "", notice.command, name))


def _mail(mailer: MailResource, notice: Notice, _: tuple[str, ...], name: str, plot: bytes | None) -> None:
    to = list(dict.fromkeys([*mailer.recipients, *notice.recipients]))
    if not to:
        return
    made = mail(notice, name, sender=mailer.sender, to=to, at=datetime.now(UTC), plot=plot)
    sent = mailer.server.send(made, [parsed_address(each).addr_spec for each in to])
    if sent.put_off and not sent.taken:
        raise MailError("; ".join(f"{address}: {reason}" for address, reason in sent.put_off.items()))
