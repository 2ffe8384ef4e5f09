"""How far a consumer has come in each shard, by its checkpoints, whether it runs or not. Not here: consuming."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from feed_assets.delivery.consuming.sharing import readable
from feed_assets.delivery.streams.port import Source
from feed_assets.delivery.tables import checkpoints
from feed_assets.state.store import Store

State = Literal["read", "ended", "unread", "waits"]


@dataclass(frozen=True, slots=True)
class ShardLag:
    """How far a shard was consumed.

    `state`: `ended` if all its records were settled and no more will come; `unread` if nobody has read any; `waits` if
    its parents must end first. All records that arrived before `until` were settled. `lag` is the age of the oldest
    record that may be unsettled; None if nobody knows. `is_late`: it is more than half of what the stream keeps.
    """

    shard: str
    state: State
    until: datetime | None = None
    lag: timedelta | None = None
    is_late: bool = False


def lags(stream: Source, state: Store, consumer: str, *, now: datetime) -> Sequence[ShardLag]:
    """The lag of each shard of the stream. Raises StreamError, NotSentError, StoreError."""
    shards, known = {each.name: each for each in stream.all_shards()}, checkpoints(state, consumer)
    can_be_read, most = set(readable(shards, known)), stream.retention() / 2
    found = []
    for name in sorted(shards):
        at = known.get(name)
        if at is None:
            found.append(ShardLag(name, "unread" if name in can_be_read else "waits"))
        elif at.is_over:
            found.append(ShardLag(name, "ended", at.until))
        else:
            lag = max(timedelta(0), now - at.until)
            found.append(ShardLag(name, "read", at.until, lag, lag > most))
    return found
