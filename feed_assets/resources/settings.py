"""The settings of an installation, from the environment, and the clock.

Here: names, defaults and validation of environment variables. Not here: the rules of the pipelines, which the
configuration of a run can change, and settings of one partner (`sources`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import field_validator

from feed_assets.blackboard.location import UnknownLocationError, check_location, local_directory, open_blackboard
from feed_assets.blackboard.port import BlackboardError
from feed_assets.data_catalog.glue import VARIABLE as CATALOG
from feed_assets.data_catalog.glue import check_catalog
from feed_assets.datasets.days import is_day
from feed_assets.errors import FeedAssetsError
from feed_assets.file_feed.names import fixed_time
from feed_assets.notices.mail import VARIABLE as SMTP
from feed_assets.notices.mail import MailError, MailServer
from feed_assets.resources.notifier import WEBHOOK, is_web_address
from feed_assets.resources.spark import SparkResource
from feed_assets.resources.storage import BlackboardResource
from feed_assets.sources.mail_address import check_address, split_addresses
from feed_assets.state.address import VARIABLE as STATE
from feed_assets.state.address import sqlite_url, state_url
from feed_assets.warehouse.address import VARIABLE as WAREHOUSE
from feed_assets.warehouse.address import warehouse_kind

AS_OF_FILE = ".as-of"
"""A file in a base that fixes the time there, as in the demo's base."""

STATE_FILE = ".state/state.db"
"""Below a base or a Dagster home. No name of a feed begins with a dot."""

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
DEFAULT_BASE = "data"
DEFAULT_HOME = ".dagster"
DEFAULT_SOURCES = "sources"
DEFAULT_FIRST_DAY = date(2020, 1, 1)


class SettingsError(FeedAssetsError):
    """An environment variable has a wrong value; the message names the variable and the values it takes."""


