"""The page of a destination's YAML: the fields of the pydantic model, with the strings below them."""

from __future__ import annotations

from feed_assets.delivery.destination import Destination
from feed_assets_tests.reference.sources import fields

HEAD = """\
# YAML of a destination

A destination is one YAML file in the project's directory of deliveries: [From an update to a lookup](../delivery.md)
shows one. A wrong field is an error that names the file and the line.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, "## Fields\n", *fields(Destination, "###")])
