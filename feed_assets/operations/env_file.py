"""The file `.env` of the working directory, from which Dagster takes variables of the environment.

Here: taking the same variables. Not here: which variables there are (`feed_assets.resources.Settings`).
"""

from __future__ import annotations

import os
from pathlib import Path

ENV_FILE = ".env"
"""In the working directory."""


def set_variables_of_env_file() -> list[str]:
    """Set the variables of `.env`, if there is one. They replace the environment's variables, as in `dagster dev`.

    Returns the names of the variables that had another value. Raises OSError.
    """
    if not Path(ENV_FILE).is_file():
        return []
    from dotenv import dotenv_values  # noqa: PLC0415 - most folders have no such file

    try:
        variables = {name: value for name, value in dotenv_values(ENV_FILE).items() if value is not None}
    except UnicodeDecodeError:
        raise OSError(f"{Path(ENV_FILE).absolute()} is not UTF-8: save it as UTF-8.") from None
    replaced = [name for name, value in variables.items() if os.environ.get(name, value) != value]
    os.environ.update(variables)
    return replaced
