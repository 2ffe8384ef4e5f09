"""The File Feed protocol: publish, resolve, invalidate and keep the history of a data set, with storage alone.

Here: everything that writers, readers, operators and auditors of a feed share. Not here: Dagster, Spark, or any one
store. A program with none of these can use this package on its own.
"""

from feed_assets.file_feed.claims import Claim, claim
from feed_assets.file_feed.consumption import Change, Cursor, news
from feed_assets.file_feed.contract import check_contract
from feed_assets.file_feed.control import read_record, recorded_digests, records
from feed_assets.file_feed.errors import (
    BadNameError,
    ClaimLostError,
    FeedError,
    MixedFeedError,
    NotPublishedError,
    NoValidUpdateError,
    SchemaChangeError,
    TornUpdateError,
    UnreadableRecordError,
    UpdateChangedError,
)
from feed_assets.file_feed.feed import Feed, File, Update, open_feed
from feed_assets.file_feed.holds import Pin, Tag, drop_ended_pins, pin, pins, tag, tags, unpin, untag
from feed_assets.file_feed.lineage import Downstream, downstream, upstream
from feed_assets.file_feed.manifest import MANIFEST, manifest, parse_manifest
from feed_assets.file_feed.names import begun, check_partition, is_update_name, parse_time, update_name, version_order
from feed_assets.file_feed.publishing import publish, publish_files
from feed_assets.file_feed.reading import (
    is_latest,
    latest,
    partitions,
    read_file,
    read_resolved,
    require_latest,
)
from feed_assets.file_feed.record import (
    CheckOutcome,
    Column,
    Facts,
    FeedInput,
    RawFile,
    RawInput,
    Record,
    Rows,
    Transition,
    inputs_digest,
)
from feed_assets.file_feed.removal import Outcome, carry_out, recover
from feed_assets.file_feed.retention import Policy, Removal, plan
from feed_assets.file_feed.scanning import latest_of_all
from feed_assets.file_feed.schema import promised_schema
from feed_assets.file_feed.staging import Staged, find_staged, stage, staged_files
from feed_assets.file_feed.states import UpdateStatus, history
from feed_assets.file_feed.verification import Finding, verify
from feed_assets.file_feed.withdrawal import invalidate, reject

__all__ = [
    "MANIFEST",
    "BadNameError",
    "Change",
    "CheckOutcome",
    "Claim",
    "ClaimLostError",
    "Column",
    "Cursor",
    "Downstream",
    "Facts",
    "Feed",
    "FeedError",
    "FeedInput",
    "File",
    "Finding",
    "MixedFeedError",
    "NoValidUpdateError",
    "NotPublishedError",
    "Outcome",
    "Pin",
    "Policy",
    "RawFile",
    "RawInput",
    "Record",
    "Removal",
    "Rows",
    "SchemaChangeError",
    "Staged",
    "Tag",
    "TornUpdateError",
    "Transition",
    "UnreadableRecordError",
    "Update",
    "UpdateChangedError",
    "UpdateStatus",
    "begun",
    "carry_out",
    "check_contract",
    "check_partition",
    "claim",
    "downstream",
    "drop_ended_pins",
    "find_staged",
    "history",
    "inputs_digest",
    "invalidate",
    "is_latest",
    "is_update_name",
    "latest",
    "latest_of_all",
    "manifest",
    "news",
    "open_feed",
    "parse_manifest",
    "parse_time",
    "partitions",
    "pin",
    "pins",
    "plan",
    "promised_schema",
    "publish",
    "publish_files",
    "read_file",
    "read_record",
    "read_resolved",
    "recorded_digests",
    "records",
    "recover",
    "reject",
    "require_latest",
    "stage",
    "staged_files",
    "tag",
    "tags",
    "unpin",
    "untag",
    "update_name",
    "upstream",
    "verify",
    "version_order",
]
