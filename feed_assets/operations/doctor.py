"""Check what an installation needs to run: Java, Spark, storage, clock, Dagster's home, state database, disks.

Here: the checks, and free space. A check leaves nothing behind and shows no secret. Not here: finding the installation
and loading its module (`cli.doctor`), and checking data (`feed verify`).
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import uuid4

import pyspark
import yaml

from feed_assets.blackboard.credentials import without_credentials
from feed_assets.blackboard.directory import PRIVATE
from feed_assets.blackboard.location import local_directory
from feed_assets.data_catalog.glue import open_catalog
from feed_assets.engine.buckets import bucket_jars
from feed_assets.engine.class_archive import archive_options, can_archive
from feed_assets.engine.java import ensure_java, major_version
from feed_assets.engine.session import check_master
from feed_assets.environment import SettingsError
from feed_assets.file_feed.wording import counted
from feed_assets.operations.day_runs import CONFIG, instance_at
from feed_assets.resources.settings import Settings
from feed_assets.resources.storage import BlackboardResource
from feed_assets.state.address import VARIABLE as STATE
from feed_assets.state.address import shown, state_url
from feed_assets.state.store import Store
from feed_assets.warehouse.address import VARIABLE as WAREHOUSE
from feed_assets.warehouse.address import open_warehouse

LEAST_FREE, ENOUGH_FREE = 100 * 2**20, 2 * 2**30
"""A disk with fewer free bytes fails its check, or gets a warning."""

_SECRET = re.compile(r"PASSWORD|SECRET|TOKEN|WEBHOOK")


State = Literal["ok", "warning", "fails"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check, and the advice. `advice` is empty if it is ok."""

    state: State
    found: str
    advice: str = ""


def examine(settings: Settings, home: Path | None) -> Iterator[tuple[str, Finding]]:
    """The name and the finding of each check. `home` is Dagster's; None if there is none yet."""
    checks: dict[str, Callable[[], Finding]] = {
        "java": _java,
        "spark": lambda: _spark(settings.spark_master),
        **({} if local_directory(settings.base) else {"jars": _jars}),
        "storage": lambda: _storage(settings.base),
        "clock": lambda: _clock(settings.as_of),
        "dagster": lambda: _dagster(home),
        "state": lambda: _state(settings.state),
        **({"warehouse": lambda: _warehouse(settings.warehouse)} if settings.warehouse else {}),
        **({"catalog": lambda: _catalog(settings.catalog)} if settings.catalog else {}),
        "disk": lambda: _disk(settings.base),
    }
    return ((name, checked(check)) for name, check in checks.items())


def checked(check: Callable[[], Finding]) -> Finding:
    """The finding of a check, without secrets. A check that raises an error fails with the error's message."""
    try:
        finding = check()
    except Exception as error:  # noqa: BLE001 - a broken installation can raise anything, and the other checks go on
        known = type(error).__module__.startswith(("feed_assets.", "click."))
        text = getattr(error, "message", str(error)) if known else f"{type(error).__name__}: {error}"
        finding = Finding("fails", " ".join(text.split()))
    found = without_credentials(finding.found)
    for secret in _secrets():
        found = found.replace(secret, "***")
    return replace(finding, found=found)


def free_space(base: str) -> dict[str, int]:
    """The free bytes of each place that a run writes to, the fullest disk first."""
    directory = local_directory(base)
    places = {
        **({"the data": directory} if directory else {}),
        "Spark's temporary files (SPARK_LOCAL_DIRS)": Path(os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()),
        "Dagster's runs (DAGSTER_HOME)": Path(os.environ.get("DAGSTER_HOME") or "."),
    }
    free = {f"{name} in {path}": shutil.disk_usage(path).free for name, path in places.items() if path.is_dir()}
    return dict(sorted(free.items(), key=lambda each: each[1]))


def require_writable(folder: Path, variable: str) -> None:
    """Raise SettingsError unless the folder of this variable, or the folder to create it in, can be written."""
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        problem = "cannot be written" if existing.is_dir() else "is no directory"
        what_to_do = f"change its permissions, or set {variable} to a directory of your own"
        raise SettingsError(f"{existing} {problem}: {what_to_do}.")


def _java() -> Finding:
    home = ensure_java()
    slow = "" if archive_options() or not can_archive() else "; `feed-assets prepare` lets Spark start faster"
    return Finding("ok", f"Java {major_version(home / 'bin' / 'java')} in {home}{slow}")


def _spark(master: str) -> Finding:
    check_master(master)
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        advice = "Give it an entry in /etc/passwd, or run as another user."
        return Finding("fails", f"The user {os.getuid()} has no name, and Spark does not start without one.", advice)
    return Finding("ok", f"pyspark {pyspark.__version__} on {master}")


def _jars() -> Finding:
    jars = bucket_jars()
    return Finding("ok", f"{len(jars)} for S3 in {jars[0].parent}")


def _storage(base: str) -> Finding:
    folder = local_directory(base)
    if folder is None:
        return _bucket(base)
    require_writable(folder, "FEED_ASSETS_BASE")
    if not folder.exists():
        return Finding("warning", f"{folder} does not exist yet.", "The first landing creates it.")
    unfinished = folder / os.fsdecode(PRIVATE)
    if unfinished.is_symlink():
        found = f"{unfinished} is a symbolic link, to {unfinished.readlink()}, so nothing can be written."
        return Finding("fails", found, "Remove the link.")
    scratch = folder / f".doctor-{uuid4().hex}"
    try:
        BlackboardResource(base=str(scratch)).blackboard.create("object", b"")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Finding("ok", f"{base} can be listed and written")


