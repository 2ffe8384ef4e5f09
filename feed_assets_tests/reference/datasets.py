"""The page of a declared dataset's YAML: the fields of the pydantic models, with the strings below them."""

from __future__ import annotations

from feed_assets.dependencies.declared.spec import Completeness, DatasetSpec
from feed_assets_tests.reference.sources import about, fields

HEAD = """\
# YAML of a dataset

A dataset that is no feed and no raw data of a kind is one YAML file in the project's directory of datasets: [Datasets
that are no feeds](../dependencies.md#datasets-that-are-no-feeds) shows one. A wrong field is an error that names the
file and the line.
"""


def page() -> str:
    """The whole page."""
    lines = [HEAD, "## Fields\n", *fields(DatasetSpec, "###")]
    lines += ["## The field `complete`\n", *about(Completeness), *fields(Completeness, "###")]
    return "\n".join(lines)
