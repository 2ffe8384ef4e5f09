"""The log of runs as lines of JSON, for programs that collect logs.

Here: the format, which `deploy/dagster.yaml` names. Not here: levels and handlers, which are settings of Dagster.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

RUN_FIELDS = ("run_id", "job_name", "step_key")


class JsonFormatter(logging.Formatter):
    """One JSON object for each record: time, level, logger, message, and for events of runs the run, step and event."""

    def format(self, record: logging.LogRecord) -> str:
        """The record on one line. A stack trace is the field `error`."""
        dagster: dict[str, Any] = getattr(record, "dagster_meta", None) or {}
        event = dagster.get("dagster_event")
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": dagster.get("orig_message") or record.getMessage(),
            **{name: dagster.get(name) for name in RUN_FIELDS},
            "partition": (dagster.get("job_tags") or {}).get("dagster/partition"),
            "event": event.event_type_value if event else None,
            "error": self.formatException(record.exc_info) if record.exc_info else None,
        }
        return json.dumps({name: value for name, value in fields.items() if value is not None})
