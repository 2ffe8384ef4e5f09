"""Computing assets in a worker, as a run of Dagster does: the same assets, audits and attempts, on a warm Spark.

Here: a task as a run inside this process. Not here: which requests of sensors become tasks (`handing_over`).
"""

from __future__ import annotations

import base64
import json
import logging
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid4, uuid5

import dagster as dg

from feed_assets.feed_events.failures import errors
from feed_assets.feed_events.triggers import attempts_of
from feed_assets.io_manager.run_attempts import ROOT_RUN
from feed_assets.starts.attempt import State
from feed_assets.starts.attempts import Attempts
from feed_assets.workflow.errors import StageError
from feed_assets.workflow.tasks import MOST_PAYLOAD, encoded_payload

ASSETS: Final = "assets"
PARTITION: Final = "partition"
TAGS: Final = "tags"
PACKED: Final = "packed"
"""What a payload has instead of assets and tags if these are too large: both as JSON, compressed, in Base85."""
_ROOTS: Final = UUID("8d5ad9a6-5f0e-4a55-8f0c-0b1c6f1f9a53")
"""The namespace of the roots of runs: all tries of a task have one root, so they keep its attempts."""
_log = logging.getLogger(__name__)


def payload_of(request: dg.RunRequest) -> dict[str, Any]:
    """The payload of the task that computes what a request asks for: compressed if it does not fit else."""
    asked = {
        ASSETS: [each.to_user_string() for each in request.asset_selection or ()],
        TAGS: dict(request.tags),
    }
    payload = {**asked, PARTITION: request.partition_key}
    if len(encoded_payload(payload)) <= MOST_PAYLOAD:
        return payload
    packed = base64.b85encode(zlib.compress(encoded_payload(asked), 9)).decode()
    return {PARTITION: request.partition_key, PACKED: packed}


def unpacked(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The payload with its assets and tags."""
    if PACKED not in payload:
        return payload
    return {PARTITION: payload[PARTITION], **json.loads(zlib.decompress(base64.b85decode(payload[PACKED])))}


@dataclass(frozen=True, slots=True)
class RunsOfAssets:
    """Runs assets and their audits inside this process. See `workflow.flow.Computer`."""

    definitions: dg.Definitions
    run_config: Mapping[str, Any]
    attempts: Attempts

    def compute(self, payload: Any) -> None:
        """Compute and audit the assets of a payload. A rejected update is no failure: people are told by its record.

        Does nothing if the attempts for which it was asked have ended: then others follow them. If a step fails, they
        live on, as the task is tried again. Raises StageError if a step fails.
        """
        payload = unpacked(payload)
        asked = attempts_of(payload[TAGS])
        if asked and not any(self.attempts.lives(each) for each in asked):
            _log.info("%s of %s is not computed: its request has ended.", *payload[ASSETS][:1], payload[PARTITION])
            return
        self._run(payload, str(uuid5(_ROOTS, ",".join(asked) or str(uuid4()))))
        for each in asked:
            self.attempts.end(each, State.ENDED, "its task is done")

    def _run(self, payload: Any, root: str) -> None:
        keys = [dg.AssetKey.from_user_string(each) for each in payload[ASSETS]]
        job = self.definitions.resolve_implicit_global_asset_job_def()
        checks = self._checks(keys)
        with dg.DagsterInstance.ephemeral() as instance:
            result = job.get_subset(asset_selection={*keys}, asset_check_selection=checks).execute_in_process(
                instance=instance,
                run_id=str(uuid4()),
                partition_key=payload[PARTITION],
                tags={**payload[TAGS], ROOT_RUN: root},
                run_config=self.run_config,
                raise_on_error=False,
            )
        if reasons := errors(result.all_events):
            raise StageError("; ".join(reasons))

    def _checks(self, keys: Sequence[dg.AssetKey]) -> set[dg.AssetCheckKey]:
        graph = self.definitions.resolve_asset_graph()
        return {each for key in keys for each in graph.get_check_keys_for_assets({key})}
