"""Lets Dagster's daemon look for backfills every three seconds: Python loads this module at its start from PYTHONPATH.

Dagster looks every 30 seconds and has no setting for that. Tests of backfills would spend most of their time waiting.
"""

import sys

if any("dagster._daemon" in argument or "dagster-daemon" in argument for argument in sys.orig_argv):
    from dagster._daemon import controller

    controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 3
