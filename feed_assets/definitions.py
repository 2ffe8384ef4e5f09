"""The table of contents: every asset, check, job, schedule, sensor and resource of this code location.

Here: what there is. Not here: how any of it works. Tests build the same definitions with other settings.
"""

from __future__ import annotations

from typing import Any

import dagster as dg

from feed_assets import assets, checks, sensors
from feed_assets.ads import ADS, CLICKS, KINDS
from feed_assets.ads.expectations import for_clean, for_effectiveness
from feed_assets.ads.partners import partners_directory
from feed_assets.assets.common import Rules
from feed_assets.datasets import FeedDeclaration
from feed_assets.io_manager import FileFeedIOManager
from feed_assets.io_manager.asset_metadata import declared_feed
from feed_assets.jobs import PROCESS_DAY, define_jobs
from feed_assets.partitions import daily, hourly
from feed_assets.resources import BlackboardResource, Settings, SparkResource, StateResource, WebhookNotifier
from feed_assets.resources.notifier import WEBHOOK
from feed_assets.schedules import process_yesterday
from feed_assets.sources import load_sources
from feed_assets.state.address import VARIABLE as STATE


def build_definitions(settings: Settings, **replaced: Any) -> dg.Definitions:
    """The definitions of an installation; `replaced` are resources to use instead of those the settings give."""
    sources = load_sources(settings.sources_directory, KINDS)
    days, hours = daily(settings), hourly(settings)

    make = {ADS.name: assets.clean_ads, CLICKS.name: assets.clean_clicks}
    clean = {kind.name: make[kind.name](sources, days) for kind in assets.fed_kinds(sources, KINDS)}
    audits = [checks.audit(asset, for_clean(_feed(asset))) for asset in clean.values()]
    derived: list[dg.AssetsDefinition] = []
    if len(clean) == len(make):
        ad_effectiveness = assets.ad_effectiveness(days)
        derived = [ad_effectiveness]
        audits.append(checks.audit(ad_effectiveness, for_effectiveness(_feed(ad_effectiveness))))

    resources: dict[str, Any] = {
        "blackboard": BlackboardResource.at(settings.base),
        # Dagster shows what a resource is made with, and a server's URL may hold a password.
        "state": StateResource(url=settings.state if settings.state.startswith("sqlite:") else dg.EnvVar(STATE)),
        "spark": SparkResource.on(settings.spark_master),
        "clock": settings.clock,
        "rules": Rules(),
        "limits": checks.Limits(),
        **({"notifier": WebhookNotifier(url=dg.EnvVar(WEBHOOK))} if settings.alerts else {}),
        **replaced,
    }
    # The IO manager works with the very resources that checks and sensors get.
    file_feed = FileFeedIOManager(
        blackboard=resources["blackboard"],
        spark=resources["spark"],
        clock=resources["clock"],
        sources={source.key: source for source in sources},
    )
    raw = [assets.raw_logs(source, hours) for source in sources]
    jobs = define_jobs([*clean.values()], derived, days, run_config=settings.run_config)
    return dg.Definitions(
        assets=assets.in_catalog(
            [*raw, assets.ad_catalog(), *clean.values(), *derived], sources, settings, domain="ads"
        ),
        asset_checks=audits,
        sensors=[
            sensors.late_growth(
                sources,
                {kind: asset.key for kind, asset in clean.items()},
                interval_seconds=settings.sensor_seconds,
                run_config=settings.run_config,
            ),
            sensors.new_manifests(
                lookback_days=max((source.lookback_days for source in sources), default=7),
                interval_seconds=settings.sensor_seconds,
                scan_seconds=settings.scan_seconds,
                run_config=settings.run_config,
            ),
            sensors.landings(sources, hours, interval_seconds=settings.sensor_seconds),
            *([sensors.alerts(interval_seconds=settings.sensor_seconds)] if "notifier" in resources else []),
        ],
        jobs=jobs,
        schedules=[process_yesterday(job, sources) for job in jobs if job.name == PROCESS_DAY],
        resources={"file_feed": file_feed, **resources},
        # One Spark for all steps of a run: a JVM a step takes longer than the steps.
        executor=dg.in_process_executor,
    )


def _feed(asset: dg.AssetsDefinition) -> FeedDeclaration:
    declaration = declared_feed(asset.metadata_by_key[asset.key])
    if declaration is None:
        message = f"{asset.key.to_user_string()} declares no feed."
        raise dg.DagsterInvalidDefinitionError(message)
    return declaration


defs = build_definitions(Settings.from_environment(sources_directory=partners_directory()))
