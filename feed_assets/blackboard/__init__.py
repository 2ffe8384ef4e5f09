"""The storage everyone shares, behind one port: a directory, a bucket, or a dictionary in memory.

Here: the port, its stores, and the way from a URI to a store. Not here: what is kept in them (see
`feed_assets.file_feed`). `S3Blackboard` and `MemoryBlackboard` are in modules of their own:
a program that keeps its data on a local disk does not load an S3 client.
"""

from feed_assets.blackboard.keys import check_key, check_prefix
from feed_assets.blackboard.listing import list_all, list_folders
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.location import (
    UnknownLocationError,
    check_location,
    local_directory,
    open_blackboard,
    outside,
    readable_uris,
)
from feed_assets.blackboard.port import (
    PAGE_SIZE,
    AlreadyExistsError,
    Blackboard,
    BlackboardError,
    ConflictError,
    Content,
    Entry,
    InvalidKeyError,
    NotFoundError,
    Page,
    UnavailableError,
)

__all__ = [
    "PAGE_SIZE",
    "AlreadyExistsError",
    "Blackboard",
    "BlackboardError",
    "ConflictError",
    "Content",
    "Entry",
    "InvalidKeyError",
    "LocalBlackboard",
    "NotFoundError",
    "Page",
    "UnavailableError",
    "UnknownLocationError",
    "check_key",
    "check_location",
    "check_prefix",
    "list_all",
    "list_folders",
    "local_directory",
    "open_blackboard",
    "outside",
    "readable_uris",
]
