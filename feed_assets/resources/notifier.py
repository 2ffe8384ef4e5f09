"""Send alerts and mail to people.

Here: the content of an alert, a webhook, and the mail server. Not here: when something is sent (`sensors.alerts`,
`sensors.workflow_alerts`, `sensors.late_reports`), and what a mail says (`notices`).
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from abc import abstractmethod
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

import dagster as dg
from pydantic import Field, field_validator

from feed_assets.environment import Section, SettingsError
from feed_assets.errors import FeedAssetsError
from feed_assets.notices.mail import MailServer
from feed_assets.sources.mail_address import check_address

WEBHOOK = "FEED_ASSETS_ALERT_WEBHOOK"
"""The environment variable with the webhook's address, which is a secret."""

TITLES = {
    "rejected": "Rejected by its checks",
    "failed": "Failed",
    "dead": "Dead tasks",
    "late data": "Late data",
    "reprocessed": "Late data was processed",
    "gone back": "Late data went back",
    "overlap": "Runs will overlap",
    "deadline": "A deadline will be missed",
    "outside the lookback": "Data that no sensor processes",
    "silent": "A source is silent",
    "unusable": "Many records cannot be used",
    "back": "As usual again",
    "columns": "Columns have changed",
}
ATTEMPTS = 3
SECONDS_BETWEEN = 0.5
TIMEOUT_SECONDS = 10
REDIRECTS = range(300, 400)
_REDIRECT = " (a redirect, which is not followed: set the final address)"


class AlertSettings(Section):
    """Whether alerts are posted."""

    alerts: bool = Field(default=False, validation_alias=WEBHOOK, repr=False)
    """The address that alerts are posted to; a secret.

    Default: none.
    """

    @field_validator("alerts", mode="before")
    @classmethod
    def _has_webhook(cls, address: str) -> bool:
        """Whether there is an address, which stays in the environment."""
        if not is_web_address(address):
            raise SettingsError(f"{WEBHOOK} is no http or https address: correct it. It is a secret, and not shown.")
        return True


class AlertNotSentError(FeedAssetsError):
    """The receiver did not take an alert. The message names only its host: the rest of the address is secret."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A failed run, a rejected update, dead tasks, late data, slow runs, or what a partner sends.

    Each reason is a line; `command` shows more.

    `kind` is `failed`, `rejected`, `dead`: tasks of a workflow, `late data`, `reprocessed`: late data was processed,
    `gone back`: it changed again before a run began, `overlap`: runs will begin before the last has ended, or
    `deadline`: it will be missed. For these two, `assets` has the series. `outside the lookback`: no sensor processes
    this data, `silent`: a source sends less than expected, `unusable`: many records of a partner cannot be used,
    `back`: one of these two is over, or `columns`: its columns have changed. For these, `assets` has the raw asset of
    the source. `run_id` is "" if there is no run.
    Alerts of one `id` are the same message, sent again because nobody knows whether it arrived; "": unknown.
    """

    kind: str
    assets: tuple[str, ...]
    partition: str | None
    reasons: tuple[str, ...]
    run_id: str
    command: str
    id: str = ""

    @property
    def text(self) -> str:
        """The alert as a message for people."""
        what = TITLES.get(self.kind, self.kind)
        where = " ".join(filter(None, [", ".join(self.assets), self.partition]))
        run = f"Run {self.run_id}. " if self.run_id else ""
        return "\n".join([f"{what}: {where}", *self.reasons, f"{run}More: {self.command}"])


class Notifier(dg.ConfigurableResource[None]):
    """Sends alerts. Derive a class for your own way: `definitions(..., resources={"notifier": MyNotifier()})`."""

    @abstractmethod
    def notify(self, alert: Alert) -> None:
        """Send the alert. Raise an error if that fails: the sensor's tick shows it."""


class WebhookNotifier(Notifier):
    """Posts each alert as JSON: the field `text`, as chat programs expect it, and the alert's fields."""

    url: str

    def notify(self, alert: Alert) -> None:
        """Post the alert, at most three times. Raises AlertNotSentError."""
        body = json.dumps({"text": alert.text, **asdict(alert)}).encode()
        problem = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(SECONDS_BETWEEN)
            try:
                self._post(body)
            except urllib.error.HTTPError as error:
                problem = f"answered {error.code}{_REDIRECT if error.code in REDIRECTS else ''}"
                error.close()
            except (OSError, http.client.HTTPException, ValueError) as error:
                # Name only the error's type: its message may hold the address.
                reason = getattr(error, "reason", None)
                problem = f"cannot be reached ({type(reason if isinstance(reason, Exception) else error).__name__})"
            else:
                return
        host = _host(self.url)
        # `from None`: the earlier errors hold the whole address.
        raise AlertNotSentError(
            f"An alert was not sent: {host} {problem}, {ATTEMPTS} times. See {WEBHOOK}. The alert: {alert.text}"
        ) from None

    def _post(self, body: bytes) -> None:
        if not is_web_address(self.url):
            raise AlertNotSentError(f"{WEBHOOK} is no http or https address: correct it.")
        request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})  # noqa: S310 - see above
        opener = urllib.request.build_opener(_KeepRedirects)
        with opener.open(request, timeout=TIMEOUT_SECONDS):
            pass


class _KeepRedirects(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as an error: its target is often a login page, and nobody would get the alert."""

    def redirect_request(self, *_: object) -> None:
        """Send no second request."""


def is_web_address(address: str) -> bool:
    """Whether this is an http or https address with a host."""
    try:
        parts = urlsplit(address)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a bracket that is not closed, or a port that is no number
        return False


def _host(address: str) -> str:
    try:
        return urlsplit(address).hostname or "the host"
    except ValueError:
        return "the host"


class MailResource(dg.ConfigurableResource[None]):
    """A mail server. Dagster shows the fields: give `url`, which may hold a password, as a `dg.EnvVar`.

    `recipients` get every mail, beside those that a mail itself names.
    """

    url: str
    sender: str
    recipients: list[str]

    @field_validator("sender")
    @classmethod
    def _is_address(cls, sender: str) -> str:
        return check_address(sender)

    @field_validator("recipients")
    @classmethod
    def _are_addresses(cls, recipients: list[str]) -> list[str]:
        return [check_address(each) for each in recipients]

    @property
    def server(self) -> MailServer:
        """The server; nothing is opened yet. Raises MailError if the URL cannot be used."""
        return MailServer.at(self.url)
