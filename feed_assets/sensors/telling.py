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
"""The channels: the resources of these names, and the log of the tick. Each recipient of mail has a channel."""

Send = Callable[[Notice, tuple[str, ...], str, bytes | None], str]
"""Sends a notice on these assets under a name, which is the same if it is sent again; with a plot, if there is one.

Returns a remark for the log, or "".
"""


@dataclass(frozen=True, slots=True)
class News:
    """Facts that one notice tells, each with its state.

    `notice` gets those that are news to a channel, each with the state that the channel knew before, or None.

    With `follows`, the notice goes only to channels that know such a state of the fact, as that a source was silent
    before it came back. `pause` is the least time between two notices of these facts to a channel; what comes
    meanwhile is told after it. Facts of one notice have a common beginning, `topic`. `recipients` get mail on these
    facts besides those who get all mail.
    """

    topic: str
    facts: Mapping[str, str]
    assets: tuple[str, ...]
    notice: Callable[[Mapping[str, str | None]], Notice]
    follows: Callable[[str], bool] | None = None
    pause: timedelta = timedelta(0)
    plot: Callable[[], bytes | None] = field(default=lambda: None)
    recipients: tuple[str, ...] = ()

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


@dataclass(frozen=True, slots=True)
class Channel:
    """A way to tell people. `gets` says of which news; of all by default."""

    send: Send
    gets: Callable[[News], bool] = field(default=lambda _: True)


def channels_of(resources: Any, names: frozenset[str], news: Iterable[News]) -> dict[str, Channel]:
    """The channels for these news. `names` are the resources of the code location, as far as it has them.

    Each recipient of mail is a channel: the server may put off one of them.
    """
    found = {LOG: Channel(lambda *_: "")}
    if NOTIFIER in names:
        found[NOTIFIER] = Channel(partial(_notify, resources.notifier))
    if MAIL in names:
        of_all = {parsed_address(each).addr_spec: each for each in resources.mail.recipients}
        more = {parsed_address(each).addr_spec: each for one in news for each in one.recipients}
        for address, to in more.items():
            found[f"{MAIL}:{address}"] = Channel(partial(_mail, resources.mail, to), partial(_is_for, to))
        for address, to in of_all.items():
            found[f"{MAIL}:{address}"] = Channel(partial(_mail, resources.mail, to))
    return found


def tell(store: Store, base: str, news: Iterable[News], channels: Mapping[str, Channel], *, now: datetime) -> list[str]:
    """Send what is new; returns its sentences, and those of channels that failed, which get it at the next look.

    A fact is noted as told after it was sent: if the tick is killed between both, it is sent again under the same name.
    """
    news, said = list(news), []
    for name, channel in channels.items():
        known = told(store, base, name)
        for each in filter(channel.gets, news):
            new = each.to_tell(known, now)
            if not new:
                continue
            before = {fact: known.get(fact) for fact in new}
            notice = each.notice({fact: one.state if one else None for fact, one in before.items()})
            try:
                plot = None if name == LOG else each.plot()
                remark = channel.send(notice, each.assets, _name(base, new, before, now), plot)
            except (FeedAssetsError, MailError) as error:
                said.append(f"{notice.subject}. {name} was not told: {error}")
                continue
            keep_told(store, base, name, new, now=now)
            if name == LOG:
                said.append(_in_log(notice))
            elif remark:
                said.append(f"{notice.subject}. {remark}")
    keep_seen(store, base, {fact for each in news if each.follows is None for fact in each.facts}, now=now)
    return said


def _in_log(notice: Notice) -> str:
    """The sentences of a notice; its subject once."""
    lines = [line for line in notice.body if isinstance(line, str)]
    own = [] if lines and lines[0].startswith(notice.subject) else [f"{notice.subject}."]
    return " ".join([*own, *lines])


def _is_for(recipient: str, news: News) -> bool:
    return recipient in news.recipients


def _name(base: str, facts: Mapping[str, str], before: Mapping[str, Told | None], now: datetime) -> str:
    """The same if it is sent again, and another for the same states after other ones, as of each end of a silence."""
    known = {fact: f"{one.state} since {one.since}" if one else "" for fact, one in before.items()}
    changes = " ".join(f"{fact}={state} after {known[fact]}" for fact, state in sorted(facts.items()))
    return f"told-{short_digest(f'{base} {changes} {now:%Y-%m-%d}')}"


def _notify(notifier: Notifier, notice: Notice, assets: tuple[str, ...], name: str, _: bytes | None) -> str:
    notifier.notify(Alert(notice.kind, assets, None, tuple(notice.lines), "", notice.command, name))
    return ""


def _mail(mailer: MailResource, to: str, notice: Notice, _: tuple[str, ...], name: str, plot: bytes | None) -> str:
    made = mail(notice, name, sender=mailer.sender, to=[to], at=datetime.now(UTC), plot=plot)
    sent = mailer.server.send(made, [parsed_address(to).addr_spec])
    if sent.put_off:
        raise MailError(f"the server puts it off: {'; '.join(sent.put_off.values())}.")
    return "".join(f"{address} gets no mail, the server refuses it: {why}." for address, why in sent.refused.items())
