"""The partners of the worked example: a YAML file describes each source. Not here: reading the files (`sources`)."""

from datetime import date
from pathlib import Path
from typing import Final

FIRST_DAY: Final = date(2019, 11, 24)
"""The first day of the logs that come with the project."""


def partners_directory() -> Path:
    """The directory with the descriptions."""
    return Path(__file__).parent
