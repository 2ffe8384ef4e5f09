"""The File Feed protocol: publish, resolve, invalidate and keep the history of a data set, with storage alone.

Here: everything that writers, readers, operators and auditors of a feed share. It needs neither Dagster nor Spark.

Requests, without those for the data files, as `feed_assets_tests/file_feed/test_budgets.py` tests them:

| question | requests on S3 |
|---|---|
| latest of a partition | 1 LIST if its last day fits a page; about 10 for a year-old history of any length |
| is this update still the latest | 1 LIST |
| latest, scan, history of all | a LIST for each page of keys; `history` also reads the records of invalid updates |
| what is new in the feed, by its change log | 1 LIST, and at most 1 for each partition that the log names |
| publish after an audit | PUT: claim, record 3, manifest, log; LIST: 3 |
| an update that read more than 100 raw files | PUT: 1 more; GET: 1 for each reader of single files |
| publish local files | PUT: claim, record 2, manifest, log; LIST: 3 |
| a schema | 1 GET when the update is staged, 1 when it is published |
| the only update of a start (`start_objects`) | PUT: 1 more; if it is taken, also GET: 3 and LIST: 2 |
| find the staged update | 2 LIST, and a GET for each of the newest records without a manifest |
| reject, invalidate | PUT: record, log, and the manifest if there may be one |
| remove updates | PUT: 3 each; DELETE: the files, and 4 each; LIST: 3 for each page of 100 updates together |

Publishing writes the record before the manifest (`publishing`) and after it (`published`). So a reader can tell a
writer that died from an update that somebody took out of force. The three listings are: newer updates, before the
claim; the files as written, to find those of other programs; the updates after the manifest. The last one tells a slow
writer that retention gave its update up, or that a newer update is in force.
"""

from feed_assets.file_feed.changes import LogEntry, LogPage, Position, drop_old_entries, log_page
from feed_assets.file_feed.claims import Claim, claim
from feed_assets.file_feed.contract import check_contract
from feed_assets.file_feed.control import read_record, recorded, recorded_digests, records
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
from feed_assets.file_feed.names import begun, check_partition, is_update_name, parse_time, update_name
from feed_assets.file_feed.publishing import publish, publish_files
from feed_assets.file_feed.quarantine import finish_publication, invalidate_both, publish_both, reject_both
from feed_assets.file_feed.read_sets import in_full
from feed_assets.file_feed.reading import is_latest, latest, partitions, read_file, read_resolved, require_latest
from feed_assets.file_feed.record import (
    CheckOutcome,
    Column,
    Facts,
    FeedInput,
    RawFile,
    RawHour,
    RawInput,
    Record,
    Rows,
    Transition,
    inputs_digest,
)
from feed_assets.file_feed.removal import Outcome, carry_out
from feed_assets.file_feed.retention import Policy, Removal, plan
from feed_assets.file_feed.scanning import latest_of_all, latest_of_each
from feed_assets.file_feed.schema import promised_schema
from feed_assets.file_feed.staging import Staged, find_staged, stage, staged_files
from feed_assets.file_feed.states import UpdateStatus, histories, history
from feed_assets.file_feed.verification import Finding, verify
from feed_assets.file_feed.watching import Change, Look, Watch, continue_scan, look_at_logged
from feed_assets.file_feed.withdrawal import invalidate, reject

__all__ = [
    "MANIFEST",
    "BadNameError",
    "Change",
    "CheckOutcome",
    "Claim",
    "ClaimLostError",
    "Column",
    "Downstream",
    "Facts",
    "Feed",
    "FeedError",
    "FeedInput",
    "File",
    "Finding",
    "LogEntry",
    "LogPage",
    "Look",
    "MixedFeedError",
    "NoValidUpdateError",
    "NotPublishedError",
    "Outcome",
    "Pin",
    "Policy",
    "Position",
    "RawFile",
    "RawHour",
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
    "Watch",
    "begun",
    "carry_out",
    "check_contract",
    "check_partition",
    "claim",
    "continue_scan",
    "downstream",
    "drop_ended_pins",
    "drop_old_entries",
    "find_staged",
    "finish_publication",
    "histories",
    "history",
    "in_full",
    "inputs_digest",
    "invalidate",
    "invalidate_both",
    "is_latest",
    "is_update_name",
    "latest",
    "latest_of_all",
    "latest_of_each",
    "log_page",
    "look_at_logged",
    "manifest",
    "open_feed",
    "parse_manifest",
    "parse_time",
    "partitions",
    "pin",
    "pins",
    "plan",
    "promised_schema",
    "publish",
    "publish_both",
    "publish_files",
    "read_file",
    "read_record",
    "read_resolved",
    "recorded",
    "recorded_digests",
    "records",
    "reject",
    "reject_both",
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
]
