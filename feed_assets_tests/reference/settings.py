"""The page of settings: the fields of the sections, with the strings below them, and the variables of no section."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from feed_assets.data_catalog.glue import CatalogSettings
from feed_assets.environment import Section
from feed_assets.notices.mail import MailSettings
from feed_assets.polling.settings import PollingSettings
from feed_assets.resources.notifier import AlertSettings
from feed_assets.resources.settings import DataSettings, SensorSettings, StateSettings
from feed_assets.resources.spark import SparkSettings
from feed_assets.warehouse.address import WarehouseSettings
from feed_assets.workflow.settings import WorkflowSettings
from feed_assets_tests.reference.docstrings import paragraphs
from feed_assets_tests.reference.sources import described

HEAD = """\
# Settings

Variables of the environment. Commands and Dagster also read a file `.env` in the working directory; its values replace
those of the environment. `feed-assets doctor` checks them. Secrets are never shown or logged.
"""
TABLE = "| Variable | Meaning | Default |\n|---|---|---|"
DEFAULT = "Default: "
HEADINGS: Mapping[str, tuple[type[Section], ...]] = {
    "Data and project": (DataSettings,),
    "State": (StateSettings,),
    "Spark": (SparkSettings,),
    "Sensors and logs": (SensorSettings,),
    "Messages to people": (AlertSettings, MailSettings),
    "Other systems": (WarehouseSettings, CatalogSettings, PollingSettings, WorkflowSettings),
}
OTHERS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Data and project": {
        "FEED_ASSETS_MODULE": (
            "The module whose pipelines commands work on.",
            "what `pyproject.toml` names; else the example",
        ),
    },
    "State": {
        "DAGSTER_HOME": (
            "Dagster's own state (runs, ticks), which may be lost.",
            (
                "the nearest directory upward with a `dagster.yaml`; else `.dagster`, which is created. "
                "The demo: `demo-data/.dagster`"
            ),
        ),
    },
    "Spark": {
        "FEED_ASSETS_SPARK_JARS": ("A directory with Spark's jars for S3.", "fetched once, if the base is in a bucket"),
        "FEED_ASSETS_SPARK_LOG_LEVEL": (
            "How much Spark prints on the terminal: `off`, `error`, `warn`, `info`.",
            "`error`; `off` in commands that say themselves what failed",
        ),
    },
    "Other systems": {
        "FEED_ASSETS_POLL_<KIND>_<NAME>": (
            "[Options of a polled place](../poll.md#credentials) as a JSON object, such as its password; a secret.",
            "none",
        ),
        "FEED_ASSETS_RECEIVE_<OPTION>": ("Options of the [receiver](../push.md#limits).", "see there"),
        "FEED_ASSETS_SERVE_<OPTION>": ("Options of [`feed-assets serve`](commands.md#feed-assets-serve).", "see there"),
        "FEED_ASSETS_STORE_<DESTINATION>": (
            "[Credentials for the store of a delivery](../delivery.md#the-yaml) as a JSON object; a secret.",
            "none",
        ),
        "FEED_ASSETS_WORKFLOW_<COMMAND>_<OPTION>": (
            "Options of [`feed-assets workflow`](commands.md#feed-assets-workflow).",
            "see there",
        ),
    },
}
"""Variables of no section, with meaning and default: a library reads them, or they are a command's options."""


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for heading, sections in HEADINGS.items():
        fields = (row for section in sections for row in _fields(section))
        others = (_row(name, *texts) for name, texts in OTHERS.get(heading, {}).items())
        lines += [f"## {heading}\n", TABLE, *fields, *others, ""]
    return "\n".join(lines)


def _fields(section: type[Section]) -> Iterator[str]:
    texts = described(section)
    for name, field in section.model_fields.items():
        meaning, *default = paragraphs(texts[name])
        shown = default[0].removeprefix(DEFAULT).removesuffix(".") if default else f"`{field.default}`"
        yield _row(str(field.validation_alias), meaning, shown)


def _row(variable: str, meaning: str, default: str) -> str:
    return f"| `{variable}` | {meaning} | {default} |"
