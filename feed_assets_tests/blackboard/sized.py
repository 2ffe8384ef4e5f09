"""Stores with many objects and pages of a known length, for tests of how requests grow.

Here: filling them, and counting pages. Not here: what any operation may cost. In a bucket pages are short, so that few
objects fill many: moto looks at every key of the bucket for each page.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moto.s3.models import s3_backends

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.s3 import S3Blackboard
from feed_assets_tests.blackboard.recording import RecordingBlackboard

_buckets = (f"sized-{number}" for number in itertools.count())


@dataclass(frozen=True, slots=True)
class SizedStore:
    """A kind of store: in memory, with pages of 1000, or in a bucket with `page` objects a page."""

    page: int
    s3_client: Any = None

    def holding(self, objects: Mapping[str, bytes]) -> RecordingBlackboard:
        """A new store with these objects, that keeps account of its requests."""
        if self.s3_client is None:
            return RecordingBlackboard(MemoryBlackboard(dict(sorted(objects.items()))))
        bucket = next(_buckets)
        self.s3_client.create_bucket(Bucket=bucket)
        # Put there directly: over HTTP, it takes a minute.
        (store,) = (account["aws"] for account in s3_backends.values())
        for key, content in objects.items():
            store.put_object(bucket, f"base/{key}", content)
        return RecordingBlackboard(S3Blackboard(self.s3_client, bucket, "base", page_size=self.page))

    def pages(self, objects: int) -> int:
        """How many pages so many objects fill."""
        return -(-objects // self.page)
