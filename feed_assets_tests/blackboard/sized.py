"""Stores with many objects and pages of a known length, for tests of how requests grow.

Here: filling them, and counting pages. Not here: what any operation may cost. In a bucket pages are short, so that few
objects fill many.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.s3 import S3Blackboard
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.servers.versitygw import Versitygw

_buckets = (f"sized-{number}" for number in itertools.count())


@dataclass(frozen=True, slots=True)
class SizedStore:
    """A kind of store: in memory, with pages of 1000, or in a bucket of a server with `page` objects a page."""

    page: int
    server: Versitygw | None = None

    def holding(self, objects: Mapping[str, bytes]) -> RecordingBlackboard:
        """A new store with these objects, that keeps account of its requests."""
        if self.server is None:
            return RecordingBlackboard(MemoryBlackboard(dict(sorted(objects.items()))))
        bucket = next(_buckets)
        self.server.place(bucket, {f"base/{key}": content for key, content in objects.items()})
        return RecordingBlackboard(S3Blackboard(self.server.client(), bucket, "base", page_size=self.page))

    def pages(self, objects: int) -> int:
        """How many pages so many objects fill."""
        return -(-objects // self.page)
