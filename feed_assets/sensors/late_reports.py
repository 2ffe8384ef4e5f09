"""The sensor for reports: it waits for the runs that late data caused, sends reports on them, and keeps these.

Here: the channels. Not here: which day is late (`late_growth`), the end of a run (`run_results`), texts and delivery
(`notices`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import dagster as dg

from feed_assets.assets.late_data_reports import kept_event
from feed_assets.blackboard.port import Blackboard, BlackboardError
from feed_assets.file_feed.errors import FeedError
from feed_assets.notices.delivery import FEED, NotTakenError, Send, deliver, end, put_off
from feed_assets.notices.keeping import keep, kept_reports
from feed_assets.notices.mail import MailError, Sent
from feed_assets.notices.messages import ENDED, mail, notice_of
from feed_assets.notices.tables import Message, Report, messages_of, open_reports
from feed_assets.resources.notifier import Alert, AlertNotSentError, MailResource, Notifier
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.run_results import RunResults
from feed_assets.sensors.ticks import TICK_SECONDS
from feed_assets.sources.mail_address import parsed_address
from feed_assets.sources.spec import Source
from feed_assets.state.store import Store

NAME = "late_reports"
MAIL, NOTIFIER = "mail", "notifier"


def late_reports(sources: Sequence[Source], *, channels: frozenset[str], interval_seconds: int) -> dg.SensorDefinition:
    """Reports each run that `late_growth` requested for data of these sources that came late.

    `channels` are the resources `mail` and `notifier` of the code location, as far as it has them.
    """

    @dg.sensor(
        name=NAME,
        asset_selection=dg.AssetSelection.all(),
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={"blackboard", "state", "clock", *channels},
        description=(
            "Tells people about late data: when a run is requested, and when that run has ended, with the figures "
            "before and after. Keeps every report in the feed of `late_data_reports`. Each message is sent once, also "
            "if this sensor is killed."
        ),
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        resources: Any = context.resources
        deadline, now = time.monotonic() + TICK_SECONDS, resources.clock.now()
        feeds = AssetFeedGraph.of(context.repository_def)
        board, store = resources.blackboard.blackboard, resources.state.store
        senders = _Channels(
            feeds,
            board,
            store,
            now,
            mailer=resources.mail if MAIL in channels else None,
            notifier=resources.notifier if NOTIFIER in channels else None,
        )
        remarks = RunResults(context.instance, feeds, board, store, now, sources).record(deadline=deadline)
        for report in open_reports(store, board.uri("")):
            if time.monotonic() < deadline:
                remarks += deliver(store, report, senders.of(report))
        for remark in remarks:
            context.log.info(remark)
        events = [kept_event(update, kept_reports(board, day, now=now)) for day, update in senders.kept.items()]
        return dg.SensorResult(asset_events=events, skip_reason="; ".join(remarks[:3]) or "No report is due.")

    return sensor


@dataclass(slots=True)
class _Channels:
    """Sends the messages of one tick. `kept` has the updates of the feed of reports that it published, by day."""

    feeds: AssetFeedGraph
    board: Blackboard
    store: Store
    now: datetime
    mailer: MailResource | None = None
    notifier: Notifier | None = None
    kept: dict[str, Any] = field(default_factory=dict)

    def of(self, report: Report) -> dict[str, Send]:
        """For each channel, the function that sends a message about this report."""
        channels: dict[str, Send] = {FEED: self._keep}
        if self.mailer is not None:
            channels[MAIL] = partial(self._mail_all, self.mailer)
            for _, channel in messages_of(self.store, report):
                kind, _, address = channel.partition(":")
                if kind == MAIL and address:
                    channels[channel] = partial(self._mail_one, self.mailer, address)
        if self.notifier is not None:
            channels[NOTIFIER] = partial(self._notify, self.notifier)
        return channels

    def _keep(self, report: Report, _: str, name: str) -> str:
        def ended() -> list[Report]:
            return [each for each in open_reports(self.store, report.base, day=report.day) if each.result is not None]

        try:
            update = keep(self.board, report.day, ended, now=self.now, owner=NAME)
        except (FeedError, BlackboardError) as error:
            raise NotTakenError(str(error)) from error
        if update is not None:
            self.kept[report.day] = update
        return f"{name} kept as {update.uri}" if update else f"{name} was kept before"

    def _mail_all(self, mailer: MailResource, report: Report, message: str, name: str) -> str:
        """Mail to all recipients that have no channel of their own, which those get whom the server does not take."""
        notice = notice_of(report, message)
        known = {channel for of, channel in messages_of(self.store, report) if of == message}
        to, sent = _by_address([*notice.recipients, *mailer.recipients])
        if not to and not sent.refused:
            return f"{name} has no recipients: set FEED_ASSETS_MAIL_TO, or `recipients` of the source"
        to = {address: text for address, text in to.items() if f"{MAIL}:{address}" not in known}
        at_once = [address for address in to if address.isascii()]
        for group in filter(None, [at_once, *([each] for each in to if each not in at_once)]):
            try:
                sent.add(self._send(mailer, report, message, name, {each: to[each] for each in group}))
            except MailError as error:
                if not sent.taken:
                    self._end_refused(report, message, sent)
                    raise NotTakenError(f"{error}{_refusals(sent)}") from None
                sent.put_off |= dict.fromkeys(group, str(error))
        self._end_refused(report, message, sent)
        if sent.put_off and not sent.taken:
            raise NotTakenError(f"{_reasons(sent.put_off)}.{_refusals(sent)}")
        remark = f"{name} mailed to {len(sent.taken)} of {len(sent.taken) + len(sent.put_off) + len(sent.refused)}"
        for address in sent.put_off:
            again = put_off(self.store, Message(report.id, message, f"{MAIL}:{address}"), at=datetime.now(UTC))
            remark += f", not to {address} until after {again:%H:%M:%S} UTC" if again else f", never to {address}"
        return remark + _refusals(sent)

    def _mail_one(self, mailer: MailResource, address: str, report: Report, message: str, name: str) -> str:
        """Mail to a recipient whom the server did not take together with the others."""
        to, sent = _by_address([address])
        try:
            sent.add(self._send(mailer, report, message, name, to) if to else Sent())
        except MailError as error:
            raise NotTakenError(str(error)) from None
        if sent.put_off:
            raise NotTakenError(f"{_reasons(sent.put_off)}.")
        return f"{name} mailed to {len(sent.taken)} of 1{_refusals(sent)}"

    def _send(self, mailer: MailResource, report: Report, message: str, name: str, to: Mapping[str, str]) -> Sent:
        plot = _plot(report) if message == ENDED else None
        made = mail(
            notice_of(report, message), name, sender=mailer.sender, to=list(to.values()), at=self.now, plot=plot
        )
        return mailer.server.send(made, list(to))

    def _end_refused(self, report: Report, message: str, sent: Sent) -> None:
        for address in sent.refused:
            end(self.store, Message(report.id, message, f"{MAIL}:{address}"), at=datetime.now(UTC))

    def _notify(self, notifier: Notifier, report: Report, message: str, name: str) -> str:
        notice = notice_of(report, message)
        names = [self.feeds.feeds[each].name for each in report.request["computed"] if each in self.feeds.feeds]
        run = (report.result or {}).get("run") if message == ENDED else None
        alert = Alert(notice.kind, tuple(names), report.day, tuple(notice.lines), run or "", notice.command, name)
        try:
            notifier.notify(alert)
        except AlertNotSentError as error:
            raise NotTakenError(str(error).partition(" The alert: ")[0]) from None
        return f"{name} sent"


def _by_address(recipients: Sequence[str]) -> tuple[dict[str, str], Sent]:
    """Each recipient once, by the address that servers know; texts that are no address are refused."""
    found: dict[str, tuple[str, str]] = {}
    wrong = Sent()
    for text in sorted(recipients):
        try:
            address = parsed_address(text).addr_spec
        except ValueError as error:  # of a report that an earlier version recorded
            wrong.refused[text] = str(error)
            continue
        found.setdefault(address.casefold(), (address, text))
    return dict(found.values()), wrong


def _reasons(of: Mapping[str, str]) -> str:
    return ", ".join(f"{address}: {reason}" for address, reason in of.items())


def _refusals(sent: Sent) -> str:
    """Whom the server refuses for good, for the log: this is told once."""
    return "".join(f", not to {address} and not again ({reason})" for address, reason in sent.refused.items())


def _plot(report: Report) -> bytes | None:
    compared = next((each for each in (report.result or {})["feeds"] if each["figures"]), None)
    if compared is None:
        return None
    from feed_assets.notices.pictures import before_and_after  # noqa: PLC0415 - loads matplotlib

    return before_and_after(compared, report.day)
