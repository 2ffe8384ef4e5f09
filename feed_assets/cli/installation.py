"""The installation a command works on: its settings, its definitions, its Dagster home.

Here: finding them, and loading Dagster as late as possible. Not here: what is done with them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from feed_assets.blackboard import Blackboard

if TYPE_CHECKING:
    import dagster as dg

    from feed_assets.resources import Settings
    from feed_assets.sensors.feeds import FeedGraph
    from feed_assets.sources import Source

HOME = "DAGSTER_HOME"
CONFIG = "dagster.yaml"


@dataclass(frozen=True, slots=True)
class Installation:
    """What the environment describes; loaded once a command."""

    settings: Settings
    definitions: dg.Definitions

    @property
    def blackboard(self) -> Blackboard:
        """The storage below the base."""
        from feed_assets.resources import BlackboardResource  # noqa: PLC0415 - loads Dagster

        return BlackboardResource.at(self.settings.base).blackboard

    @property
    def feeds(self) -> FeedGraph:
        """The feeds among the assets."""
        from feed_assets.sensors.feeds import FeedGraph  # noqa: PLC0415 - loads Dagster

        return FeedGraph.of(self.definitions.get_repository_def())

    @property
    def sources(self) -> tuple[Source, ...]:
        """The partners' sources."""
        from feed_assets.sources import load_sources  # noqa: PLC0415 - loads pydantic

        return load_sources(self.settings.sources_directory)


def left_out() -> str:
    """Which assets this installation has not for want of a source, in a sentence; empty where it has all."""
    from feed_assets.assets import left_out as explained  # noqa: PLC0415 - loads Dagster
    from feed_assets.sources import load_sources  # noqa: PLC0415 - loads pydantic

    return explained(load_sources(load_settings().sources_directory))


def load_settings() -> Settings:
    """The settings of the environment."""
    from feed_assets.resources import Settings  # noqa: PLC0415 - loads Dagster and Spark's Python side

    return Settings.from_environment()


def load_installation() -> Installation:
    """Settings and definitions. Runs started here log to the instance; the terminal is the command's."""
    os.environ.setdefault("FEED_ASSETS_LOG_LEVEL", "CRITICAL")
    from feed_assets.definitions import build_definitions  # noqa: PLC0415 - loads Dagster and Spark's Python side

    settings = load_settings()
    return Installation(settings, build_definitions(settings))


def dagster_home() -> Path:
    """DAGSTER_HOME, else the nearest directory upward with a `dagster.yaml`; left in the environment for Dagster."""
    if configured := os.environ.get(HOME):
        home = Path(configured)
        if not home.is_dir():
            message = f"{HOME} is {home}, which is no directory: create it, or unset {HOME}."
            raise click.ClickException(message)
        return home
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / CONFIG).is_file():
            os.environ[HOME] = str(folder)
            return folder
    message = f"There is no {CONFIG} here or above: go to the project's directory, or set {HOME}."
    raise click.ClickException(message)
