"""A feed: a location on a blackboard, and the updates there.

Here: the keys of partitions, updates, files and the control area. Not here: any request to storage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from shlex import quote

from feed_assets.blackboard.location import open_blackboard, readable_uris
from feed_assets.blackboard.port import Blackboard
from feed_assets.file_feed.names import begun, check_partition, check_update

CONTROL = ".feed"
"""The control area at the feed's location. `.` sorts before every digit, so a reader's listing can start after it."""


@dataclass(frozen=True, slots=True)
class Feed:
    """A location, `<name>/<version>` below the blackboard's root; "" is the root itself."""

    blackboard: Blackboard
    location: str = ""

    @property
    def root(self) -> str:
        """The prefix of everything in this feed."""
        return f"{self.location}/" if self.location else ""

    @property
    def uri(self) -> str:
        """The feed's URI, for other programs and people."""
        return self.uri_of(self.root)

    def prefix(self, partition: str | None) -> str:
        """The prefix of a partition's updates; of the feed's updates if it has no partitions."""
        return f"{self.root}{check_partition(partition)}/" if partition is not None else self.root

    def update_prefix(self, partition: str | None, name: str) -> str:
        """The prefix of one update's files."""
        return f"{self.prefix(partition)}{check_update(name)}/"

    def control(self, area: str, partition: str | None = None) -> str:
        """The prefix of one part of the control area: claims, records, tags or pins."""
        inside = f"{check_partition(partition)}/" if partition is not None else ""
        return f"{self.root}{CONTROL}/{area}/{inside}"

    def uri_of(self, prefix: str) -> str:
        """The URI of the folder at a prefix, for other programs and people; it need not exist yet."""
        return self.blackboard.uri(f"{prefix}x").removesuffix("/x")

    def arguments(self, partition: str | None = None) -> str:
        """The feed and the partition as arguments of a command, quoted for a shell."""
        return quote(self.uri) + (f" --partition {quote(partition)}" if partition else "")

    def title(self, partition: str | None) -> str:
        """The feed and the partition, for messages."""
        return f"{self.uri} {partition}" if partition is not None else self.uri


@dataclass(frozen=True, slots=True)
class File:
    """A file of an update: its path below the update, its bytes, and a tag that changes with its content.

    `digest` is the SHA-256 of a file on a disk, in records; "" where tags tell the content, and in listings.
    """

    path: str
    size: int
    tag: str
    digest: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Update:
    """A resolved update: readers read exactly these files."""

    feed: Feed
    partition: str | None
    name: str
    files: tuple[File, ...]

    @property
    def prefix(self) -> str:
        """The prefix of its files' keys."""
        return self.feed.update_prefix(self.partition, self.name)

    @property
    def uri(self) -> str:
        """Its URI, for other programs and people."""
        return self.feed.uri_of(self.prefix)

    @property
    def begun(self) -> datetime:
        """The UTC second that names it."""
        return begun(self.name)

    @property
    def bytes(self) -> int:
        """The bytes of all its files."""
        return sum(file.size for file in self.files)

    def key(self, path: str) -> str:
        """The key of one of its files."""
        return f"{self.prefix}{path}"

    def uris(self) -> list[str]:
        """The URIs of its files, for readers. Raises InvalidKeyError if a symbolic link leads out of the blackboard."""
        return readable_uris(self.feed.blackboard, [self.key(file.path) for file in self.files])


def open_feed(uri: str) -> Feed:
    """The feed at a location: a local path, `file://...` or `s3://...`."""
    return Feed(open_blackboard(uri))
