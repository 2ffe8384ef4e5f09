"""The datasets that flows with a trigger make and read, as commands name them: by dataset, or by asset.

Here: finding and completing their names. Not here: commands (`deps`, `deps_reports`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from feed_assets.blackboard.port import BlackboardError
from feed_assets.cli.installation import Installation, load_installation
from feed_assets.cli.output import complain

if TYPE_CHECKING:
    from feed_assets.datasets.dataset import Dataset
    from feed_assets.dependencies.service import Dependencies
    from feed_assets.sensors.flows import Flows

NOTHING = "No asset of this project has a trigger: add trigger() to its metadata."


class DatasetName(click.ParamType[str]):
    """The name of a dataset, which a shell completes."""

    name = "dataset"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The datasets whose names begin so; none if the project cannot be loaded, which the command will tell."""
        del ctx, param
        try:
            names = sorted(known(load_installation())[1].datasets)
        except Exception:  # noqa: BLE001 - a message would break the line that is being typed
            return []
        return [CompletionItem(each) for each in names if each.startswith(incomplete)]


def known(installation: Installation) -> tuple[Flows, Dependencies]:
    """The flows of a project, and what is known of the slots of their datasets."""
    from feed_assets.sensors.flows import Flows  # noqa: PLC0415 - loads Dagster
    from feed_assets.state.store import Store  # noqa: PLC0415 - loads SQLAlchemy

    settings = installation.settings
    flows = Flows.of(installation.feeds, installation.sources, settings.first_day, installation.project.datasets)
    return flows, flows.states(Store(settings.state), installation.blackboard)


def looked_up(installation: Installation) -> tuple[Flows, Dependencies]:
    """The same for a command that shows what is known: warns if the database looks lost."""
    from feed_assets.dependencies.errors import StateCopyError  # noqa: PLC0415 - loaded with the service only
    from feed_assets.dependencies.state_copy import StateCopy  # noqa: PLC0415 - loads SQLAlchemy

    flows, states = known(installation)
    try:
        loss = StateCopy(states, installation.blackboard).loss()
    except (StateCopyError, BlackboardError) as error:
        loss = f"The copy of the state database cannot be looked at: {error}"
    if loss:
        complain(f"Warning: {loss}")
    return flows, states


def keep_copy(installation: Installation, states: Dependencies) -> None:
    """Copy what a command has changed to the blackboard. If that fails, the next command or tick does it."""
    from feed_assets.dependencies.errors import StateCopyError  # noqa: PLC0415 - loaded with the service only
    from feed_assets.dependencies.state_copy import StateCopy  # noqa: PLC0415 - loads SQLAlchemy
    from feed_assets.state.address import StoreError  # noqa: PLC0415 - as above

    try:
        StateCopy(states, installation.blackboard).write()
    except (StateCopyError, StoreError, BlackboardError) as error:
        complain(f"Warning: it is done, but not copied to the blackboard yet: {error}")


def dataset_named(flows: Flows, states: Dependencies, name: str) -> Dataset:
    """A dataset by its name, or by that of its asset. Raises ClickException, UnknownDatasetError."""
    if not states.datasets:
        raise click.ClickException(NOTHING)
    return states.dataset(next((place for place, node in flows.feeds.feeds.items() if node.name == name), name))
