"""The sensor for reports: it waits for the runs that late data caused, sends reports on them, and keeps these.

Here: the channels. Not here: which day is late (`late_growth`), the end of a run (`run_results`), texts and delivery
(`notices`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import dagster as dg

from feed_assets.assets.late_data_reports import kept_event
from feed_assets.blackboard import Blackboard, BlackboardError
from feed_assets.file_feed import FeedError
from feed_assets.notices.delivery import FEED, NotTakenError, Send, deliver, put_off
from feed_assets.notices.keeping import keep, kept_reports
from feed_assets.notices.mail import MailError, is_put_off
from feed_assets.notices.messages import ENDED, mail, notice_of
from feed_assets.notices.tables import Message, Report, messages_of, open_reports
from feed_assets.resources import Alert, MailResource, Notifier
from feed_assets.resources.notifier import AlertNotSentError
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.run_results import RunResults
from feed_assets.sensors.ticks import TICK_SECONDS
from feed_assets.sources import Source
from feed_assets.state import Store

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
            channels[MAIL] = partial(self._mail, self.mailer, None)
            for _, channel in messages_of(self.store, report):
                kind, _, address = channel.partition(":")
                if kind == MAIL and address:
                    channels[channel] = partial(self._mail, self.mailer, address)
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

    def _mail(self, mailer: MailResource, only: str | None, report: Report, message: str, name: str) -> str:
        """Mail to all recipients, or only to one. Each recipient that the server defers gets a channel of its own."""
        notice = notice_of(report, message)
        to = [only] if only else sorted({*notice.recipients, *mailer.recipients})
        if not to:
            return f"{name} has no recipients: set FEED_ASSETS_MAIL_TO, or `recipients` of the source"
        plot = _plot(report) if message == ENDED else None
        made = mail(notice, name, sender=mailer.sender, to=to, at=self.now, plot=plot)
        try:
            refused = mailer.server.send(made, to)
        except MailError as error:
            raise NotTakenError(str(error)) from None
        remark = f"{name} mailed to {len(to) - len(refused)} of {len(to)}"
        for address, code in refused.items():
            later = ""
            if is_put_off(code):
                again = put_off(self.store, Message(report.id, message, f"{MAIL}:{address}"), at=datetime.now(UTC))
                later = f" until after {again:%H:%M:%S} UTC"
            remark += f", not to {address}{later}"
        return remark

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


def _plot(report: Report) -> bytes | None:
    compared = next((each for each in (report.result or {})["feeds"] if each["figures"]), None)
    if compared is None:
        return None
    from feed_assets.notices.pictures import before_and_after  # noqa: PLC0415 - loads matplotlib

    return before_and_after(compared, report.day)