class Clock(dg.ConfigurableResource[None]):
    """The time: the machine's, or a fixed time for demos, tests and replays."""

    as_of: str | None = None

    @field_validator("as_of")
    @classmethod
    def _is_time(cls, as_of: str | None) -> str | None:
        fixed_time(as_of, setting="as_of")
        return as_of

    def now(self) -> datetime:
        """The current time, aware, in UTC."""
        return fixed_time(self.as_of, setting="as_of") or datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings: data, days, sources, Spark, sensors.

    `state`, `warehouse` and `smtp` are the URLs of the state database, the warehouse and the mail server ("": none of
    the last two); they can hold a password. `catalog` is the database of Glue ("": none). `poll_table` is the
    table of DynamoDB with the files that polls took ("": only the blackboard has them). `alerts` says whether a webhook
    is configured; its address is a secret and stays in the environment. If `hourly`, records are checked hour by hour.
    If `gate`, the assets of the worked example have a trigger.
    A scan for updates of other programs begins every `scan_seconds`; 0 means at each tick.
    """

    base: str
    state: str = field(repr=False)
    first_day: date
    as_of: datetime | None
    sources_directory: Path
    spark_master: str
    sensor_seconds: int
    log_level: str
    alerts: bool = False
    scan_seconds: int = 600
    warehouse: str = field(default="", repr=False)
    catalog: str = ""
    hourly: bool = False
    gate: bool = False
    smtp: str = field(default="", repr=False)
    mail_from: str = ""
    mail_to: tuple[str, ...] = ()
    poll_table: str = ""

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str] = os.environ,
        *,
        sources_directory: Path = Path(DEFAULT_SOURCES),
        first_day: date = DEFAULT_FIRST_DAY,
    ) -> Settings:
        """Read the variables `FEED_ASSETS_...`. Each has a default.

        They are BASE, STATE, AS_OF, FIRST_DAY, SOURCES, SPARK_MASTER, SENSOR_SECONDS, SCAN_SECONDS, LOG_LEVEL,
        ALERT_WEBHOOK, WAREHOUSE, CATALOG, HOURLY, GATE, SMTP, MAIL_FROM, MAIL_TO and POLL_TABLE. The defaults of SOURCES
        and FIRST_DAY are `sources_directory` and `first_day`. Raises SettingsError, StoreError for STATE, WarehouseError or
        CatalogError: the message names the variable and its values.
        """
        base = _base(environment.get("FEED_ASSETS_BASE") or DEFAULT_BASE)
        if warehouse := environment.get(WAREHOUSE, ""):
            warehouse_kind(warehouse)
        smtp, sender = environment.get(SMTP, ""), environment.get("FEED_ASSETS_MAIL_FROM", "")
        return cls(
            base=base,
            state=_state(environment.get(STATE), base, environment.get("DAGSTER_HOME")),
            first_day=_first_day(environment.get("FEED_ASSETS_FIRST_DAY") or str(first_day)),
            as_of=_as_of(environment.get("FEED_ASSETS_AS_OF"), base),
            sources_directory=Path(environment.get("FEED_ASSETS_SOURCES") or sources_directory),
            spark_master=environment.get("FEED_ASSETS_SPARK_MASTER") or "local[*]",
            log_level=_log_level(environment.get("FEED_ASSETS_LOG_LEVEL") or "INFO"),
            alerts=_has_webhook(environment.get(WEBHOOK, "")),
            sensor_seconds=_seconds(environment, "SENSOR_SECONDS", "30", least=1),
            scan_seconds=_seconds(environment, "SCAN_SECONDS", "600", least=0),
            warehouse=warehouse,
            catalog=check_catalog(catalog, base) if (catalog := environment.get(CATALOG, "")) else "",
            hourly=_switch(environment, "HOURLY"),
            gate=_switch(environment, "GATE"),
            smtp=_smtp(smtp, sender),
            mail_from=sender,
            mail_to=_addresses("FEED_ASSETS_MAIL_TO", environment.get("FEED_ASSETS_MAIL_TO", "")),
            poll_table=environment.get("FEED_ASSETS_POLL_TABLE", ""),
        )

    @property
    def run_config(self) -> dict[str, Any]:
        """The configuration of every run that a command or a sensor starts: how much it logs on the terminal."""
        return {"loggers": {"console": {"config": {"log_level": self.log_level}}}}

    @property
    def clock(self) -> Clock:
        """The clock of this installation."""
        return Clock(as_of=self.as_of.isoformat() if self.as_of else None)

    @property
    def blackboard(self) -> BlackboardResource:
        """The storage below the base."""
        return BlackboardResource(base=self.base)

    @property
    def spark(self) -> SparkResource:
        """Spark on the master, for data below the base."""
        return SparkResource.on(self.spark_master, self.base)


def _base(text: str) -> str:
    try:
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", text):
            check_location(text)
            return text
        return str(Path(text).expanduser().absolute())
    except UnknownLocationError as error:
        raise SettingsError(f"FEED_ASSETS_BASE: {error}") from None
    except RuntimeError:
        raise SettingsError(
            f"FEED_ASSETS_BASE is {text!r}; it takes a directory, and its user has no home directory."
        ) from None


def _state(text: str | None, base: str, dagster_home: str | None) -> str:
    """The URL of the state database: by default a file in a local base, which all Dagster homes share.

    For a bucket, the file is in the Dagster home.
    """
    folder = local_directory(base) or Path(dagster_home or DEFAULT_HOME)
    url = state_url(text or sqlite_url(folder / STATE_FILE))
    if text and url.drivername == "sqlite":
        # Whoever names a file may name a link to it; in a base, others may have put a link there, which is refused.
        url = url.set(database=os.path.realpath(url.database or ""))
    return url.render_as_string(hide_password=False)


def _smtp(url: str, sender: str) -> str:
    if url:
        try:
            MailServer.at(url)
        except MailError as error:
            raise SettingsError(str(error)) from None
        if len(_addresses("FEED_ASSETS_MAIL_FROM", sender)) != 1:
            raise SettingsError(f"FEED_ASSETS_MAIL_FROM is {sender!r}; with {SMTP} it takes the address of the sender.")
    return url


def _has_webhook(address: str) -> bool:
    if address and not is_web_address(address):
        raise SettingsError(f"{WEBHOOK} is no http or https address: correct it. It is a secret, and not shown.")
    return bool(address)


def _addresses(name: str, text: str) -> tuple[str, ...]:
    found = tuple(split_addresses(text))
    for each in found:
        try:
            check_address(each)
        except ValueError as error:
            wrong = str(error).removeprefix("is ").partition("; ")
            raise SettingsError(
                f"{name} has {wrong[0]}; it takes addresses such as team@example.com, and commas between: {wrong[2]}."
            ) from None
    return found


def _first_day(text: str) -> date:
    if not is_day(text):
        raise SettingsError(f"FEED_ASSETS_FIRST_DAY is {text!r}; it takes the first day of data, such as 2019-11-24.")
    return date.fromisoformat(text)


def _log_level(text: str) -> str:
    if text not in LOG_LEVELS:
        raise SettingsError(f"FEED_ASSETS_LOG_LEVEL is {text!r}; it takes one of {', '.join(LOG_LEVELS)}.")
    return text


def _seconds(environment: Mapping[str, str], name: str, default: str, *, least: int) -> int:
    text = environment.get(f"FEED_ASSETS_{name}") or default
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise SettingsError(f"FEED_ASSETS_{name} is {text!r}; it takes a whole number of seconds from {least}.")
    return int(text)


def _switch(environment: Mapping[str, str], name: str) -> bool:
    text = environment.get(f"FEED_ASSETS_{name}") or "0"
    if text not in {"0", "1"}:
        raise SettingsError(f"FEED_ASSETS_{name} is {text!r}; it takes 1 for yes, and 0 for no.")
    return text == "1"


def _as_of_file(base: str) -> tuple[str, str]:
    """The name and the content of the file that fixes the time; no content if the base has none.

    There is also no content if the base cannot be read: the first use of the base says why.
    """
    try:
        board = open_blackboard(base)
        directory = local_directory(base)
        name = str(directory / AS_OF_FILE) if directory else board.uri(AS_OF_FILE)
        return name, board.read(AS_OF_FILE, limit=64).data.decode(errors="replace").strip()
    except BlackboardError:
        return AS_OF_FILE, ""


def _as_of(variable: str | None, base: str) -> datetime | None:
    """The fixed time of the variable, or of the file in the base; None means real time."""
    origin, text = "FEED_ASSETS_AS_OF", variable
    if not text:
        origin, text = _as_of_file(base)
    try:
        return fixed_time(text, setting=origin)
    except ValueError as error:
        raise SettingsError(str(error)) from None
