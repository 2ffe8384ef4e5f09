"""Check what an installation needs to run: Java, Spark, storage, clock, Dagster's home, state database, disks.

Here: the checks, and free space. A check leaves nothing behind and shows no secret. Not here: finding the installation
and loading its module (`cli.doctor`), and checking data (`feed verify`).
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import pyspark
import yaml

from feed_assets.blackboard import AlreadyExistsError, Blackboard, BlackboardError, ConflictError
from feed_assets.engine.java import ensure_java, major_version
from feed_assets.engine.session import check_master
from feed_assets.operations.day_runs import CONFIG, instance_at
from feed_assets.resources import BlackboardResource, Settings, SettingsError
from feed_assets.state import Store
from feed_assets.state.address import VARIABLE as STATE
from feed_assets.state.address import shown, state_url

MOST_SKEW = timedelta(seconds=5)
"""A larger difference between the clocks of this machine and of the storage is reported."""

LEAST_FREE = 100 * 2**20
"""With fewer free bytes, a disk fails its check."""
ENOUGH_FREE = 2 * 2**30
"""With fewer free bytes, a disk gets a warning."""

KEY = "object"
_SECRET = re.compile(r"PASSWORD|SECRET|TOKEN|WEBHOOK")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: what was found, and what to do about it. `advice` is empty if it is ok."""

    check: str
    state: Literal["ok", "warning", "fails"]
    found: str
    advice: str = ""


Check = Callable[[], Finding]


def examine(settings: Settings, home: Path | None) -> Iterator[Finding]:
    """The results of all checks of a machine and its settings. `home` is Dagster's; None if there is none yet."""
    checks: Mapping[str, Check] = {
        "java": _java,
        "spark": lambda: _spark(settings.spark_master),
        **({"jars": _jars} if _in_bucket(settings.base) else {}),
        "storage": lambda: _storage(settings.base),
        "clock": lambda: _clock(settings),
        "dagster": lambda: _dagster(home),
        "state": lambda: _state(settings.state),
        "disk": lambda: _disk(settings.base),
    }
    for name, check in checks.items():
        yield checked(name, check)


def checked(name: str, check: Check) -> Finding:
    """The result of a check. If the check raises an error, it fails with the error's message, without secrets."""
    try:
        finding = check()
    except Exception as error:  # noqa: BLE001 - a broken installation can raise anything, and the next checks are wanted
        known = type(error).__module__.partition(".")[0] in {"feed_assets", "click"}
        text = str(getattr(error, "message", error)) if known else f"{type(error).__name__}: {error}"
        finding = Finding(name, "fails", " ".join(text.split()))
    found = finding.found
    for secret in _secrets(os.environ):
        found = found.replace(secret, "***")
    return Finding(name, finding.state, found, finding.advice)


