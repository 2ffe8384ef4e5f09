"""The worked example as a project: how effective ads were. Dagster finds it as `feed_assets.definitions`.

Here: its assets, checks, jobs and schedules. Not here: the parts that every project has (`fa.Project`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import dagster as dg

import feed_assets as fa
from feed_assets.ads.assets.ad_catalog import ad_catalog
from feed_assets.ads.assets.ad_effectiveness import ad_effectiveness
from feed_assets.ads.assets.clean import HOURLY, clean_ads, clean_clicks
from feed_assets.ads.assets.fed_kinds import fed_kinds, left_out
from feed_assets.ads.assets.rules import Rules
from feed_assets.ads.expectations import for_clean, for_effectiveness
from feed_assets.ads.partners import FIRST_DAY, partners_directory
from feed_assets.ads.schemas import ADS, CLICKS, KINDS

PROCESS_DAY = "process_day"
JOBS = {
    PROCESS_DAY: "Cleans, checks and publishes a day, and computes the derived feeds.",
    "effectiveness": "Computes ad effectiveness of a day from the cleaned feeds in force.",
}
"""The usual selections of assets, for people, schedules and scripts; sensors select assets themselves."""


def build_definitions(settings: fa.Settings, **replaced: Any) -> dg.Definitions:
    """The definitions of an installation; `replaced` are resources that replace those of the settings, as in tests."""
    found = fa.usable_sources(settings.sources_directory, KINDS)
    project = fa.Project.with_sources(settings, found, note=left_out(found))
    sources = project.sources
    days = project.days

    make = {ADS.name: clean_ads, CLICKS.name: clean_clicks}
    fed = fed_kinds(sources, KINDS)
    hourly = HOURLY if settings.hourly else {}
    gate = fa.trigger(settle=timedelta(0)) if settings.gate else {}
    clean = [make[kind.name](sources, days, hourly.get(kind.name), gate) for kind in fed]
    hours = [
        fa.checked_hours(source, project.hours, hourly[source.kind]) for source in sources if source.kind in hourly
    ]
    audits = [fa.checks.audit(asset, for_clean(_feed(asset))) for asset in clean]
    derived: list[dg.AssetsDefinition] = []
    if len(clean) == len(make):
        effectiveness = ad_effectiveness(days, gate)
        derived = [effectiveness]
        audits.append(fa.checks.audit(effectiveness, for_effectiveness(_feed(effectiveness))))

    # A job without assets is left out. No job has only checks: Dagster 1.13 gives such a job no partitions.
    selections = {PROCESS_DAY: [*clean, *derived], "effectiveness": derived}
    jobs: list[Any] = [
        dg.define_asset_job(
            name,
            selection=dg.AssetSelection.assets(*assets),
            config=settings.run_config,
            description=JOBS[name],
        )
        for name, assets in selections.items()
        if assets
    ]
    flow = fa.Workflow("ads")
    flow.computes(*hours, *clean, *derived)
    return project.definitions(
        assets=[ad_catalog(), *hours, *clean, *derived],
        asset_checks=audits,
        jobs=jobs,
        schedules=[fa.process_yesterday(job, sources) for job in jobs if job.name == PROCESS_DAY],
        resources={"rules": Rules(), **replaced},
        workflows=[flow] if settings.continuous else [],
        domain="ads",
    )


def definitions_of_environment() -> dg.Definitions:
    """The definitions with the settings of the environment. Raises SettingsError and SpecError."""
    return build_definitions(fa.Settings.from_environment(sources_directory=partners_directory(), first_day=FIRST_DAY))


def _feed(asset: dg.AssetsDefinition) -> fa.FeedDeclaration:
    declaration = fa.declared_feed(asset.metadata_by_key[asset.key])
    if declaration is None:
        message = f"{asset.key.to_user_string()} declares no feed: give it `metadata=fa.feed_metadata(...)`."
        raise dg.DagsterInvalidDefinitionError(message)
    return declaration
