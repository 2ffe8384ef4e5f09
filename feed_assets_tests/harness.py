"""An installation of the project below a temporary directory, driven as Dagster drives it.

Here: raw files as a receiver leaves them, real runs, checks and sensor ticks, and what a plain reader sees. Not here:
any expectation. Everything runs in this process and shares its one Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.definitions.sensor_definition import SensorDefinition
from dagster._core.execution.api import create_execution_plan, execute_run
from dagster._core.execution.plan.state import KnownExecutionState
from dagster._core.test_utils import create_run_for_test

from feed_assets.ads.definitions import build_definitions
from feed_assets.blackboard.location import open_blackboard
from feed_assets.blackboard.port import Blackboard
from feed_assets.file_feed import (
    Facts,
    Feed,
    FeedInput,
    RawInput,
    Record,
    Rows,
    Staged,
    Update,
    claim,
    latest,
    publish,
    publish_files,
    records,
    reject,
    stage,
    staged_files,
)
from feed_assets.io_manager import retries
from feed_assets.resources.settings import Settings
from feed_assets.resources.storage import BlackboardResource, StateResource
from feed_assets.sources.raw import read_set
from feed_assets.starts.attempts import LOG, Attempts
from feed_assets.starts.tables import save_attempts
from feed_assets.state.store import Store

DAY = "2019-11-24"
NEXT_DAY = "2019-11-25"
AS_OF = datetime(2019, 12, 1, tzinfo=UTC)

ADS, CLICKS, EFFECTIVENESS, CATALOG = "clean-ads/v1.0", "clean-clicks/v1.0", "ad-effectiveness/v1.0", "ad-catalog/v1.0"
BOTH_CLEAN = ("clean_ads", "clean_clicks")
ALL = (*BOTH_CLEAN, "ad_effectiveness")

SHOP_ADS = """\
name: shop_ads
kind: ads
format: {type: csv, header: true, columns: [id, time, ad, campaign, user, place, cost]}
null_tokens: ["", "null"]
columns:
  impression_id: id
  event_time: to_timestamp(time)
  ad_id: ad
  campaign_id: campaign
  user_id: user
  placement_id: place
  cost: try_cast(cost AS DECIMAL(18, 6))
identity: [id]
growth_threshold_percent: 5
buffer_hours: 0
lookback_days: 7
"""

SHOP_CLICKS = """\
name: shop_clicks
kind: clicks
format: {type: csv, header: true, columns: [id, time, impression, ad, user]}
null_tokens: ["", "null"]
columns:
  click_id: id
  event_time: to_timestamp(time)
  impression_id: impression
  ad_id: ad
  user_id: user
