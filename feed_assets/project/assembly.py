"""Build the definitions of a project: its assets, with raw data, resources, the IO manager and sensors.

Here: the parts of every project. Not here: the assets of the worked example (`feed_assets.definitions`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from feed_assets.assets.catalog import in_catalog
from feed_assets.assets.checked_hours import checked_key
from feed_assets.assets.delivered import split_deliveries
from feed_assets.assets.external import raw_key, raw_logs
from feed_assets.assets.late_data_reports import late_data_reports
from feed_assets.assets.warehouse import warehouse_tables
from feed_assets.checks.arrivals import arrival_checks
from feed_assets.checks.asset_checks import Limits
from feed_assets.checks.deadlines import deadline_checks
from feed_assets.checks.deeper_checks import DEEPER, SLOT_MARKS
from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.dependencies.declared.loading import DeclaredDataset, load_datasets
from feed_assets.feed_events.declarations import declared_feed
from feed_assets.feed_events.scheduled import remembers
from feed_assets.feed_events.triggers import TRIGGER
from feed_assets.io_manager.live_steps import LIVE_STEPS, live_steps
from feed_assets.io_manager.manager import file_feed_io_manager
from feed_assets.io_manager.run_attempts import ATTEMPTS, run_attempts
from feed_assets.late_data.day_phases import lookback_days
from feed_assets.notices.mail import VARIABLE as SMTP
from feed_assets.partitions.days import are_utc_days, daily, hourly
from feed_assets.processes.child import WARM_WORKER, end_with_parent
from feed_assets.resources.data_catalog import CatalogResource
from feed_assets.resources.notifier import WEBHOOK, MailResource, WebhookNotifier
from feed_assets.resources.settings import Settings
from feed_assets.resources.storage import StateResource
from feed_assets.resources.warehouse import WarehouseResource
from feed_assets.schedules import polls, with_schedules
from feed_assets.sensors.alerts import alerts
from feed_assets.sensors.arrivals import arrivals
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.complete_hours import complete_hours
from feed_assets.sensors.data_catalog import data_catalog
from feed_assets.sensors.flows import Flows
from feed_assets.sensors.landings import landings
from feed_assets.sensors.late_growth import late_growth
from feed_assets.sensors.late_reports import late_reports
from feed_assets.sensors.new_manifests import new_manifests
from feed_assets.sensors.outside_lookback import outside_lookback
from feed_assets.sensors.remembered_ticks import remembered_ticks
from feed_assets.sensors.run_history import run_history
from feed_assets.sensors.slot_marks import ProjectSlotMarks
from feed_assets.sensors.slot_quality import slot_quality
from feed_assets.sensors.starts import starts
from feed_assets.sensors.ticks import HandOver, run_all
from feed_assets.sensors.warehouse_loads import warehouse_loads
from feed_assets.sensors.workflow_alerts import workflow_alerts
from feed_assets.sources.kinds import Kind
from feed_assets.sources.loading import usable_sources
from feed_assets.sources.spec import Source
from feed_assets.state.address import VARIABLE as STATE
from feed_assets.warehouse.address import warehouse_kind
from feed_assets.workers.assembly import WORKFLOWS, ProjectWorkflows
from feed_assets.workers.handing_over import HandingOver
from feed_assets.workflow.flow import Workflow

if TYPE_CHECKING:
    from feed_assets.project.deliveries import Deliveries

_log = logging.getLogger("feed_assets.project")

PROJECT = "project"
"""The resource in which `feed-assets --module` finds the project of some definitions."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project: the settings of this installation, and the sources of its records.

    `feed-assets explain` prints `note`, such as which assets this installation lacks, and why. Triggers may name
    `datasets`, which are neither feeds nor raw data: those of `load_datasets`.
    """

    settings: Settings
    sources: tuple[Source, ...]
    note: str = ""
    datasets: tuple[DeclaredDataset, ...] = ()

    @classmethod
    def of(cls, *kinds: Kind, sources: Path, first_day: date, environment: Mapping[str, str] = os.environ) -> Project:
        """The project with sources of these kinds, and with the settings of the environment.

        `sources` is the directory of the sources' YAML; `first_day` is the first daily partition. FEED_ASSETS_SOURCES
        and FEED_ASSETS_FIRST_DAY override them. A source whose description cannot be used is one of them: its files do
        not land, and days of its kind are not computed. Raises SettingsError, KindError, and SpecError if the
        description does not even tell its kind and name.
        """
        settings = Settings.from_environment(environment, sources_directory=sources, first_day=first_day)
        return cls.with_sources(settings, usable_sources(settings.sources_directory, kinds))

    @classmethod
    def with_sources(cls, settings: Settings, sources: tuple[Source, ...], *, note: str = "") -> Project:
        """The project with these sources, and with the datasets of the settings' directory. Raises SpecError."""
        datasets = load_datasets(settings.datasets_directory, first_day=settings.first_day)
        return cls(settings, with_schedules(sources), note, datasets)

    @property
    def days(self) -> dg.DailyPartitionsDefinition:
        """The partitions of daily assets: UTC days from `first_day` to yesterday."""
        return daily(self.settings)

    @property
    def hours(self) -> dg.HourlyPartitionsDefinition:
        """The partitions of hourly assets: UTC hours from `first_day` to the last hour that is over."""
        return hourly(self.settings)

    def definitions(
        self,
        *,
        assets: Iterable[dg.AssetsDefinition | dg.AssetSpec],
        asset_checks: Sequence[dg.AssetChecksDefinition] = (),
        jobs: Sequence[Any] = (),
        schedules: Sequence[Any] = (),
        resources: Mapping[str, Any] | None = None,
        workflows: Sequence[Workflow] = (),
        domain: str = "",
    ) -> dg.Definitions:
        """The definitions of this project: its assets and checks, raw data, resources and sensors.

        `assets` may have some that `delivered` returns, each beside the asset that it delivers. `resources` are added,
        or replace the project's own: `blackboard`, `state`, `spark`, `clock`, `limits`, `notifier`, `mail`,
        `warehouse`, `catalog`. `workflows` are run by `feed-assets workflow`. `domain` is a tag of every asset. Add
        anything else with `dg.Definitions.merge`. Raises DagsterInvalidDefinitionError if two daily assets read raw
        data of one kind, if one asset reads two kinds, if a daily asset of raw data has other days than from midnight
        to midnight UTC, if an audited asset has no checks, if an hourly asset has a deadline, if two assets publish to
        one feed, if a trigger or a workflow cannot work, or if two feeds name the same table of the warehouse;
        DestinationError if a destination is wrong, or does not fit the feed that it gets.
        """
        # A step's process of a warm run: Dagster itself notices only that nobody reads the step's events.
        end_with_parent(os.EX_UNAVAILABLE, only=WARM_WORKER)
        settings = self.settings
        for source in self._unusable:
            _log.error("%s is stopped, and days of %s wait: %s", source.key, source.kind, source.problems)
        own, delivered = split_deliveries(assets)
        _require_own_feeds(own)
        _require_audits(own, asset_checks)
        marks = ProjectSlotMarks(
            self.sources,
            settings.first_day,
            self.datasets,
            lambda: made.resolve_asset_graph(),  # noqa: PLW0108 - made below
        )
        found = ProjectWorkflows.of(workflows, asset_checks)
        hand_over = HandingOver(found, settings.base) if found.computed else run_all
        flows = {WORKFLOWS: found} if workflows else {}
        given = {**self._resources(), SLOT_MARKS: marks, **flows, **(resources or {})}
        raw = [raw_logs(source, self.hours) for source in self.sources]
        reports = [late_data_reports(self.days)] if self.sources else []
        channels = frozenset({"mail", "notifier"} & given.keys())
        loads = list(warehouse_tables(own, warehouse_kind(settings.warehouse))) if settings.warehouse else []
        tables = [each for each in loads if not isinstance(each, dg.AssetChecksDefinition)]
        deliveries = _deliveries(delivered, own, settings) if delivered else None
        made = dg.Definitions(
            assets=[
                *in_catalog([*raw, *own, *reports], self.sources, settings, domain=domain),
                *tables,
                *(deliveries.assets if deliveries else ()),
            ],
            asset_checks=[
                *asset_checks,
                *deadline_checks(own),
                *arrival_checks(self.sources),
                *(each for each in loads if isinstance(each, dg.AssetChecksDefinition)),
                *(deliveries.checks if deliveries else ()),
            ],
            sensors=[
                *self._sensors(own, channels, hand_over, found, warehouse=bool(tables)),
                *(deliveries.sensors if deliveries else ()),
                *_remembered(schedules, settings),
            ],
            jobs=jobs,
            schedules=[*schedules, *polls(self.sources, settings)],
            resources={"file_feed": file_feed_io_manager(self.sources, _read_by_flows(own)), **given},
            # One Spark for all steps of a run: starting a JVM takes longer than a step.
            executor=dg.in_process_executor,
        )
        if _has_trigger(own):  # refuses triggers that cannot work
            graph = AssetFeedGraph.of_graph(made.resolve_asset_graph())
            Flows.of(graph, self.sources, settings.first_day, self.datasets)
        return made

    @property
    def _unusable(self) -> list[Source]:
        return [source for source in self.sources if source.problems]

    def _resources(self) -> dict[str, Any]:
        settings = self.settings
        found: dict[str, Any] = {
            "blackboard": settings.blackboard,
            # Dagster shows the configuration of a resource, and a server's URL may hold a password.
            "state": StateResource(url=settings.state if settings.state.startswith("sqlite:") else dg.EnvVar(STATE)),
            "spark": settings.spark,
            "clock": settings.clock,
            "limits": Limits(),
            ATTEMPTS: run_attempts,
            LIVE_STEPS: live_steps(),
            PROJECT: self,
        }
        if settings.warehouse:
            found["warehouse"] = WarehouseResource.at(settings.warehouse)
        if settings.catalog:
            found["catalog"] = CatalogResource(database=settings.catalog)
        if settings.alerts:
            found["notifier"] = WebhookNotifier(url=dg.EnvVar(WEBHOOK))
        if settings.smtp:
            recipients = list(settings.mail_to)
            found["mail"] = MailResource(url=dg.EnvVar(SMTP), sender=settings.mail_from, recipients=recipients)
        return found

    def _sensors(
        self,
        assets: Sequence[dg.AssetsDefinition | dg.AssetSpec],
        channels: frozenset[str],
        hand_over: HandOver,
        workflows: ProjectWorkflows,
        *,
        warehouse: bool,
    ) -> Iterator[dg.SensorDefinition]:
        settings, sources = self.settings, self.sources
        interval, run_config = settings.sensor_seconds, settings.run_config
        waiting = {source.kind: source.key for source in self._unusable}
        cleaned = {kind: key for kind, key in self._cleaned(assets).items() if kind not in waiting}
        yield late_growth(
            sources, cleaned, waiting=waiting, interval_seconds=interval, run_config=run_config, hand_over=hand_over
        )
        if sources:
            yield outside_lookback(
                sources,
                self._cleaned(assets),
                channels=channels,
                interval_seconds=interval,
                run_config=run_config,
                hand_over=hand_over,
            )
        yield new_manifests(
            sources,
            first_day=settings.first_day,
            datasets=self.datasets,
            lookback_days=lookback_days(sources),
            interval_seconds=interval,
            scan_seconds=settings.scan_seconds,
            run_config=run_config,
            hand_over=hand_over,
        )
        if _has_trigger(assets):
            yield starts(
                sources,
                cleaned,
                first_day=settings.first_day,
                datasets=self.datasets,
                lookback_days=lookback_days(sources),
                interval_seconds=interval,
                run_config=run_config,
                hand_over=hand_over,
            )
            yield slot_quality(
                sources,
                first_day=settings.first_day,
                datasets=self.datasets,
                interval_seconds=interval,
                run_config=run_config,
            )
        if checked := self._checked_hours(assets):
            yield complete_hours(
                sources,
                checked,
                interval_seconds=interval,
                run_config=run_config,
                hand_over=hand_over,
                early=isinstance(hand_over, HandingOver) and hand_over.takes(checked.values()),
            )
        if sources:
            yield late_reports(sources, channels=channels, interval_seconds=interval)
            yield arrivals(sources, channels=channels, interval_seconds=interval)
        yield landings(sources, self.hours, interval_seconds=interval)
        flows = [each.name for each in workflows.flows]
        yield run_history(channels=channels, interval_seconds=interval, workflows=flows)
        if warehouse:
            yield warehouse_loads(interval_seconds=interval, run_config=run_config)
        if settings.catalog:
            yield data_catalog(sources, settings.first_day, interval_seconds=interval)
        if "notifier" in channels:
            yield alerts(interval_seconds=interval)
        if workflows.flows:
            yield workflow_alerts(workflows, notifies="notifier" in channels, interval_seconds=interval)

    def _checked_hours(self, assets: Iterable[dg.AssetsDefinition | dg.AssetSpec]) -> dict[str, dg.AssetKey]:
        """The asset of the checked hours of each source that has one."""
        keys = {key for each in assets if isinstance(each, dg.AssetsDefinition) for key in each.keys}
        usable = (source for source in self.sources if not source.problems)
        return {source.key: key for source in usable if (key := checked_key(source)) in keys}

    def _cleaned(self, assets: Iterable[dg.AssetsDefinition | dg.AssetSpec]) -> dict[str, dg.AssetKey]:
        """The daily asset that reads the raw data of each kind: `late_growth` runs it."""
        kinds = {raw_key(source): source.kind for source in self.sources}
        found: dict[str, dg.AssetKey] = {}
        for asset in assets:
            if not isinstance(getattr(asset, "partitions_def", None), dg.DailyPartitionsDefinition):
                continue
            for key, upstream in asset.asset_deps.items() if isinstance(asset, dg.AssetsDefinition) else ():
                for kind in {kinds[each] for each in upstream if each in kinds}:
                    if kind in found or key in found.values():
                        raise dg.DagsterInvalidDefinitionError(
                            f"{key.to_user_string()} reads raw data of the kind {kind}, but late data runs one daily "
                            "asset of each kind: let one asset clean one kind, and the others read its feed."
                        )
                    if not are_utc_days(asset.partitions_def):
                        raise dg.DagsterInvalidDefinitionError(
                            f"{key.to_user_string()} reads raw data, and late data is compared by UTC days: let an "
                            "asset with the partitions `project.days` clean it, and the others read its feed."
                        )
                    found[kind] = key
        return found


