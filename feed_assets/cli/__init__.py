"""The command line, `feed-assets`. By the names below, the commands of a project print and take arguments as it does.

Here: arguments, output and exit codes. Not here: what the commands do; programs call that in the rooms below.
Each command loads only the rooms it needs, so that `feed-assets feed latest` answers at once.
"""

from typing import TYPE_CHECKING

from feed_assets.lazy import loaded_when_used

if TYPE_CHECKING:
    from feed_assets.cli.clock import DayParameter
    from feed_assets.cli.output import OutputPath, json_option, print_json, print_table, progress, say, write_output

__all__ = [
    "DayParameter",
    "OutputPath",
    "json_option",
    "print_json",
    "print_table",
    "progress",
    "say",
    "write_output",
]

__getattr__ = loaded_when_used(
    __name__,
    {
        "DayParameter": "feed_assets.cli.clock",
        "OutputPath": "feed_assets.cli.output",
        "json_option": "feed_assets.cli.output",
        "print_json": "feed_assets.cli.output",
        "print_table": "feed_assets.cli.output",
        "progress": "feed_assets.cli.output",
        "say": "feed_assets.cli.output",
        "write_output": "feed_assets.cli.output",
    },
)
