"""Pipelines that hand data to each other over a bucket: Dagster assets on Spark, published as File Feeds.

`import feed_assets as fa` is all that a project needs: the names below, the expectations of audits in `fa.checks`, the
protocol without Dagster and Spark in `fa.file_feed`, deliveries without them in `fa.delivery`, and what commands of a
project print and take in `fa.cli`. Each is loaded when it is used. Everything else in the package may change with any
version.
"""

from typing import TYPE_CHECKING

from feed_assets.lazy import loaded_when_used

if TYPE_CHECKING:
    from feed_assets import checks, cli, delivery, file_feed
    from feed_assets.assets.checked_hours import Hourly, checked_hours
    from feed_assets.assets.cleaned import Judge, cleaned
    from feed_assets.assets.delivered import delivered
    from feed_assets.blackboard.location import open_blackboard
    from feed_assets.datasets.declaration import FeedDeclaration, Figures
    from feed_assets.engine.listed_files import fits_one_task
    from feed_assets.engine.moments import within_days
    from feed_assets.engine.queried_files import local_files
    from feed_assets.errors import FeedAssetsError
    from feed_assets.feed_events.declarations import BOUNDARY, CONTEXT, OPTIONAL, declared_feed, feed_metadata
    from feed_assets.feed_events.triggers import needs, trigger
    from feed_assets.file_feed.feed import Feed, Update, open_feed
    from feed_assets.file_feed.publishing import publish_files
    from feed_assets.file_feed.reading import latest, require_latest
    from feed_assets.io_manager.observed import Observed
    from feed_assets.io_manager.retries import retrying
    from feed_assets.partitions.days import NEIGHBOURING_DAYS, NEXT_DAY
    from feed_assets.pipes.launched import launched
    from feed_assets.pipes.launchers import EMR, EMRServerless, SparkSubmit
    from feed_assets.project.assembly import Project
    from feed_assets.quality.judging import Rule, check, deliveries, judge, missing, unparsable, verdicts
    from feed_assets.resources.settings import Settings
    from feed_assets.schedules import process_yesterday
    from feed_assets.sources.kinds import Kind
    from feed_assets.sources.loading import load_source, load_sources, usable_sources
    from feed_assets.sources.spec import Source
    from feed_assets.workflow.flow import Work, Workflow

__all__ = [
    "BOUNDARY",
    "CONTEXT",
    "EMR",
    "NEIGHBOURING_DAYS",
    "NEXT_DAY",
    "OPTIONAL",
    "EMRServerless",
    "Feed",
    "FeedAssetsError",
    "FeedDeclaration",
    "Figures",
    "Hourly",
    "Judge",
    "Kind",
    "Observed",
    "Project",
    "Rule",
    "Settings",
    "Source",
    "SparkSubmit",
    "Update",
    "Work",
    "Workflow",
    "check",
    "checked_hours",
    "checks",
    "cleaned",
    "cli",
    "declared_feed",
    "delivered",
    "deliveries",
    "delivery",
    "feed_metadata",
    "file_feed",
    "fits_one_task",
    "judge",
    "latest",
    "launched",
    "load_source",
    "load_sources",
    "local_files",
    "missing",
    "needs",
    "open_blackboard",
    "open_feed",
    "process_yesterday",
    "publish_files",
    "require_latest",
    "retrying",
    "trigger",
    "unparsable",
    "usable_sources",
    "verdicts",
    "within_days",
]

__getattr__ = loaded_when_used(
    __name__,
    {
        "checks": "feed_assets.checks",
        "cli": "feed_assets.cli",
        "delivery": "feed_assets.delivery",
        "file_feed": "feed_assets.file_feed",
        "Hourly": "feed_assets.assets.checked_hours",
        "checked_hours": "feed_assets.assets.checked_hours",
        "Judge": "feed_assets.assets.cleaned",
        "cleaned": "feed_assets.assets.cleaned",
        "delivered": "feed_assets.assets.delivered",
        "open_blackboard": "feed_assets.blackboard.location",
        "FeedDeclaration": "feed_assets.datasets.declaration",
        "Figures": "feed_assets.datasets.declaration",
        "fits_one_task": "feed_assets.engine.listed_files",
        "within_days": "feed_assets.engine.moments",
        "local_files": "feed_assets.engine.queried_files",
        "FeedAssetsError": "feed_assets.errors",
        "Feed": "feed_assets.file_feed.feed",
        "Update": "feed_assets.file_feed.feed",
        "open_feed": "feed_assets.file_feed.feed",
        "publish_files": "feed_assets.file_feed.publishing",
        "latest": "feed_assets.file_feed.reading",
        "require_latest": "feed_assets.file_feed.reading",
        "BOUNDARY": "feed_assets.feed_events.declarations",
        "CONTEXT": "feed_assets.feed_events.declarations",
        "OPTIONAL": "feed_assets.feed_events.declarations",
        "declared_feed": "feed_assets.feed_events.declarations",
        "feed_metadata": "feed_assets.feed_events.declarations",
        "trigger": "feed_assets.feed_events.triggers",
        "needs": "feed_assets.feed_events.triggers",
        "Observed": "feed_assets.io_manager.observed",
        "retrying": "feed_assets.io_manager.retries",
        "NEIGHBOURING_DAYS": "feed_assets.partitions.days",
        "NEXT_DAY": "feed_assets.partitions.days",
        "launched": "feed_assets.pipes.launched",
        "EMR": "feed_assets.pipes.launchers",
        "EMRServerless": "feed_assets.pipes.launchers",
        "SparkSubmit": "feed_assets.pipes.launchers",
        "Project": "feed_assets.project.assembly",
        "Rule": "feed_assets.quality.judging",
        "check": "feed_assets.quality.judging",
        "deliveries": "feed_assets.quality.judging",
        "judge": "feed_assets.quality.judging",
        "missing": "feed_assets.quality.judging",
        "unparsable": "feed_assets.quality.judging",
        "verdicts": "feed_assets.quality.judging",
        "Settings": "feed_assets.resources.settings",
        "process_yesterday": "feed_assets.schedules",
        "Kind": "feed_assets.sources.kinds",
        "load_source": "feed_assets.sources.loading",
        "load_sources": "feed_assets.sources.loading",
        "usable_sources": "feed_assets.sources.loading",
        "Source": "feed_assets.sources.spec",
        "Work": "feed_assets.workflow.flow",
        "Workflow": "feed_assets.workflow.flow",
    },
)
