"""The workflow of a command, and the client with which it asks the master. Not here: what commands ask."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from feed_assets.cli.installation import Installation

if TYPE_CHECKING:
    from feed_assets.workflow.client import Client
    from feed_assets.workflow.flow import Workflow
    from feed_assets.workflow.places import Place

_Command = TypeVar("_Command", bound=Callable[..., Any])


def workflow_option(command: _Command) -> _Command:
    """Give a command the option `--workflow`: its parameter `name`."""
    text = "The workflow's name. Default: the only one that the project has."
    return click.option("--workflow", "-w", "name", metavar="NAME", help=text)(command)


def chosen_workflow(installation: Installation, name: str | None) -> Workflow:
    """The workflow of a name, or the only one. Raises ClickException."""
    known = {each.name: each for each in installation.workflows}
    if not known:
        raise click.ClickException(
            "This project has no workflow: make one with `fa.Workflow`, and name it in "
            "`project.definitions(workflows=[...])`."
        )
    if name is None and len(known) > 1:
        raise click.UsageError(f"The project has several workflows: name one with -w: {', '.join(sorted(known))}.")
    if name is not None and name not in known:
        raise click.UsageError(f"{name} is no workflow of the project: those are {', '.join(sorted(known))}.")
    return known[name or next(iter(known))]


def place_of(installation: Installation, flow: Workflow, *, create: bool = False) -> Place:
    """Where the workflow is on the storage. Raises WorkflowError if it was never served."""
    from feed_assets.workflow.places import create_workflow, open_board, open_workflow  # noqa: PLC0415 - if it is used

    opened = create_workflow if create else open_workflow
    return opened(open_board(installation.settings.base), flow.name)


def client_of(installation: Installation, flow: Workflow, *, patience: float | None = None) -> Client:
    """A client of its master, wherever that is."""
    from feed_assets.workflow import finding  # noqa: PLC0415 - loads the HTTP client
    from feed_assets.workflow.client import PATIENCE_SECONDS  # noqa: PLC0415 - as above

    build = f"{socket.gethostname()}, process {os.getpid()}"
    return finding.client_of(
        place_of(installation, flow), build, patience=PATIENCE_SECONDS if patience is None else patience
    )