def free_space(base: str) -> dict[str, int]:
    """The free bytes of each place that a run writes to, the fullest disk first."""
    places = {
        "the data": Path(base.removeprefix("file://")),
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
        raise SettingsError(
            f"{existing} {problem}: change its permissions, or set {variable} to a directory of your own."
        )


def _java() -> Finding:
    home = ensure_java()
    version = major_version(home / "bin" / "java")
    if version is None:
        return Finding("java", "fails", f"{home / 'bin' / 'java'} does not start.", "Install Java 17 or 21.")
    return Finding("java", "ok", f"Java {version} in {home}")


def _spark(master: str) -> Finding:
    check_master(master)
    return Finding("spark", "ok", f"pyspark {pyspark.__version__} on {master}")


def _jars() -> Finding:
    if find_spec("feed_assets.engine.buckets") is None:
        found = "This version of Spark's side cannot write to a bucket."
        return Finding("jars", "fails", found, "Set FEED_ASSETS_BASE to a directory.")
    jars = import_module("feed_assets.engine.buckets").bucket_jars()
    return Finding("jars", "ok", f"{len(jars)} for S3 in {jars[0].parent}")


def _storage(base: str) -> Finding:
    folder = Path(base.removeprefix("file://"))
    if not _in_bucket(base):
        require_writable(folder, "FEED_ASSETS_BASE")
        if not folder.exists():
            return Finding("storage", "warning", f"{folder} does not exist yet.", "The first landing creates it.")
    BlackboardResource.at(base).blackboard.page("")
    with _scratch(base) as board:
        missing = list(_missing_conditions(board))
    if missing:
        advice = "Writers could overwrite each other's updates: use another store."
        return Finding("storage", "fails", f"{base} does not honour: {', '.join(missing)}.", advice)
    return Finding("storage", "ok", f"{base} can be listed, read and written, on conditions too")


@contextmanager
def _scratch(base: str) -> Iterator[Blackboard]:
    """An empty place below the base; its object KEY is removed afterwards."""
    place = f"{base.rstrip('/')}/.doctor-{uuid4().hex}"
    board = BlackboardResource.at(place).blackboard
    try:
        yield board
    finally:
        board.delete(KEY)
        if not _in_bucket(base):
            shutil.rmtree(place.removeprefix("file://"), ignore_errors=True)


def _missing_conditions(board: Blackboard) -> Iterator[str]:
    """The conditions that the storage does not honour. Other probes, such as of uploads in parts, belong here."""
    board.create(KEY, b"1")
    if not _refused(lambda: board.create(KEY, b"2"), AlreadyExistsError):
        yield "create if absent"
    if not _refused(lambda: board.copy(KEY, KEY), AlreadyExistsError):
        yield "copy if absent"
    if not _refused(lambda: board.replace(KEY, b"3", tag="0" * 32), ConflictError):
        yield "replace if unchanged"
    if board.page("", after=KEY).entries:
        yield "list after a key"


def _refused(attempt: Callable[[], object], error: type[BlackboardError]) -> bool:
    try:
        attempt()
    except error:
        return True
    return False


def _clock(settings: Settings) -> Finding:
    if settings.as_of:
        advice = "In production unset FEED_ASSETS_AS_OF."
        return Finding("clock", "warning", f"The time is fixed at {settings.as_of:%Y-%m-%d %H:%M:%S}.", advice)
    if not _in_bucket(settings.base) and not Path(settings.base.removeprefix("file://")).exists():
        return Finding("clock", "ok", f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC; the storage has none yet")
    with _scratch(settings.base) as board:
        asked = datetime.now(UTC)
        stored = board.create(KEY, b"").modified
        answered = datetime.now(UTC)
    skew = max(asked - stored, stored - answered)
    if skew > MOST_SKEW:
        advice = "Updates are named by this clock: let NTP set it."
        return Finding("clock", "warning", f"Clock and storage differ by {skew.total_seconds():.0f} s.", advice)
    return Finding("clock", "ok", f"{answered:%Y-%m-%d %H:%M:%S} UTC, as the storage's")


def _dagster(home: Path | None) -> Finding:
    if home is None and (configured := os.environ.get("DAGSTER_HOME")):
        return Finding("dagster", "fails", f"DAGSTER_HOME is {configured}, which is no directory.", "Create it.")
    if home is None:
        return Finding("dagster", "warning", "There is no Dagster home yet.", "In production set DAGSTER_HOME.")
    if not (home / CONFIG).is_file():
        found = f"{home} has no {CONFIG}: runs have no queue and no monitoring."
        return Finding("dagster", "warning", found, "Copy the one of deploy/.")
    with tempfile.TemporaryDirectory() as scratch, instance_at(home, _unchanged(home, scratch)) as instance:
        try:
            instance.get_runs_count()
        except Exception as error:  # noqa: BLE001 - each storage has errors of its own
            advice = f"Check `storage` in {home / CONFIG}. A new database gets its tables when Dagster starts."
            return Finding("dagster", "fails", f"The storage does not answer: {str(error).splitlines()[0]}.", advice)
        if not instance.run_monitoring_enabled:
            advice = f"Set `run_monitoring: {{enabled: true}}` in {home / CONFIG}."
            return Finding("dagster", "warning", "A run that never starts is not ended.", advice)
    return Finding("dagster", "ok", f"{home} loads, its storage answers")


def _unchanged(home: Path, scratch: str) -> dict[str, Any]:
    """Settings with which opening the instance of this home creates no tables and no files."""
    with suppress(yaml.YAMLError, UnicodeDecodeError, AttributeError, TypeError):  # the instance reports them
        storage = (yaml.safe_load((home / CONFIG).read_text(encoding="utf-8")) or {}).get("storage")
        if storage is None and not (home / "history").exists():
            return {"storage": {"sqlite": {"base_dir": scratch}}}
        if postgres := (storage or {}).get("postgres"):
            return {"storage": {"postgres": {**postgres, "should_autocreate_tables": False}}}
    return {}


def _state(url: str) -> Finding:
    place, store = shown(state_url(url)), Store(url)
    if not store.exists():
        require_writable(Path(place).parent, STATE)
    if store.is_current():
        return Finding("state", "ok", f"{place} answers and has the newest schema")
    return Finding(
        "state", "warning", f"{place} is empty or older.", "The first tick of a sensor creates or migrates it."
    )


def _disk(base: str) -> Finding:
    (place, free), *_ = free_space(base).items()
    found = f"{free / 2**20:,.0f} MiB are free for {place}"
    if free >= ENOUGH_FREE:
        return Finding("disk", "ok", found)
    advice = "Free some, or move it: the variables are in the README."
    return Finding("disk", "warning" if free >= LEAST_FREE else "fails", f"Only {found}.", advice)


def _in_bucket(base: str) -> bool:
    return "://" in base.removeprefix("file://")


def _secrets(environment: Mapping[str, str]) -> Iterator[str]:
    """The passwords of the environment, as they are and as a URL has them."""
    with suppress(ValueError):
        if password := urlsplit(environment.get(STATE, "")).password:
            yield from (password, unquote(password))
    yield from (value for name, value in environment.items() if value and _SECRET.search(name))
