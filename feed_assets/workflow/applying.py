"""Bringing the configuration of a project's stages into force. Not here: what a configuration is (`flow`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from feed_assets.workflow.calls import Configure
from feed_assets.workflow.client import Client
from feed_assets.workflow.flow import Stage, Workflow
from feed_assets.workflow.tasks import CONFIGURATION

_PARAMETERS: Final = "parameters"


@dataclass(frozen=True, slots=True)
class Difference:
    """How a stage differs from the configuration in force: what, the value in force (None: none), the project's."""

    stage: Stage
    changes: tuple[tuple[str, Any, Any], ...]
    replaces: int
    """The id of the configuration in force; 0 without one."""


def differences(client: Client, flow: Workflow) -> tuple[list[Difference], list[str]]:
    """The stages that differ, and the names of those that the project does not have any more."""
    present = {each["key"]: each for each in client.read("tasks", group=CONFIGURATION)["tasks"]}
    found = []
    for stage in flow.stages.values():
        there = present.get(stage.name)
        changes = _changes(there["payload"] if there else {}, stage.configuration)
        if changes:
            found.append(Difference(stage, changes, there["id"] if there else 0))
    return found, sorted(set(present) - set(flow.stages))


def apply(client: Client, found: list[Difference]) -> None:
    """Bring these into force. Raises Refused if somebody else has changed one since."""
    for each in found:
        client.call(Configure, type=each.stage.name, payload=each.stage.configuration, replaces=each.replaces)


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[tuple[str, Any, Any], ...]:
    old, new = _flat(before), _flat(now)
    return tuple(
        (name, old.get(name), new.get(name)) for name in sorted({*old, *new}) if old.get(name) != new.get(name)
    )


def _flat(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The settings by name, parameters one by one."""
    found = {name: value for name, value in configuration.items() if name != _PARAMETERS}
    return {**found, **{f"{_PARAMETERS}.{name}": each for name, each in configuration.get(_PARAMETERS, {}).items()}}
