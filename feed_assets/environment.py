"""Sections: the variables `FEED_ASSETS_...` that belong to one room.

Here: how a section is read from the environment, and what is said of a wrong value. Not here: the sections, each in its
room; all of them together (`resources.settings`); and variables of rooms that are libraries without pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from feed_assets.errors import FeedAssetsError


class SettingsError(FeedAssetsError):
    """An environment variable has a wrong value; the message names the variable and the values it takes."""


class Section(BaseModel):
    """The variables of one room.

    Each field names its variable (`validation_alias`). The `description` completes "it takes ..." in the message about
    a wrong value; fields whose validators raise a FeedAssetsError need none. `repr=False` marks a secret. The string
    below the field is its text in `docs/reference/settings.md`, with a paragraph "Default: ..." where the default needs
    words.
    """

    model_config = ConfigDict(frozen=True)

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """The section in this environment; an empty variable means its default. Raises SettingsError."""
        try:
            return cls.model_validate({name: text for name, text in environment.items() if text})
        except ValidationError as error:
            variable = str(error.errors(include_url=False)[0]["loc"][0])
            (field,) = (each for each in cls.model_fields.values() if each.validation_alias == variable)
            value = f" is {environment[variable]!r}; it" if field.repr else " is wrong, and not shown: it"
            raise SettingsError(f"{variable}{value} takes {field.description}.") from None
