"""The settings of an installation, from the environment, and the clock.

Here: all sections as one object, and the sections of rooms that have none of their own: libraries without pydantic
(`blackboard`, `state`) and rooms above this one (`sensors`). Not here: the other sections, each in its room; the rules
of the pipelines, which the configuration of a run can change; settings of one partner (`sources`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import dagster as dg
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from feed_assets.blackboard.location import UnknownLocationError, check_location, local_directory, open_blackboard
from feed_assets.blackboard.port import BlackboardError
from feed_assets.data_catalog.glue import CatalogSettings, check_catalog
from feed_assets.datasets.days import is_day
from feed_assets.environment import Section, SettingsError
from feed_assets.file_feed.names import fixed_time
from feed_assets.notices.mail import MailSettings
from feed_assets.polling.settings import PollingSettings
from feed_assets.resources.notifier import AlertSettings
from feed_assets.resources.spark import SparkResource, SparkSettings
from feed_assets.resources.storage import BlackboardResource
from feed_assets.state.address import VARIABLE as STATE
from feed_assets.state.address import sqlite_url, state_url
from feed_assets.warehouse.address import WarehouseSettings
from feed_assets.workflow.settings import WorkflowSettings

AS_OF_FILE = ".as-of"
"""A file in a base that fixes the time there, as in the demo's base."""

STATE_FILE = ".state/state.db"
"""Below a base or a Dagster home. No name of a feed begins with a dot."""

DEFAULT_BASE = "data"
DEFAULT_HOME = ".dagster"
DEFAULT_SOURCES = "sources"
DEFAULT_DATASETS = "datasets"
DEFAULT_DELIVERIES = "deliveries"
_DIRECTORIES = {
    "datasets_directory": ("FEED_ASSETS_DATASETS", "dataset"),
    "deliveries_directory": ("FEED_ASSETS_DELIVERIES", "destination"),
}
"""Beside the directory of sources."""
DEFAULT_FIRST_DAY = date(2020, 1, 1)
LONGEST: Final = 10**9
"""Seconds: 31 years. A span of 8,000 years would end after the last date of Python."""


def _digits(text: str) -> str:
    """The text, if it is a number in ASCII digits: pydantic also takes spaces, signs and underscores."""
    if not text.isascii() or not text.isdigit():
        raise ValueError
    return text


def _day(text: str) -> date:
    if not is_day(text):  # pydantic also takes times, and seconds since 1970
        raise ValueError
    return date.fromisoformat(text)


_Seconds = Annotated[int, BeforeValidator(_digits)]
_Day = Annotated[date, BeforeValidator(_day)]
_Switch = Annotated[bool, BeforeValidator({"0": False, "1": True}.get)]
"""pydantic also takes `yes`, `off` and the like."""


def _seconds(variable: str, default: int, *, least: int) -> Any:
    takes = f"a whole number of seconds from {least} to {LONGEST}"
    return Field(default, validation_alias=variable, ge=least, le=LONGEST, description=takes)


class DataSettings(Section):
    """Where data and sources are, and which time it is."""

    base: str = Field(DEFAULT_BASE, validation_alias="FEED_ASSETS_BASE", validate_default=True)
    """Where all data is: a directory, or `s3://bucket/prefix`.

    Default: `./data`; the demo: `./demo-data`.
    """
    sources_directory: Path | None = Field(None, validation_alias="FEED_ASSETS_SOURCES")
    """The directory of the sources' YAML.

    Default: the project's; the example: `feed_assets/ads/partners`.
    """
    datasets_directory: Path | None = Field(None, validation_alias="FEED_ASSETS_DATASETS")
    """The directory of the YAML of [declared datasets](datasets.md).

    Default: `datasets`, beside that of the sources; it need not exist.
    """
    deliveries_directory: Path | None = Field(None, validation_alias="FEED_ASSETS_DELIVERIES")
    """The directory of the YAML of [destinations](deliveries.md).

    Default: `deliveries`, beside that of the sources; it need not exist.
    """
    first_day: _Day | None = Field(
        None, validation_alias="FEED_ASSETS_FIRST_DAY", description="the first day of data, such as 2019-11-24"
    )
    """The first daily partition.

    Default: the project's; the example: `2019-11-24`.
    """
    as_of: str = Field("", validation_alias="FEED_ASSETS_AS_OF")
    """A fixed time instead of the clock's, in ISO 8601 or as an update's name (the demo's base fixes its own).

    Default: now.
    """
    hourly: _Switch = Field(default=False, validation_alias="FEED_ASSETS_HOURLY", description="1 for yes, and 0 for no")
    """`1`: records are [checked hour by hour](../late-data.md#hour-by-hour), and days assembled from them.

    Default: `0`.
    """
    gate: _Switch = Field(default=False, validation_alias="FEED_ASSETS_GATE", description="1 for yes, and 0 for no")
    """`1`: the assets of the worked example have a trigger, so the gate alone starts them.

    Default: `0`.
    """

    continuous: _Switch = Field(
        default=False, validation_alias="FEED_ASSETS_CONTINUOUS", description="1 for yes, and 0 for no"
    )
    """`1`: workers of the workflow `ads` compute the worked example's assets, and no runs of Dagster.

    Start `feed-assets workflow serve` and `feed-assets workflow work`, too.
    """

    @field_validator("datasets_directory", "deliveries_directory")
    @classmethod
    def _is_there(cls, directory: Path | None, info: ValidationInfo) -> Path | None:
        if directory is not None and not directory.is_dir():
            variable, what = _DIRECTORIES[str(info.field_name)]
            raise SettingsError(
                f"{variable} is {str(directory)!r}, which is no directory: put one YAML file for each {what} into one, "
                "or unset it."
            )
        return directory

    @field_validator("base")
    @classmethod
    def _absolute(cls, text: str) -> str:
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


