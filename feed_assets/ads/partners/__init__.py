"""The partners of the worked example: a YAML file describes each source.

Here: the descriptions that come with the project, and where they are. Not here: reading them (`sources`).
"""

from pathlib import Path


def partners_directory() -> Path:
    """The directory with the descriptions."""
    return Path(__file__).parent
