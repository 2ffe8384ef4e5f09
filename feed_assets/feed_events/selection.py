"""Which assets and checks a run selects. Not here: its other facts (`io_manager.step_contexts`)."""

from __future__ import annotations

from typing import Any


def asset_layer(context: Any) -> Any:
    """The assets and checks of a run. A job has no public way to them."""
    return context.job_def.asset_layer
