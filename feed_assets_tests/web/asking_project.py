"""A project whose flow asks whether it runs again, for the command line and the service. Not here: any test."""

from __future__ import annotations

import dagster as dg

import feed_assets as fa
from feed_assets_tests.harness import DAY, Installation
from feed_assets_tests.plain_flows import asset, given

MODULE = __name__
FLOW, OWN = "flow/v1.0", "own/v1.0"


@dg.definitions
def defs() -> dg.Definitions:
    """The definitions with the settings of the environment."""
    return definitions(fa.Settings.from_environment())


def definitions(settings: fa.Settings) -> dg.Definitions:
    """A feed of others, and a flow that asks."""
    project = fa.Project(settings, ())
    flow = asset("flow", project.days, fa.trigger(on_rerun="ask"), own=OWN)
    return project.definitions(assets=[given("own", project.days), flow])


def publish(installation: Installation) -> None:
    """A new update of the input, as the sensor sees it."""
    installation.make(OWN, DAY, [])
    installation.tick("new_manifests")