def _remembered(schedules: Iterable[Any], settings: Settings) -> Iterator[dg.SensorDefinition]:
    """The sensor that starts what these schedules remember, if one of them does."""
    jobs = {each.name: each.job for each in schedules if remembers(each)}
    if jobs:
        yield remembered_ticks(jobs, interval_seconds=settings.sensor_seconds)


def _deliveries(
    delivered: Sequence[dg.AssetSpec], feeds: Sequence[dg.AssetsDefinition | dg.AssetSpec], settings: Settings
) -> Deliveries:
    """The deliveries, which need packages of their own. Raises DagsterInvalidDefinitionError without them."""
    try:
        from feed_assets.project.deliveries import Deliveries  # noqa: PLC0415 - loads what only deliveries need
    except ModuleNotFoundError as error:
        message = f"`delivered` needs the package {error.name}: pip install 'feed_assets[delivery]'."
        raise dg.DagsterInvalidDefinitionError(message) from None
    return Deliveries.of(delivered, feeds, settings)


def _require_own_feeds(assets: Iterable[dg.AssetsDefinition | dg.AssetSpec]) -> None:
    """Raise DagsterInvalidDefinitionError if two assets publish to one feed: each would replace the other's updates."""
    publishers: dict[str, dg.AssetKey] = {}
    for key, declared in _computed_feeds(assets):
        other = publishers.setdefault(declared.location, key)
        if other != key:
            names = f"{other.to_user_string()} and {key.to_user_string()}"
            raise dg.DagsterInvalidDefinitionError(
                f"{names} publish to the same feed, {declared.location}: give each its own location."
            )


