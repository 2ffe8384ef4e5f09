"""What landed: an entry for each content of each source, which makes its raw files count.

Here: the entry, and finding it again. Not here: when it is written (see `landing`), and what raw files
make of it (see `raw`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from dataclasses import fields as dataclass_fields
from datetime import date, datetime
from typing import Any

from feed_assets.blackboard.port import Blackboard
from feed_assets.sources.layout import ledger_prefix

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Landing:
    """What became of one file of a partner.

    Records: `read` = `landed` + `filtered` + the sum of `quarantined`. `malformed` of the landed ones did
    not parse as declared, but have a time. `quarantined` counts by reason; these records are JSON lines
    under `quarantine_key`. `partitions` are the hours that got a file, as `YYYY-MM-DD/HH`. `first_day` and
    `last_day` are those of all its records, the filtered ones included; None where none has a time. With
    `already_landed`, this content was there before, and the numbers are those of then.
    """

    source: str
    file: str
    sha256: str
    digest: str
    read: int
    landed: int
    filtered: int
    malformed: int
    quarantined: Mapping[str, int]
    quarantine_key: str | None
    partitions: tuple[str, ...]
    already_landed: bool = False
    first_day: str | None = None
    last_day: str | None = None

    @property
    def newest_day(self) -> str | None:
        """The newest day that it has a record of, or that got a file."""
        return max(filter(None, (self.last_day, *(hour[:10] for hour in self.partitions))), default=None)

    def covers(self, day: date) -> bool:
        """Whether the partner sent records of this day, or of days before and after it."""
        return bool(self.first_day and self.last_day and self.first_day <= str(day) <= self.last_day)


def entry_json(landing: Landing, *, landed_at: datetime) -> bytes:
    """The entry as it is stored."""
    fields = {"format": FORMAT, "landed_at": landed_at.isoformat(), **asdict(landing)}
    return json.dumps(fields, indent=1, sort_keys=True).encode()


def landing_from_json(fields: Mapping[str, Any]) -> Landing:
    """The landing of an entry; fields that a later version added are left out."""
    known = {field.name: fields[field.name] for field in dataclass_fields(Landing) if field.name in fields}
    return Landing(**{**known, "partitions": tuple(fields["partitions"])})


def find_entry(blackboard: Blackboard, source_key: str, digest: str) -> Landing | None:
    """The landing of this content, None where it did not land. One listing of the source's ledger."""
    after: str | None = ""
    while after is not None:
        page = blackboard.page(ledger_prefix(source_key), after=after)
        for entry in page.entries:
            if entry.key.endswith(f"/{digest}.json"):
                landing = landing_from_json(json.loads(blackboard.read(entry.key).data))
                return replace(landing, already_landed=True)
        after = page.next_after
    return None
