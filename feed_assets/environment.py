"""Sections: the variables `FEED_ASSETS_...` that belong to one room.

Here: how a section is read from the environment, and what is said of a wrong value. Not here: the sections, each in its
room; all of them together (`resources.settings`); and variables of rooms that are libraries without pydantic.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Self

from pydantic import ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from feed_assets.errors import FeedAssetsError

# With PYDANTIC_SETTINGS_DEBUG, its messages for debugging hold all values, also secrets.
logging.getLogger("pydantic_settings").setLevel(logging.INFO)


class SettingsError(FeedAssetsError):
    """An environment variable has a wrong value; the message names the variable and the values it takes."""


class Section(BaseSettings):
    """The variables of one room.

    Each field names its variable (`validation_alias`). The `description` completes "it takes ..." in the message about
    a wrong value; fields whose validators raise a FeedAssetsError need none. `repr=False` marks a secret. The string
    below the field is its text in `docs/reference/settings.md`, with a paragraph "Default: ..." where the default needs
    words.
    """

    model_config = SettingsConfigDict(
        case_sensitive=True, enable_decoding=False, extra="ignore", frozen=True, validate_default=False
    )

    @classmethod
    def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let only `read` look into the environment; a file `.env` is loaded by commands and by Dagster."""
        return (sources["init_settings"],)

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """The section in this environment; an empty variable means its default. Raises SettingsError."""
        source = EnvSettingsSource(cls)
        source.env_vars = {name: text for name, text in environment.items() if text}
        try:
            return cls(**source())
        except ValidationError as error:
            variable = str(error.errors(include_url=False)[0]["loc"][0])
            (field,) = (each for each in cls.model_fields.values() if each.validation_alias == variable)
            value = f" is {environment[variable]!r}; it" if field.repr else " is wrong, and not shown: it"
            raise SettingsError(f"{variable}{value} takes {field.description}.") from None