class StateSettings(Section):
    """The state database; `_state` judges the value, for which it needs the base."""

    state: str = Field("", validation_alias=STATE, repr=False)
    """The [state database](../operating.md#state-database): `sqlite:////directory/state.db` or
    `postgresql://user:password@host:5432/database`; a secret where it has a password.

    Default: `.state/state.db` in a local base; for a bucket, in `DAGSTER_HOME`.
    """


class SensorSettings(Section):
    """How often sensors look, and how much runs print."""

    sensor_seconds: _Seconds = _seconds("FEED_ASSETS_SENSOR_SECONDS", 30, least=1)
    """How often sensors look."""
    scan_seconds: _Seconds = _seconds("FEED_ASSETS_SCAN_SECONDS", 600, least=0)
    """How often a scan for updates of other programs begins; 0: at each look."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = Field(
        "INFO", validation_alias="FEED_ASSETS_LOG_LEVEL", description="one of DEBUG, INFO, WARNING, ERROR, CRITICAL"
    )
    """How much runs print on the terminal when sensors or backfills start them. For runs started in the UI, set
    `python_logs` in `dagster.yaml`. The full log is always in Dagster.
    """


COPIED: Final[tuple[type[Section], ...]] = (
    SparkSettings, SensorSettings, AlertSettings, MailSettings, WarehouseSettings, PollingSettings
)  # fmt: skip
"""The sections whose fields `Settings` takes as they are."""


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
    If `gate`, the assets of the worked example have a trigger; if `continuous`, a workflow computes them. A
    `datasets_directory` and a `deliveries_directory` need not exist. What belongs to this machine, such as streams in
    files, lies in the folder `local_state`.
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
    continuous: bool = False
    smtp: str = field(default="", repr=False)
    mail_from: str = ""
    mail_to: tuple[str, ...] = ()
    poll_table: str = ""
    datasets_directory: Path = Path(DEFAULT_DATASETS)
    deliveries_directory: Path = Path(DEFAULT_DELIVERIES)
    local_state: Path = Path(STATE_FILE).parent

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str] = os.environ,
        *,
        sources_directory: Path = Path(DEFAULT_SOURCES),
        first_day: date = DEFAULT_FIRST_DAY,
    ) -> Settings:
        """Read the variables `FEED_ASSETS_...`. Each has a default.

        An empty variable means its default. Those of FEED_ASSETS_SOURCES and FEED_ASSETS_FIRST_DAY are
        `sources_directory` and `first_day`. Raises SettingsError, StoreError, WarehouseError or CatalogError: the
        message names the variable and its values.
        """
        data = DataSettings.read(environment)
        state, catalog = StateSettings.read(environment).state, CatalogSettings.read(environment).catalog
        sources = data.sources_directory or sources_directory
        WorkflowSettings.read(environment)  # only to check it: the secret stays in the environment
        copied: dict[str, Any] = {name: value for each in COPIED for name, value in each.read(environment)}
        return cls(
            base=data.base,
            state=_state(state, data.base, environment.get("DAGSTER_HOME")),
            first_day=data.first_day or first_day,
            as_of=_as_of(data.as_of, data.base),
            sources_directory=sources,
            datasets_directory=data.datasets_directory or sources.parent / DEFAULT_DATASETS,
            deliveries_directory=data.deliveries_directory or sources.parent / DEFAULT_DELIVERIES,
            local_state=_local_state(data.base, environment.get("DAGSTER_HOME")),
            catalog=check_catalog(catalog, data.base) if catalog else "",
            hourly=data.hourly,
            gate=data.gate,
            continuous=data.continuous,
            **copied,
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


def _local_state(base: str, dagster_home: str | None) -> Path:
    """The folder for what is kept on this machine: in a local base, or for a bucket in the Dagster home."""
    return (local_directory(base) or Path(dagster_home or DEFAULT_HOME)) / Path(STATE_FILE).parent


def _state(text: str, base: str, dagster_home: str | None) -> str:
    """The URL of the state database: by default a file in a local base, which all Dagster homes share.

    For a bucket, the file is in the Dagster home.
    """
    folder = _local_state(base, dagster_home)
    try:
        url = state_url(text or sqlite_url(folder / Path(STATE_FILE).name))
    except UnicodeEncodeError:
        raise SettingsError(
            f"The state database cannot be in {str(folder)!r}, which is not UTF-8: rename it, or set {STATE}."
        ) from None
    if text and url.drivername == "sqlite":
        # Whoever names a file may name a link to it; in a base, others may have put a link there, which is refused.
        url = url.set(database=os.path.realpath(url.database or ""))
    return url.render_as_string(hide_password=False)


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


def _as_of(text: str, base: str) -> datetime | None:
    """The fixed time of the variable, or of the file in the base; None means real time."""
    origin, text = ("FEED_ASSETS_AS_OF", text) if text else _as_of_file(base)
    try:
        return fixed_time(text, setting=origin)
    except ValueError as error:
        raise SettingsError(str(error)) from None
