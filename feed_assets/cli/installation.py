"""The installation a command works on: its settings, its definitions, its Dagster home.

Here: finding them. Dagster is loaded as late as possible. Not here: what commands do with them.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from feed_assets.blackboard.location import local_directory, open_blackboard
from feed_assets.blackboard.port import Blackboard
from feed_assets.cli.output import say
from feed_assets.project import loading

if TYPE_CHECKING:
    import dagster as dg

    from feed_assets.project.assembly import Project
    from feed_assets.resources.settings import Settings
    from feed_assets.sensors.asset_graph import AssetFeedGraph
    from feed_assets.sources.spec import Source
    from feed_assets.workers.assembly import ProjectWorkflows
    from feed_assets.workflow.flow import Workflow

BASE = "FEED_ASSETS_BASE"
HOME = "DAGSTER_HOME"
CONFIG = "dagster.yaml"
DEMO_BASE = "demo-data"
"""The directory of the demo's data in the working directory, unless FEED_ASSETS_BASE names another."""
OWN_HOME = ".dagster"
"""The Dagster home in a base, as in the demo's, or in a working directory without a `dagster.yaml`."""


@dataclass(frozen=True, slots=True)
class Installation:
    """A project, configured by the environment. A command loads it once."""

    project: Project
    definitions: dg.Definitions

    @property
    def settings(self) -> Settings:
        """The settings of the environment."""
        return self.project.settings

    @property
    def blackboard(self) -> Blackboard:
        """The storage below the base."""
        return self.settings.blackboard.blackboard

    @property
    def feeds(self) -> AssetFeedGraph:
        """The feeds among the assets."""
        from feed_assets.sensors.asset_graph import AssetFeedGraph  # noqa: PLC0415 - loads Dagster

        return AssetFeedGraph.of(self.definitions.get_repository_def())

    @property
    def workflows(self) -> tuple[Workflow, ...]:
        """The workflows of the project."""
        return self.project_workflows.flows if self.project_workflows else ()

    @property
    def project_workflows(self) -> ProjectWorkflows | None:
        """The workflows with their feeds; None if the project has none."""
        from feed_assets.workers.assembly import WORKFLOWS  # noqa: PLC0415 - loads Dagster

        return (self.definitions.resources or {}).get(WORKFLOWS)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The partners' sources."""
        return self.project.sources


def chosen_module() -> str:
    """The module named by `--module` or FEED_ASSETS_MODULE; else see `project.loading.chosen_module`."""
    ctx = click.get_current_context(silent=True)
    given = ctx.find_root().params.get("module") if ctx else os.environ.get(loading.MODULE)
    return loading.chosen_module(given)


def load_installation(module: str | None = None) -> Installation:
    """The project of `module`, by default of the chosen one. Runs log to the instance, not to the terminal."""
    os.environ.setdefault("FEED_ASSETS_LOG_LEVEL", "CRITICAL")
    base = os.environ.get(BASE, "")
    if local_directory(base) is None and (home := find_dagster_home(base)) is not None:
        os.environ[HOME] = str(home)  # a base in a bucket keeps its state database in the Dagster home
    return Installation(*loading.load_project(module or chosen_module()))


def load_definitions(module: str) -> dg.Definitions:
    """The definitions of `load_installation`, for a process that executes runs of that module."""
    return load_installation(module).definitions


def ready_to_compute(settings: Settings) -> None:
    """Make sure that Spark can start and can write below the base.

    Raises SettingsError, MasterError, or BlackboardError if a bucket cannot be listed.
    """
    from feed_assets.engine.session import check_master  # noqa: PLC0415 - loads Spark's Python side
    from feed_assets.operations.doctor import require_writable  # noqa: PLC0415 - loads Dagster

    # The command itself prints why it failed. Spark's log would only repeat that, at length.
    os.environ.setdefault("FEED_ASSETS_SPARK_LOG_LEVEL", "off")
    folder = local_directory(settings.base)
    if folder is None:
        open_blackboard(settings.base).page("", folders=True)
    else:
        require_writable(folder, BASE)
    check_master(settings.spark_master)


def own_directory(base: str) -> Path:
    """The directory for what belongs to a base and stays on this machine; for a bucket, one beside the demo's."""
    bucket = re.sub(r"[^\w.-]+", "-", base.partition("://")[2]).strip("-")
    return local_directory(base) or demo_base().with_name(f"{DEMO_BASE}-{bucket}")


def demo_base() -> Path:
    """The directory of the demo's data, unless FEED_ASSETS_BASE names another."""
    return Path.cwd() / DEMO_BASE


def find_dagster_home(base: str) -> Path | None:
    """The directory of Dagster's state; None if it does not exist yet.

    It is DAGSTER_HOME; else `.dagster` in the base's `own_directory`, as in the demo's; else the nearest directory,
    from the working directory upward, that has a `dagster.yaml` in it or in its `.dagster`.
    """
    if configured := os.environ.get(HOME):
        return Path(configured) if Path(configured).is_dir() else None
    own = own_directory(base) / OWN_HOME
    if own.is_dir():
        return own.absolute()
    here = Path.cwd()
    places = (place for folder in (here, *here.parents) for place in (folder, folder / OWN_HOME))
    return next((place for place in places if (place / CONFIG).is_file()), None)


def dagster_home(base: str) -> Path:
    """Find the Dagster home, or create it in the working directory. Set DAGSTER_HOME to it."""
    home = find_dagster_home(base)
    if home is None and (configured := os.environ.get(HOME)):
        raise click.ClickException(f"{HOME} is {configured}, which is no directory: create it, or unset {HOME}.")
    if home is None:
        home = Path.cwd() / OWN_HOME
        try:
            write_config(home)
        except OSError as error:
            message = f"{home} cannot be written ({error.strerror}): set {HOME} to a directory of your own."
            raise click.ClickException(message) from error
        say(f"Dagster keeps its runs in {home} from now on. Set {HOME} to move it.")
    os.environ[HOME] = str(home)
    return home


def write_config(home: Path) -> None:
    """Write the configuration for a single machine into a Dagster home that has none."""
    home.mkdir(parents=True, exist_ok=True)
    if not (home / CONFIG).exists():
        (home / CONFIG).write_bytes((Path(__file__).parent / CONFIG).read_bytes())
