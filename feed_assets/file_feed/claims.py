"""Claims: the right to write one update. The claim decides the second that names the update.

Here: claiming a second. Not here: writing under a claim (`staging`), and giving claims up (`removal`).

Updates are ordered by their claims. A writer claims when it resolves its inputs, so an update from older inputs never
overtakes an update from newer inputs. A claim may be held for as long as the longest write.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from feed_assets.blackboard.listing import list_folders
from feed_assets.blackboard.port import AlreadyExistsError
from feed_assets.file_feed.control import CLAIMS
from feed_assets.file_feed.errors import BadNameError
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.names import SECOND, begun, is_update_name, update_name

LATEST = datetime.max.replace(tzinfo=UTC)

STOOD_STILL = timedelta(minutes=10)
"""After a longer time between choosing a name and claiming it, an update of that name may have come and gone."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write one update, held by nobody else."""

    feed: Feed
    partition: str | None
    name: str
    owner: str
    token: str

    @property
    def prefix(self) -> str:
        """The prefix of the data files."""
        return self.feed.update_prefix(self.partition, self.name)

    @property
    def uri(self) -> str:
        """The URI of the folder for the data files, for other programs. The folder need not exist yet."""
        return self.feed.uri_of(self.prefix)


def claim(feed: Feed, partition: str | None, *, now: datetime, owner: str) -> Claim:
    """Claim the second `now`, or the first free second after it and after the newest update.

    `owner` names the writer (a run id) for people. One LIST, and one PUT unless others claim at the same time. A
    process that stood still in between claims again, so that it never takes the name of a removed update.
    """
    token = uuid4().hex
    content = json.dumps({"owner": owner, "token": token}, sort_keys=True).encode()
    while True:
        started = time.time()
        moment = max(now, _newest_begun(feed, partition, now) + SECOND)
        name = _first_free(feed, partition, moment, content)
        passed = timedelta(seconds=time.time() - started)
        if passed < STOOD_STILL:
            return Claim(feed, partition, name, owner, token)
        now += passed  # retention removes the claim that nobody uses


def _first_free(feed: Feed, partition: str | None, moment: datetime, content: bytes) -> str:
    """Claim the first free second from `moment` on; returns its name."""
    while True:
        name = update_name(moment)
        try:
            feed.blackboard.create(f"{feed.control(CLAIMS, partition)}{name}", content)
        except AlreadyExistsError:
            moment += SECOND
        else:
            return name


def _newest_begun(feed: Feed, partition: str | None, now: datetime) -> datetime:
    """When the newest update was begun, if that is not before `now`; else the second before `now`.

    Raises BadNameError if that is the last second that has a name.
    """
    prefix = feed.prefix(partition)
    later = list_folders(feed.blackboard, prefix, after=f"{prefix}{update_name(now)}")
    newest = max((begun(name) for name in later if is_update_name(name)), default=now - SECOND)
    if newest > LATEST - SECOND:
        raise BadNameError(f"{feed.title(partition)}: no update can follow {update_name(newest)}. Remove that folder.")
    return newest