def _require_audits(
    assets: Iterable[dg.AssetsDefinition | dg.AssetSpec], asset_checks: Iterable[dg.AssetChecksDefinition]
) -> None:
    """Raise DagsterInvalidDefinitionError if an asset is an audited feed without checks: nobody would publish it."""
    checked = {spec.asset_key for each in asset_checks for spec in each.check_specs if DEEPER not in spec.metadata}
    for key, declared in _computed_feeds(assets):
        if declared.audited and key not in checked:
            raise dg.DagsterInvalidDefinitionError(
                f"{key.to_user_string()} is audited, but has no audit to publish its updates: add "
                "`checks.audit` of it to `asset_checks`, or leave out `audited=True`."
            )


def _read_by_flows(assets: Iterable[dg.AssetsDefinition | dg.AssetSpec]) -> frozenset[dg.AssetKey]:
    """The assets that assets with a trigger read."""
    flows = (spec for spec in _specs(assets) if TRIGGER in spec.metadata)
    return frozenset(dep.asset_key for spec in flows for dep in spec.deps)


def _computed_feeds(
    assets: Iterable[dg.AssetsDefinition | dg.AssetSpec],
) -> Iterator[tuple[dg.AssetKey, FeedDeclaration]]:
    """The feeds that are computed here, each with its asset."""
    for spec in _specs(assets):
        if (declared := declared_feed(spec.metadata)) is not None:
            yield spec.key, declared


def _has_trigger(assets: Iterable[dg.AssetsDefinition | dg.AssetSpec]) -> bool:
    return any(TRIGGER in spec.metadata for spec in _specs(assets))


def _specs(assets: Iterable[dg.AssetsDefinition | dg.AssetSpec]) -> Iterator[dg.AssetSpec]:
    """The assets that are computed here."""
    for asset in assets:
        yield from asset.specs if isinstance(asset, dg.AssetsDefinition) else ()