identity: [id]
growth_threshold_percent: 5
buffer_hours: 0
lookback_days: 7
"""

Row = Mapping[str, str | None]

retries.PAUSES = (0.0, 0.0, 0.0)
"""No test waits for a store that it has made fail itself."""


def ad(name: str, time: str = f"{DAY} 12:00:00", **more: str | None) -> Row:
    """An impression as the shop sends it."""
    return {"id": name, "time": time, "ad": "a1", "campaign": "c1", "user": "u1", "place": "top", "cost": "0.5"} | more


def click(name: str, time: str = f"{DAY} 12:00:30", **more: str | None) -> Row:
    """A click as the shop sends it."""
    return {"id": name, "time": time, "impression": None, "ad": "a1", "user": "u1"} | more


def ads(count: int, day: str = DAY, start: int = 0, **more: str | None) -> list[Row]:
    """So many impressions of different users, one a second from noon."""
    return [
        ad(f"i{number}", f"{day} 12:{number // 60:02}:{number % 60:02}", **{"user": f"u{number}"} | more)
        for number in range(start, start + count)
    ]


@dataclass(frozen=True, slots=True)
class Tick:
    """What one evaluation of a sensor came to."""

    requests: tuple[dg.RunRequest, ...]
    events: tuple[dg.AssetMaterialization | dg.AssetObservation, ...]
    checked: tuple[dg.AssetCheckEvaluation, ...]
    skipped: str
    cursor: str

    @property
    def asked(self) -> dict[str, tuple[str, ...]]:
        """The partitions asked for, each with its assets."""
        return {
            request.partition_key or "": tuple(sorted(key.to_user_string() for key in request.asset_selection or ()))
            for request in self.requests
        }

    @property
    def reported(self) -> list[tuple[str, str | None, str]]:
        """The events: asset, partition, data version."""
        return [
            (event.asset_key.to_user_string(), event.partition, (event.tags or {}).get("dagster/data_version", ""))
            for event in self.events
        ]


@dataclass(slots=True)
class Installation:
    """One base directory, its definitions and the Dagster instance that knows of its runs."""

    settings: Settings
    instance: dg.DagsterInstance
    replaced: Mapping[str, Any] = field(default_factory=dict)
    cursors: dict[str, str] = field(default_factory=dict)
    _definitions: dg.Definitions | None = None

    # --- what there is -------------------------------------------------------------------------------------------

    @property
    def base(self) -> Path:
        return Path(self.settings.base)

    @property
    def board(self) -> Blackboard:
        return open_blackboard(self.settings.base)

    @property
    def store(self) -> Store:
        return Store(self.settings.state)

    @property
    def now(self) -> datetime:
        return self.settings.as_of or datetime.now(UTC)

    @property
    def definitions(self) -> dg.Definitions:
        if self._definitions is None:
            self._definitions = build_definitions(self.settings, **self.replaced)
        return self._definitions

    def using(self, **replaced: Any) -> Installation:
        """The same base and instance under other resources."""
        return replace(self, replaced={**self.replaced, **replaced}, cursors=self.cursors, _definitions=None)

    def at(self, moment: datetime) -> Installation:
        """The same base and instance at another time."""
        settings = replace(self.settings, as_of=moment)
        return replace(self, settings=settings, cursors=self.cursors, _definitions=None)

    def with_assets(self, *assets: dg.AssetsDefinition | dg.AssetSpec, checks: Iterable[Any] = ()) -> Installation:
        """The same base and instance with these assets instead of the project's."""
        definitions = dg.Definitions(
            assets=assets,
            asset_checks=list(checks),
            resources=self.definitions.resources,
            executor=dg.in_process_executor,
        )
        return replace(self, cursors=self.cursors, _definitions=definitions)

    # --- what is put there ---------------------------------------------------------------------------------------

    def land(
        self, rows: Iterable[Row], source: str = "ads/shop_ads", name: str = "x", *, day: str | None = None
    ) -> None:
        """Put raw files there, one for each hour, as a receiver that is not ours does; `day` overrules the time's."""
        hours: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            time = row["time"] or ""
            hours.setdefault((day or time[:10], time[11:13] or "00"), []).append(row)
        for (of, hour), there in hours.items():
            path = self.base / "raw" / source / of / hour / f"{name}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            schema = pa.schema([(column, pa.string()) for column in there[0]])
            pq.write_table(pa.Table.from_pylist([dict(row) for row in there], schema=schema), path)

    def land_clicks(self, rows: Iterable[Row], name: str = "x", *, day: str | None = None) -> None:
        self.land(rows, "clicks/shop_clicks", name, day=day)

    def raw_bytes(self, day: str, sizes: Mapping[str, int], source: str = "ads/shop_ads", hour: str = "12") -> None:
        """Put files of these sizes there, whose content nobody is going to read."""
        for name, size in sizes.items():
            path = self.base / "raw" / source / day / hour / f"{name}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x" * size)

    def publish(self, location: str, partition: str | None, files: Mapping[str, str], scratch: Path) -> Update:
        """Publish text files as another program does."""
        scratch.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, content in files.items():
            paths.append(scratch / name)
            paths[-1].write_text(content, encoding="utf-8")
        return publish_files(self.feed(location), partition, paths, now=self.now, owner="others")

    def mix(self, location: str) -> None:
        """Put valid updates at two levels of a feed, so that nobody can tell how to read it."""
        for place in ("20191124.100000", f"{DAY}/20191124.100000"):
            update = self.base / location / place
            update.mkdir(parents=True)
            (update / "part-0").write_text("x", encoding="utf-8")
            (update / "_SUCCESS").write_text("1", encoding="utf-8")

    def make(
        self,
        location: str,
        day: str,
        inputs: Iterable[FeedInput | RawInput],
        *,
        good: bool = True,
        run_id: str = "",
        content: bytes = b"x",
        details: Mapping[str, Any] | None = None,
        rows: int | None = None,
    ) -> str:
        """An update of one file that says to have read these, published or rejected; nothing is computed."""
        staged = self.stage(location, day, inputs, run_id=run_id, content=content, details=details, rows=rows)
        if good:
            publish(staged, now=self.now)
        else:
            reject(staged, reason="bad data", now=self.now)
        return staged.claim.name

    def stage(
        self,
        location: str,
        day: str,
        inputs: Iterable[FeedInput | RawInput] = (),
        *,
        run_id: str = "",
        content: bytes = b"x",
        details: Mapping[str, Any] | None = None,
        rows: int | None = None,
    ) -> Staged:
        """As `make`, by a run whose audit is to come."""
        claimed = claim(self.feed(location), day, now=self.now, owner="test")
        self.board.create(f"{claimed.prefix}part-0.parquet", content)
        counted = None if rows is None else Rows(rows, rows, 0, 0)
        facts = Facts(inputs=tuple(inputs), run_id=run_id, details=details or {}, rows=counted)
        return stage(claimed, staged_files(claimed, 1), facts, now=self.now)

    def process(
        self,
        day: str = DAY,
        kind: str = "ads",
        *,
        good: bool = True,
        content: bytes = b"x",
        run_id: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> str:
        """The clean update of a day from what lies there now, as far as its record goes."""
        read = read_set(self.board, f"{kind}/shop_{kind}", date.fromisoformat(day))
        location = f"clean-{kind}/v1.0"
        return self.make(location, day, [read], good=good, content=content, run_id=run_id, details=details)

    def relate(self, day: str = DAY, *, good: bool = True) -> str:
        """The effectiveness of a day from what is in force now, as far as its record goes."""
        here = date.fromisoformat(day)
        before, after = str(here - timedelta(days=1)), str(here + timedelta(days=1))
        inputs = [FeedInput(ADS, each, self.latest(ADS, each), context=each != day) for each in (before, day, after)]
        inputs += [FeedInput(CLICKS, each, self.latest(CLICKS, each)) for each in (day, after)]
        inputs += [FeedInput(CATALOG, None, self.latest(CATALOG, None))]
        return self.make(EFFECTIVENESS, day, inputs, good=good)

    # --- what is run ---------------------------------------------------------------------------------------------

    def run(
        self,
        *assets: str,
        day: str | None = DAY,
        config: Any = None,
        tags: Mapping[str, str] | None = None,
        checks: bool = True,
        raise_on_error: bool = False,
    ) -> dg.ExecuteInProcessResult:
        """A real run of these assets, with their checks unless told otherwise; no day where tags name a range."""
        job = self.definitions.resolve_implicit_global_asset_job_def()
        selection = {dg.AssetKey.from_user_string(name) for name in assets}
        subset = job.get_subset(asset_selection=selection, asset_check_selection=None if checks else set())
        return subset.execute_in_process(
            instance=self.instance,
            partition_key=day,
            raise_on_error=raise_on_error,
            run_config=config,
            tags=dict(tags or {}),
        )

    def reexecute(self, run_id: str) -> dg.JobExecutionResult:
        """Execute the steps of a run again that failed or did not start, as the UI and Dagster's own retries do."""
        parent = self.instance.get_run_by_id(run_id)
        assert parent is not None
        job = self.definitions.resolve_implicit_global_asset_job_def().get_subset(
            asset_selection=parent.asset_selection, asset_check_selection=parent.asset_check_selection
        )
        steps, known = KnownExecutionState.build_resume_retry_reexecution(self.instance, parent)
        plan = create_execution_plan(job, step_keys_to_execute=steps, known_state=known, tags=parent.tags)
        run = self.instance.create_run_for_job(
            job,
            execution_plan=plan,
            tags=parent.tags,
            asset_selection=parent.asset_selection,
            parent_run_id=run_id,
            root_run_id=parent.root_run_id or run_id,
        )
        return execute_run(InMemoryJob(job), run, self.instance, raise_on_error=False)

    def check(self, asset: str, day: str | None = DAY, *names: str) -> dg.ExecuteInProcessResult:
        """A run of nothing but the checks of an asset, or of these of them."""
        job = self.definitions.resolve_implicit_global_asset_job_def()
        keys = {
            key
            for key in self.definitions.resolve_asset_graph().asset_check_keys
            if key.asset_key == dg.AssetKey.from_user_string(asset) and (not names or key.name in names)
        }
        subset = job.get_subset(asset_selection=set(), asset_check_selection=keys)
        return subset.execute_in_process(instance=self.instance, partition_key=day, raise_on_error=False)

    def tick(self, name: str) -> Tick:
        """Evaluate a sensor where its cursor stands, and check and store what it answers as the daemon does."""
        sensor = self.definitions.resolve_sensor_def(name)
        assert isinstance(sensor, SensorDefinition)
        context = dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursors.get(name),
            definitions=self.definitions,
            resources={key: self.definitions.resources[key] for key in sensor.required_resource_keys},
        )
        with context:
            result = sensor.evaluate_tick(context)
        for event in result.asset_events:
            self.instance.report_runless_asset_event(event)
        self.cursors[name] = result.cursor or ""
        return Tick(
            tuple(result.run_requests or ()),
            tuple(each for each in result.asset_events if not isinstance(each, dg.AssetCheckEvaluation)),
            tuple(each for each in result.asset_events if isinstance(each, dg.AssetCheckEvaluation)),
            result.skip_message or "",
            result.cursor or "",
        )

    def fail(self, tick: Tick, status: dg.DagsterRunStatus = dg.DagsterRunStatus.FAILURE) -> None:
        """Have the runs that a tick asked for, each of which failed before it made anything, or is at another point."""
        for request in tick.requests:
            create_run_for_test(
                self.instance,
                status=status,
                tags={
                    **request.tags,
                    "dagster/run_key": request.run_key or "",
                    "dagster/partition": request.partition_key or "",
                },
                asset_selection=frozenset(request.asset_selection or ()),
            )

    def an_hour_ago(self, location: str, day: str = DAY) -> None:
        """Date the request that is on record back, instead of waiting until it may be repeated."""
        base, then = self.settings.blackboard.blackboard.uri(""), AS_OF - timedelta(hours=1)
        asked = Attempts(self.store, base, lambda: AS_OF).newest(location, [day])[day]
        ended = None if asked.ended is None else then
        with self.store.writing(LOG) as transaction:
            save_attempts(transaction, base, [replace(asked, requested=then, ended=ended)], AS_OF)

    def execute(self, tick: Tick) -> list[dg.ExecuteInProcessResult]:
        """Run what a tick asked for."""
        return [
            self.run(
                *(key.to_user_string() for key in request.asset_selection or ()),
                day=request.partition_key or "",
                tags=request.tags,
            )
            for request in tick.requests
        ]

    # --- what is there afterwards --------------------------------------------------------------------------------

    def feed(self, location: str) -> Feed:
        return Feed(self.board, location)

    def latest(self, location: str, day: str | None = DAY) -> str | None:
        update = latest(self.feed(location), day, now=self.now)
        return update.name if update else None

    def record(self, location: str, day: str = DAY) -> Record:
        """The record of the newest update, whatever became of it."""
        return records(self.feed(location), day, newest=1)[0]

    def update_directory(self, location: str, day: str = DAY) -> Path:
        """Where the newest update is, whatever became of it."""
        return self.base / location / day / self.record(location, day).update

    def rewrite(self, location: str, change: Callable[[pa.Table], pa.Table], day: str = DAY) -> None:
        """Replace what the newest update's largest file holds, as a disk or a person might."""
        path = max(self.update_directory(location, day).glob("part-*"), key=lambda path: path.stat().st_size)
        # Without Spark's own account of the schema, and without the promise that nothing is NULL.
        table = pq.read_table(path)
        table = table.cast(pa.schema([field.with_nullable(True) for field in table.schema]))
        table = change(table.replace_schema_metadata(None))
        path.unlink()
        pq.write_table(table, path)

    def rows(self, location: str, day: str = DAY) -> list[dict[str, Any]]:
        """The rows of the update in force, as a program that knows only the plain rule reads them."""
        updates = sorted((self.base / location / day).iterdir(), reverse=True)
        for update in updates:
            files = [path for path in update.rglob("*") if path.is_file() and path.name != "_SUCCESS"]
            manifest = update / "_SUCCESS"
            if manifest.is_file() and manifest.read_text().strip() == str(len(files)):
                return [row for path in sorted(files) for row in pq.read_table(path).to_pylist()]
        message = f"{location} has no valid update of {day}"
        raise LookupError(message)


