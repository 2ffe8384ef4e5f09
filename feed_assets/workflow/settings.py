"""The settings of workflows: how programs of this installation ask a task master. Not here: asking (`finding`)."""

from __future__ import annotations

import re
from typing import Final

from pydantic import Field, field_validator

from feed_assets.environment import Section, SettingsError

VARIABLE: Final = "FEED_ASSETS_WORKFLOW_TOKEN"
_TOKEN: Final = re.compile(r"fa_[0-9a-f]+_[A-Za-z0-9_-]+")


class WorkflowSettings(Section):
    """How programs of this installation ask a task master."""

    workflow_token: str = Field("", validation_alias=VARIABLE, repr=False)
    """The token with which commands, workers and sensors ask a task master that has tokens.

    Default: none, as on the master's own machine.
    """

    @field_validator("workflow_token")
    @classmethod
    def _is_token(cls, text: str) -> str:
        if text and not _TOKEN.fullmatch(text):
            raise SettingsError(
                f"{VARIABLE} is wrong, and not shown: it takes a token that `serve tokens add` printed, such "
                "as fa_0123abcd_..."
            )
        return text
