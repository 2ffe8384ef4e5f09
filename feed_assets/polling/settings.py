"""The settings of polling. Not here: options of one place (`places`), and the polls of a source (`sources`)."""

from pydantic import Field

from feed_assets.environment import Section

POLL_TABLE = "FEED_ASSETS_POLL_TABLE"


class PollingSettings(Section):
    """How polls know what they took."""

    poll_table: str = Field("", validation_alias=POLL_TABLE)
    """A table of DynamoDB with the files that [polls](../poll.md) took.

    Default: none: only the blackboard has them.
    """
