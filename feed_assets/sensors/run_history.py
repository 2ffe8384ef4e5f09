"""The sensor that keeps the history of runs, and tells people once when it says that runs will overlap or come late.

Here: pages of ended runs and tasks into the state database, and the notices. Not here: reading them (`ended_runs`,
`ended_tasks`), and what their history says (`run_history`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from functools import partial
from typing import Any, Final

import dagster as dg

from feed_assets.errors import FeedAssetsError
from feed_assets.feed_events.health import notice_of, pictures_of
from feed_assets.file_feed.digest import short_digest
from feed_assets.file_feed.wording import counted
from feed_assets.notices.mail import MailError
from feed_assets.notices.messages import mail
from feed_assets.resources.notifier import Alert, MailResource, Notifier
from feed_assets.run_history.health import Health, health
from feed_assets.run_history.tables import KEPT, Warned, keep_warnings, new_warnings, record
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.ended_runs import Cursor, deadlines, ended_page
from feed_assets.sensors.ended_tasks import ended_tasks
from feed_assets.sensors.ticks import load_cursor
from feed_assets.sources.mail_address import parsed_address
from feed_assets.starts.tables import store_id
from feed_assets.state.store import Store

NAME: Final = "run_history"
MAIL, NOTIFIER = "mail", "notifier"


def run_history(
    *, channels: frozenset[str], interval_seconds: int, workflows: Sequence[str] = ()
) -> dg.SensorDefinition:
    """Keeps how long runs, and tasks of these workflows, take, and tells of each warning once.

    `channels` are the resources `mail` and `notifier` of the code location, as far as it has them.
    """

    @dg.sensor(
        name=NAME,
        asset_selection=dg.AssetSelection.all(),
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={"blackboard", "state", *channels},
        description=(
            "Keeps how long runs of schedules, triggers and assets, and tasks of workflows take: runs from 60 days ago "
            "on, a page each tick. "
            "Tells people once, by `notifier` and `mail` if there are any, when runs will overlap, or a deadline will "
            "be missed. `feed-assets health` shows all figures."
        ),
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        resources: Any = context.resources
        board, store, now = resources.blackboard.blackboard, resources.state.store, datetime.now(UTC)
        feeds, stored = AssetFeedGraph.of(context.repository_def), load_cursor(context.cursor)
        schedules = {each.name for each in context.repository_def.schedule_defs} if context.repository_def else set()
        # Another database, also one that replaces the old one, has no history yet.
        with store.reading() as connection:
            database = store_id(connection)
        known = stored.get("runs") if stored.get("store") == database else None
        found, cursor = ended_page(context.instance, schedules, feeds, Cursor.from_plain(known, now - KEPT))
        tasks = ended_tasks(board, workflows, stored.get("tasks"))
        record(store, board.uri(""), [*found, *tasks.executions], now=now)
        said = [f"Kept {counted(len(found) + len(tasks.executions), 'execution')}.", *tasks.problems]
        looked = str(stored.get("looked", ""))
        if not cursor.is_behind and looked != (hour := f"{now:%Y-%m-%d %H}"):
            warnings = _Warnings.of(store, board.uri(""), deadlines(feeds), now)
            for sentence in warnings.tell(_channels(resources, channels)):
                context.log.warning(sentence)
                said.append(sentence)
            looked = hour
        made = {"store": database, "runs": cursor.to_plain(), "tasks": tasks.cursor, "looked": looked}
        return dg.SensorResult(skip_reason=" ".join(said[:4]), cursor=json.dumps(made))

    return sensor


Send = Callable[[Health, str, str], str]
"""Sends the warning of a kind; its name is the same if it is sent again. Returns a remark for the log, or ""."""


def _channels(resources: Any, channels: frozenset[str]) -> dict[str, Send]:
    """The function of each channel: the log, the notifier, and each recipient of mail, whom the server may put off."""
    found: dict[str, Send] = {"log": lambda *_: ""}
    if NOTIFIER in channels:
        found[NOTIFIER] = partial(_notify, resources.notifier)
    for each in resources.mail.recipients if MAIL in channels else ():
        found[f"{MAIL}:{parsed_address(each).addr_spec}"] = partial(_mail, resources.mail, each)
    return found


def _notify(notifier: Notifier, found: Health, kind: str, name: str) -> str:
    notice = notice_of(found, kind)
    notifier.notify(Alert(notice.kind, (found.series,), None, tuple(notice.lines), "", notice.command, name))
    return ""


def _mail(mailer: MailResource, to: str, found: Health, kind: str, name: str) -> str:
    notice, plot, now = notice_of(found, kind), pictures_of(found).get(kind), datetime.now(UTC)
    made = mail(notice, name, sender=mailer.sender, to=[to], at=now, plot=plot)
    sent = mailer.server.send(made, [parsed_address(to).addr_spec])
    if sent.put_off:
        raise MailError(f"the server puts it off: {'; '.join(sent.put_off.values())}.")
    return "".join(f"{address} gets no mail, the server refuses it: {why}." for address, why in sent.refused.items())


@dataclass(frozen=True, slots=True)
class _Warnings:
    """The warnings at one time, by series and kind. Each channel gets each of them once."""

    store: Store
    base: str
    now: datetime
    found: Mapping[Warned, Health]

    @classmethod
    def of(cls, store: Store, base: str, deadlines: Mapping[str, time], now: datetime) -> _Warnings:
        known = health(store, base, deadlines, now.date())
        return cls(store, base, now, {(each.series, kind): each for each in known for kind in each.warnings})

    def tell(self, channels: Mapping[str, Send]) -> list[str]:
        """Send what is new; returns its sentences, and those of channels that failed, which get it an hour later.

        What was sent is noted after that: if the tick is killed between both, it is sent again under the same name.
        """
        said = []
        for channel, send in channels.items():
            of_channel = {(series, f"{channel} {kind}"): (series, kind) for series, kind in self.found}
            told = of_channel.keys() - set(news := new_warnings(self.store, self.base, of_channel))
            for warned in news:
                series, kind = of_channel[warned]
                found = self.found[series, kind]
                try:
                    remark = send(found, kind, self._name(series, kind))
                except (FeedAssetsError, MailError) as error:
                    said.append(f"{found.warnings[kind]} {channel} was not told: {error}")
                    continue
                keep_warnings(self.store, self.base, [warned], now=self.now)
                if channel == "log" or remark:
                    said.append(f"{found.warnings[kind]} {remark}".rstrip())
            keep_warnings(self.store, self.base, told, now=self.now)
        return said

    def _name(self, series: str, kind: str) -> str:
        return f"health-{short_digest(f'{self.base} {series} {kind} {self.now:%Y-%m-%d}')}"
