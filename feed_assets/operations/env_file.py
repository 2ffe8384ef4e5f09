"""The file `.env` of the working directory, from which Dagster takes variables of the environment.

Here: taking the same variables. Not here: which variables there are (`feed_assets.resources.Settings`).
"""

from __future__ import annotations

import os
from pathlib import Path

ENV_FILE = ".env"
"""In the working directory."""


def set_variables_of_env_file() -> None:
    """Set the variables of `.env`, if there is one. They replace those of the environment, as in `dagster dev`."""
    if Path(ENV_FILE).is_file():
        from dotenv import dotenv_values  # noqa: PLC0415 - most folders have no such file

        try:
            variables = dotenv_values(ENV_FILE)
        except UnicodeDecodeError:
            raise OSError(f"{Path(ENV_FILE).absolute()} is not UTF-8: save it as UTF-8.") from None
        os.environ.update({name: value for name, value in variables.items() if value is not None})