def settings_below(base: Path | str, sources: Path, **more: Any) -> Settings:
    """Settings of an installation with its data and its sources in these directories."""
    environment = {
        "FEED_ASSETS_BASE": str(base),
        "FEED_ASSETS_FIRST_DAY": "2019-11-20",
        "FEED_ASSETS_AS_OF": AS_OF.isoformat(),
        "FEED_ASSETS_SOURCES": str(sources),
        "FEED_ASSETS_SPARK_MASTER": "local[2]",
        # So that a tick finds what another program wrote.
        "FEED_ASSETS_SCAN_SECONDS": "0",
    }
    return replace(Settings.from_environment(environment), **more)


def write_sources(directory: Path, *texts: str) -> Path:
    """A directory with these descriptions of sources."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(texts):
        (directory / f"{number}.yaml").write_text(text, encoding="utf-8")
    return directory


def between(first: str, last: str) -> dict[str, str]:
    """The tags of a run over several days."""
    return {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}


def days(count: int, last: date = date(2019, 11, 30)) -> list[str]:
    """So many days that end with this one."""
    return [str(last - timedelta(days=ago)) for ago in range(count - 1, -1, -1)]


def messages(result: dg.ExecuteInProcessResult | dg.JobExecutionResult) -> list[str]:
    """Why the steps of a run failed: the error of each, down to its root."""
    found = []
    for event in result.all_events:
        error = event.step_failure_data.error if event.is_step_failure else None
        while error is not None:
            found.append(error.message)
            error = error.cause
    return found


def failed_checks(result: dg.ExecuteInProcessResult | dg.JobExecutionResult) -> list[str]:
    """The names of the checks that did not pass, whatever their severity."""
    return [evaluation.check_name for evaluation in result.get_asset_check_evaluations() if not evaluation.passed]


class Interposed:
    """A blackboard that calls `before` with the operation and the key, before each write and each read of an object.

    What it raises is what the store answers.
    """

    def __init__(self, inner: Blackboard, before: Callable[[str, str], None]) -> None:
        self._inner = inner
        self._before = before

    def __getattr__(self, operation: str) -> Any:
        answer = getattr(self._inner, operation)
        if operation not in {"create", "replace", "read", "page", "upload"}:
            return answer

        def asked(key: str, *arguments: Any, **more: Any) -> Any:
            self._before(operation, key)
            return answer(key, *arguments, **more)

        return asked


def second_read(installation: Installation, location: str, then: Callable[[], object]) -> Installation:
    """The same installation; `then` is called before the second read of a record of this feed."""
    keys: list[str] = []

    def look(operation: str, key: str) -> None:
        if operation == "read" and key.startswith(f"{location}/.feed/records/"):
            keys.append(key)
            if len(keys) == 2:
                then()

    return using_board(installation, Interposed(installation.board, look))


class SwitchedBlackboardResource(BlackboardResource):
    """A resource that hands out the blackboard registered for its base: one that records, fails or kills."""

    @property
    def blackboard(self) -> Blackboard:
        return REGISTERED[self.base]


REGISTERED: dict[str, Blackboard] = {}


def using_board(installation: Installation, board: Blackboard) -> Installation:
    """The same installation with its storage behind this blackboard."""
    REGISTERED[installation.settings.base] = board
    return installation.using(blackboard=SwitchedBlackboardResource(base=installation.settings.base))


class InterposedState(StateResource):
    """A state database whose transactions that write, or read, call first what is registered for its URL."""

    @property
    def store(self) -> Store:
        operation, before = INTERPOSED[self.url]

        class Interposing(Store):
            def __getattribute__(self, name: str) -> Any:
                if name == operation:
                    before()
                return super().__getattribute__(name)

        return Interposing(self.url)


INTERPOSED: dict[str, tuple[str, Callable[[], None]]] = {}


def before_state(installation: Installation, operation: str, before: Callable[[], None]) -> Installation:
    """The same installation; `before` is called when a transaction begins, `writing` or `reading`."""
    url = installation.settings.state
    INTERPOSED[url] = operation, before
    return installation.using(state=InterposedState(url=url))