def _bucket(base: str) -> Finding:
    from feed_assets.blackboard.s3 import S3Blackboard  # noqa: PLC0415 - loads boto3, which a disk does not need

    board = BlackboardResource(base=base).blackboard
    board.page("")
    if not isinstance(board, S3Blackboard):
        return Finding("ok", f"{base} can be listed")
    probe = board.probe()
    if not (warnings := probe.warnings()):
        return Finding("ok", f"{base} can be listed and written, on conditions too")
    unsafe = any(each.needed and not each.honoured for each in probe.conditions)
    return Finding("fails" if unsafe else "warning", " ".join(warnings), "Heed this, or use another store.")


def _clock(as_of: datetime | None) -> Finding:
    if as_of:
        found = f"The time is fixed at {as_of:%Y-%m-%d %H:%M:%S} UTC."
        return Finding("warning", found, "In production unset FEED_ASSETS_AS_OF.")
    return Finding("ok", f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")


def _dagster(home: Path | None) -> Finding:
    if home is None and (configured := os.environ.get("DAGSTER_HOME")):
        return Finding("fails", f"DAGSTER_HOME is {configured}, which is no directory.", "Create it.")
    if home is None:
        return Finding("warning", "There is no Dagster home yet.", "In production set DAGSTER_HOME.")
    config = home / CONFIG
    if not os.access(home, os.R_OK | os.X_OK) or not config.is_file():
        require_writable(home, "DAGSTER_HOME")
        return Finding("warning", f"There is no {config}.", "Copy the one of deploy/.")
    with tempfile.TemporaryDirectory() as scratch, instance_at(home, _unchanged(home, scratch)) as instance:
        try:
            instance.get_runs_count()
        except Exception as error:  # noqa: BLE001 - each storage has errors of its own
            advice = f"Check `storage` in {config}. A new database gets its tables when Dagster starts."
            return Finding("fails", f"Dagster's storage does not answer: {str(error).splitlines()[0]}.", advice)
        if not instance.run_monitoring_enabled:
            advice = f"Set `run_monitoring: {{enabled: true}}` in {config}."
            return Finding("warning", "A run that never starts is not ended.", advice)
        return Finding("ok", f"{config} loads, its storage answers, {_workers(instance.run_launcher)}")


def _workers(launcher: Any) -> str:
    """Whether workers take runs. They have a launcher of their own (`feed_assets.warm_runs`), which knows the pool."""
    pool: Mapping[str, Any] = launcher.pool() if hasattr(launcher, "pool") else {}
    if pool:
        number = pool["workers"]
        return f"{counted(number, 'worker')} {'takes' if number == 1 else 'take'} runs of {pool['module']}"
    return "no workers run: each run starts a process of its own"


def _unchanged(home: Path, scratch: str) -> dict[str, Any]:
    """Settings with which opening the instance of this home creates no tables and no files."""
    with suppress(yaml.YAMLError, UnicodeDecodeError, AttributeError, TypeError):  # the instance reports them
        storage = (yaml.safe_load((home / CONFIG).read_text(encoding="utf-8")) or {}).get("storage")
        if storage is None and not (home / "history").exists():
            require_writable(home, "DAGSTER_HOME")
            return {"storage": {"sqlite": {"base_dir": scratch}}}
        if postgres := (storage or {}).get("postgres"):
            return {"storage": {"postgres": {**postgres, "should_autocreate_tables": False}}}
    return {}


def _state(url: str) -> Finding:
    place, store = shown(state_url(url)), Store(url)
    if store.is_current():
        return Finding("ok", f"{place} answers, its schema is the newest")
    if not store.exists():
        require_writable(Path(place).parent, STATE)
        return Finding("warning", f"{place} does not exist yet.", "The first use creates it.")
    return Finding("warning", f"{place} is empty or older.", "The first use creates or migrates its tables.")


def _warehouse(url: str) -> Finding:
    warehouse = open_warehouse(url)
    with warehouse.open(writes=False):
        return Finding("ok", f"{warehouse.title} answers")


def _catalog(database: str) -> Finding:
    catalog = open_catalog(database)
    return Finding("ok", f"{catalog.title} answers and has {counted(len(catalog.tables()), 'table')}")


def _disk(base: str) -> Finding:
    (place, free), *_ = free_space(base).items()
    found = f"{free / 2**20:,.0f} MiB are free for {place}"
    if free >= ENOUGH_FREE:
        return Finding("ok", found)
    return Finding("warning" if free >= LEAST_FREE else "fails", f"Only {found}.", "Free some, or move it.")


def _secrets() -> Iterator[str]:
    """The secrets of the environment. A password in a URL is there as it is written and as it is meant."""
    for variable in (STATE, WAREHOUSE):
        with suppress(ValueError):
            parts = urlsplit(os.environ.get(variable, ""))
            in_query = [value for name, value in parse_qsl(parts.query) if "password" in name.lower()]
            password = parts.password or ""
            yield from filter(None, (password, unquote(password), *in_query))
    yield from (value for name, value in os.environ.items() if value and _SECRET.search(name))
